"""Calls that run in threads while their clients wait: what they tell is passed on, and they can be ended.

A call that asks something may outlive the request that made it: since 2026-07-28 that request is
answered with the question, and another one brings the answer.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import anyio
from anyio.to_thread import run_sync

from covalt_git.calls.running import CallEvent, Follower
from covalt_git.elicitation.requests import Inquiry, Respondent
from covalt_git.errors import CovaltError
from covalt_git.gateway import elicitation
from covalt_git.gateway.eras import is_modern
from covalt_git.runtime.jobs import Log, Progress

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    import mcp_types as types
    from mcp.server import ServerRequestContext

    from covalt_git.models.elicitation import QuestionKind

Result = TypeVar("Result")

MOST_CALLS = 64
"""How many calls run or wait for their chats or answers at a time; further ones wait for them."""

MOST_KEPT = 256
KEPT_S = 600.0
"""How many calls that have asked something are known, and for how long once they have ended."""


class UnknownCallError(CovaltError):
    """The call that a client goes on with is not known any more."""

    code = "unknown_call"
    http_status = 404


class _Call(Generic[Result]):
    """A call in a thread; all but what the thread does happens in the event loop."""

    def __init__(self, kinds: frozenset[QuestionKind], early: Mapping[str, Any]) -> None:
        self.token = secrets.token_urlsafe(16)
        self.lacking: set[QuestionKind] = set()
        respondent = Respondent(kinds, self._asked, self.lacking.add)
        self.follower = Follower(self._told, respondent=respondent)
        self.inquiry: Inquiry | None = None
        self.outcome: Result | Exception | None = None
        self.ended_at: float | None = None
        self.ended = anyio.Event()
        self.listener: Callable[[CallEvent], None] | None = None
        self._unheard: list[CallEvent] | None = []  # None while nobody is there to hear of it
        self._early = dict(early)
        self._loop = asyncio.get_running_loop()
        self._changed = anyio.Event()

    async def run(self, work: Callable[[Follower], Result], threads: anyio.CapacityLimiter) -> None:
        """Run ``work`` to its end in one of the threads."""
        try:
            self.outcome = await run_sync(_outcome, work, self.follower, limiter=threads)
        finally:
            self.ended_at = time.monotonic()
            self.ended.set()
            self._tell_of_change()

    def _told(self, event: CallEvent) -> None:
        if isinstance(event, Progress | Log):
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._pass, event)

    def _pass(self, event: CallEvent) -> None:
        if self.listener is not None:
            self.listener(event)
        elif self._unheard is not None:
            self._unheard.append(event)
            self._tell_of_change()

    def listen(self, listener: Callable[[CallEvent], None]) -> None:
        """Tell ``listener`` from now on, and first what nobody has heard yet."""
        unheard, self._unheard = self._unheard, None
        self.listener = listener
        for event in unheard or ():
            listener(event)

    async def ends_silently(self) -> bool:
        """Wait until there is something to pass on, or the end, and tell whether it came to that first."""
        self._unheard = self._unheard or []
        while not (self.ended.is_set() or self._unheard or self.open_inquiry()):
            await self._changed.wait()
        return self.ended.is_set() and not self._unheard

    def _asked(self, inquiry: Inquiry) -> None:
        """Take note of an inquiry; what the client answered before it was asked is taken once."""
        known = {key: self._early.pop(key) for key in [*inquiry.open()] if key in self._early}
        elicitation.deliver(inquiry, known)

        def ask() -> None:
            self.inquiry = inquiry
            self._tell_of_change()

        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(ask)

    def _tell_of_change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def open_inquiry(self) -> Inquiry | None:
        """Return what it asks now, if it does."""
        return self.inquiry if self.inquiry is not None and self.inquiry.open() else None

    async def until_ended_or_asking(self) -> None:
        """Wait until one of both is so."""
        while not self.ended.is_set() and self.open_inquiry() is None:
            await self._changed.wait()


class Calls:
    """The calls of one server; each has a thread while it runs.

    ``log`` tells a client what its call logs.
    """

    def __init__(
        self, log: Callable[[ServerRequestContext[Any, Any], Log], Awaitable[None]]
    ) -> None:
        self._log = log
        self._threads = anyio.CapacityLimiter(MOST_CALLS)
        self._running: dict[_Call[Any], asyncio.Task[None]] = {}
        self._asking: OrderedDict[str, _Call[Any]] = OrderedDict()

    async def end(self, grace_s: float) -> None:
        """End all of them, and wait until they have ended, at most so many seconds."""
        running = [*self._running]
        for call in running:
            call.follower.cancel.set_as("the server was stopped")
        with anyio.move_on_after(grace_s):
            for call in running:
                await call.ended.wait()

    async def run(
        self, ctx: ServerRequestContext[Any, Any], work: Callable[[Follower], Result]
    ) -> Result | types.InputRequiredResult:
        """Return what ``work`` returns, or what it asks a client that answers by a further request.

        What it tells is told to the client while a request is under way.  When the client cancels, ``work``
        is told so and has its end waited for: what it wrote is kept.

        Raises:
            UnknownCallError: where the call that the request goes on with is not known any more.
            MCPError: where it failed for want of something that the client did not say it can do.
        """
        modern = is_modern(ctx)
        state = elicitation.state_of(ctx) if modern else None
        if state is None:
            early = elicitation.responses_of(ctx) if modern else {}
            call: _Call[Result] = self._begun(ctx, work, early)
        else:
            call = self._known(state[0])
            if call.inquiry is not None and call.inquiry.id == state[1]:
                elicitation.deliver(call.inquiry, elicitation.responses_of(ctx))
        try:
            needed = await self._followed(ctx, call, modern=modern)
        except anyio.get_cancelled_exc_class():
            call.follower.cancel.set_as("its client cancelled it")
            with anyio.CancelScope(shield=True):
                await call.ended.wait()
            raise
        if needed is not None:
            self._keep(call)
            return needed
        if isinstance(call.outcome, Exception):
            raise call.outcome
        if modern:
            elicitation.check_capabilities(call.outcome, call.lacking)
        assert call.outcome is not None
        return call.outcome

    def _begun(
        self,
        ctx: ServerRequestContext[Any, Any],
        work: Callable[[Follower], Result],
        early: Mapping[str, Any],
    ) -> _Call[Result]:
        call: _Call[Result] = _Call(elicitation.kinds_of(ctx), early)

        # Not in the request's own task group, as it may go on without it.
        self._running[call] = asyncio.create_task(call.run(work, self._threads))
        self._running[call].add_done_callback(lambda _: self._running.pop(call))
        return call

    def _known(self, token: str) -> _Call[Any]:
        now = time.monotonic()
        for old in [*self._asking.values()]:
            if old.ended_at is not None and now - old.ended_at > KEPT_S:
                del self._asking[old.token]
        call = self._asking.get(token)
        if call is None:
            raise UnknownCallError(
                "the call that this goes on with is not known any more", hint="make it again"
            )
        return call

    def _keep(self, call: _Call[Any]) -> None:
        """Let further requests find a call; of too many, those that have ended go first."""
        self._asking[call.token] = call
        self._asking.move_to_end(call.token)
        while len(self._asking) > MOST_KEPT:
            ended = (old for old in self._asking.values() if old.ended.is_set())
            oldest = next(ended, next(iter(self._asking.values())))
            oldest.follower.cancel.set_as("too many calls wait for an answer")
            del self._asking[oldest.token]

    async def _followed(
        self, ctx: ServerRequestContext[Any, Any], call: _Call[Any], *, modern: bool
    ) -> types.InputRequiredResult | None:
        """Wait until a call has ended; or return what it asks, for a client that then comes again."""
        if await call.ends_silently():
            return None
        send, receive = anyio.create_memory_object_stream[CallEvent](float("inf"))

        def put(event: CallEvent) -> None:
            with suppress(anyio.ClosedResourceError):  # told when all had ended
                send.send_nowait(event)

        async def pass_on() -> None:
            async with receive:
                async for event in receive:
                    if isinstance(event, Progress):
                        total, message = event.total, event.message or None
                        await ctx.session.report_progress(event.done, total, message)
                    elif isinstance(event, Log):
                        await self._log(ctx, event)

        call.listen(put)
        async with send, anyio.create_task_group() as group:
            group.start_soon(pass_on)
            needed = None
            while needed is None:
                await call.until_ended_or_asking()
                inquiry = call.open_inquiry()
                if inquiry is None:
                    break
                if modern:
                    needed = elicitation.input_required(inquiry, call.token)
                else:
                    await elicitation.put(ctx, inquiry)
            if call.listener is put:
                call.listener = None
            send.close()  # once all of it was passed on, the result follows
        return needed


def _outcome(work: Callable[[Follower], Result], follower: Follower) -> Result | Exception:
    """Return what comes of it, an error too: task groups would wrap one that is raised."""
    try:
        return work(follower)
    except Exception as error:  # noqa: BLE001 - raised again by whoever waits
        return error
