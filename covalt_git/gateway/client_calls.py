"""Calls of MCP clients: each runs in a thread, and its events are forwarded to the waiting client.

A call may outlive the request that made it, since protocol version 2026-07-28.  With an elicitation request, the response
carries it, and a further request brings the answers.  As a task, the client fetches its result later (:mod:`.tasks`).
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from anyio.to_thread import run_sync

from covalt_git import timestamps
from covalt_git.calls.background import BackgroundCall, BackgroundCalls
from covalt_git.calls.running import CallEvent, Follower
from covalt_git.elicitation.requests import Respondent
from covalt_git.errors import CovaltError
from covalt_git.gateway import elicitation
from covalt_git.gateway.protocol import is_modern
from covalt_git.gateway.tasks.task import TaskPlace
from covalt_git.models.outcomes import Log, Progress

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    import mcp_types as types
    from mcp.server import ServerRequestContext

    from covalt_git.elicitation.requests import Inquiry
    from covalt_git.models.elicitation import QuestionKind

Result = TypeVar("Result")

Begin = Callable[[TaskPlace], None]
"""Function that a call calls when it may become a task, which is before it waits for its chat."""

MOST_CALLS = 64
"""Number of calls that run or wait at a time; further calls wait for one of them to end."""


class _Call(BackgroundCall[Progress | Log, Any]):
    """A call of an MCP client, and its elicitation requests.

    Attributes:
        changed_at: the time of its newest event.
        message: the message of its newest progress.
    """

    def __init__(self, kinds: frozenset[QuestionKind], early: Mapping[str, Any]) -> None:
        super().__init__()
        self.token = secrets.token_urlsafe(16)
        self.lacking: set[QuestionKind] = set()
        respondent = Respondent(kinds, self.ask, self.lacking.add)
        self.follower = Follower(self._notify, self.cancel, respondent)
        self.changed_at = timestamps.now()
        self.message = ""
        self._place: TaskPlace | None = None
        self._early = dict(early)

    @property
    def place(self) -> TaskPlace:
        """The place of a call that can become a task."""
        assert self._place is not None
        return self._place

    def begin_task(self, place: TaskPlace) -> None:
        """Let the call become a task."""
        with self._waking():
            self._place = place

    def is_held(self, waited: bool) -> bool:  # noqa: FBT001 - the only fact about its client
        """Return whether the client gets a task now; ``waited`` is whether it has waited for the result."""
        place = self._place
        return place is not None and not self.is_over() and (waited or place.at_once)

    def end(self, outcome: Any, *args: Any, **more: Any) -> None:
        """End the call; also before a client reads when."""
        self.changed_at = timestamps.now()
        super().end(outcome, *args, **more)

    def _notify(self, event: CallEvent) -> None:
        if isinstance(event, Progress):
            self.message, self.changed_at = event.message or self.message, timestamps.now()
        if isinstance(event, Progress | Log):
            self.report(event, len(event.message))

    def ask(self, inquiry: Inquiry) -> None:
        """Publish an elicitation request; answers that the client sent in advance are used once."""
        # Once: a later question of the same key must not get an answer to an earlier one.
        early_answers = {
            key: self._early.pop(key) for key in [*inquiry.open()] if key in self._early
        }
        elicitation.deliver(inquiry, early_answers)
        self.changed_at = timestamps.now()
        super().ask(inquiry)


ClientTask = _Call
"""A call that a client holds as a task."""


class Calls:
    """Calls by the clients of one MCP endpoint of covalt-git; ``log`` sends a log message of a call to its client."""

    def __init__(
        self, log: Callable[[ServerRequestContext[Any, Any], Log], Awaitable[None]]
    ) -> None:
        self._log = log
        # Its own limiter: calls that wait for users must not take the threads that answer lists.
        self._threads = anyio.CapacityLimiter(MOST_CALLS)
        self._running: dict[_Call, asyncio.Task[None]] = {}
        self._asking: BackgroundCalls[_Call] = BackgroundCalls()
        self._tasks: BackgroundCalls[_Call] = BackgroundCalls()

    def task(self, task_id: str) -> ClientTask | None:
        """Return the call of a task that runs in this process, or ended in the last minutes; of any principal."""
        return self._tasks.get(task_id)

    async def end(self, grace_s: float, why: str) -> None:
        """Cancel all calls, with the reason ``why``, and wait at most ``grace_s`` seconds for their end."""
        running = [*self._running]
        for call in running:
            call.cancel.set_as(why)
        # A call that does not react must not keep the process from ending.
        with anyio.move_on_after(grace_s):
            for call in running:
                await call.until(call.is_over)

    async def run(
        self,
        ctx: ServerRequestContext[Any, Any],
        work: Callable[[Follower, Begin], Result],
        *,
        task_after_s: float | None = None,
        on_end: Callable[[Any], Awaitable[None]] | None = None,
    ) -> Result | types.InputRequiredResult | TaskPlace:
        """Run ``work`` in a thread and return its result, or its elicitation request for a modern client.

        With ``task_after_s``, its client gets the place of the task instead if the result takes longer than that;
        ``on_end`` is called with the result of the task.

        Events are sent to the client while a request is open.  If the client cancels, ``work`` is cancelled
        too, and this waits for its end, so that its files are committed.

        Raises:
            CovaltError: ``unknown_call``, if the request continues a call that has expired.
            MCPError: if the call failed because the client lacks a capability.
        """
        modern = is_modern(ctx)
        state = elicitation.state_of(ctx) if modern else None
        answers = elicitation.responses_of(ctx) if modern else {}
        if state is None:
            call, sent = _Call(elicitation.kinds_of(ctx), answers), 0
            # Not in the task group of the request: the call may outlive it.
            self._running[call] = asyncio.create_task(self._run(call, work, on_end))
        else:
            waiting = self._asking.get(state[0])
            if waiting is None:
                raise CovaltError(
                    "the call that this request continues has expired",
                    hint="make the call again",
                    code="unknown_call",
                    http_status=404,
                )
            call, sent, inquiry = waiting, waiting.count, waiting.asking()
            call.cancel.left = False
            # A replayed request has the answers of an earlier inquiry
            # (test_a_replayed_answer_returns_the_first_result).
            if inquiry is not None and inquiry.id == state[1]:
                elicitation.deliver(inquiry, answers)
        try:
            needed = await self._follow(ctx, call, sent, modern=modern, task_after_s=task_after_s)
        except anyio.get_cancelled_exc_class():
            call.cancel.set_as("its client cancelled it")
            # The client has left, but the files of the call still have to be committed.
            with anyio.CancelScope(shield=True):
                await call.until(call.is_over)
            raise
        if isinstance(needed, TaskPlace):
            self._tasks.find_or_add(needed.task_id, call)
            return needed
        # Until the client comes back, another call of it may end this one, which holds its chat.
        if needed is not None:
            self._asking.find_or_add(call.token, call)
            call.cancel.left = True
            return needed
        if isinstance(call.outcome, Exception):
            raise call.outcome
        if modern:
            elicitation.check_capabilities(call.outcome, call.lacking)
        assert call.outcome is not None
        outcome: Result = call.outcome
        return outcome

    async def _run(
        self,
        call: _Call,
        work: Callable[[Follower, Begin], Any],
        on_end: Callable[[Any], Awaitable[None]] | None,
    ) -> None:
        """Run ``work`` in one of the threads, and end the call with its result or error."""
        outcome = None
        try:
            outcome = await run_sync(work, call.follower, call.begin_task, limiter=self._threads)
        except Exception as error:  # noqa: BLE001 - `run` raises it
            outcome = error
        finally:
            call.end(outcome)
            del self._running[call]
        place = call._place  # noqa: SLF001 - of this module
        if on_end is not None and place is not None and self._tasks.get(place.task_id) is call:
            await on_end(outcome)

    async def _follow(
        self,
        ctx: ServerRequestContext[Any, Any],
        call: _Call,
        sent: int,
        *,
        modern: bool,
        task_after_s: float | None,
    ) -> types.InputRequiredResult | TaskPlace | None:
        """Wait for the end of a call; return its elicitation request for a modern client, or the place of its task.

        The first ``sent`` events of the call are already sent; the others are sent to the client.
        """
        current: Inquiry | None = None
        due = None if task_after_s is None else time.monotonic() + task_after_s

        def is_held() -> bool:
            return due is not None and call.is_held(time.monotonic() >= due)

        def has_news() -> bool:
            is_asking = call.asking() not in {None, current}
            return call.count > sent or call.is_over() or is_asking or is_held()

        needed: types.InputRequiredResult | TaskPlace | None = None
        async with anyio.create_task_group() as group:
            while needed is None:
                left_s = 0.0 if due is None else due - time.monotonic()
                # After that time, a call that can only now become a task wakes this loop itself.
                with anyio.move_on_after(left_s if left_s > 0 else None):
                    await call.until(has_news)
                if is_held():
                    return call.place
                over, inquiry = call.is_over(), call.asking()
                events, sent = call.after(sent)
                for event in events:
                    await self._forward(ctx, event)
                if inquiry is None or inquiry is current:
                    if over:
                        break
                elif modern:
                    needed = elicitation.input_required(inquiry, call.token)
                else:
                    # Each inquiry is sent once, although every event of the call wakes this loop.
                    current = inquiry
                    group.start_soon(elicitation.send, ctx, inquiry)
        return needed

    async def _forward(self, ctx: ServerRequestContext[Any, Any], event: Progress | Log) -> None:
        if isinstance(event, Progress):
            await ctx.session.report_progress(event.done, event.total, event.message or None)
        else:
            await self._log(ctx, event)
