"""Calls of MCP clients: each runs in a thread, and its events are forwarded to the waiting client.

A call with an elicitation request may outlive the request that made it: in protocol version 2026-07-28
the response carries the elicitation request, and a further request brings the answers.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from anyio.to_thread import run_sync

from covalt_git.calls.background import BackgroundCall, BackgroundCalls
from covalt_git.calls.running import CallEvent, Follower
from covalt_git.elicitation.requests import Respondent
from covalt_git.errors import CovaltError
from covalt_git.gateway import elicitation
from covalt_git.gateway.protocol import is_modern
from covalt_git.models.outcomes import Log, Progress

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    import mcp_types as types
    from mcp.server import ServerRequestContext

    from covalt_git.elicitation.requests import Inquiry
    from covalt_git.models.elicitation import QuestionKind

Result = TypeVar("Result")

MOST_CALLS = 64
"""Number of calls that run or wait at a time; further calls wait for one of them to end."""


class _Call(BackgroundCall[Progress | Log, Any]):
    """A call of an MCP client, and its elicitation requests."""

    def __init__(self, kinds: frozenset[QuestionKind], early: Mapping[str, Any]) -> None:
        super().__init__()
        self.token = secrets.token_urlsafe(16)
        self.lacking: set[QuestionKind] = set()
        respondent = Respondent(kinds, self.ask, self.lacking.add)
        self.follower = Follower(self._notify, self.cancel, respondent)
        self._early = dict(early)

    def _notify(self, event: CallEvent) -> None:
        if isinstance(event, Progress | Log):
            self.report(event, len(event.message))

    def ask(self, inquiry: Inquiry) -> None:
        """Publish an elicitation request; answers that the client sent in advance are used once."""
        # Once: a later question of the same key must not get an answer to an earlier one.
        early_answers = {
            key: self._early.pop(key) for key in [*inquiry.open()] if key in self._early
        }
        elicitation.deliver(inquiry, early_answers)
        super().ask(inquiry)


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

    async def end(self, grace_s: float) -> None:
        """Cancel all calls, and wait at most ``grace_s`` seconds for their end."""
        running = [*self._running]
        for call in running:
            call.cancel.set_as("the server was stopped")
        # A call that does not react must not keep the process from ending.
        with anyio.move_on_after(grace_s):
            for call in running:
                await call.until(call.is_over)

    async def run(
        self, ctx: ServerRequestContext[Any, Any], work: Callable[[Follower], Result]
    ) -> Result | types.InputRequiredResult:
        """Run ``work`` in a thread and return its result, or its elicitation request for a modern client.

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
            self._running[call] = asyncio.create_task(self._run(call, work))
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
            needed = await self._follow(ctx, call, sent, modern=modern)
        except anyio.get_cancelled_exc_class():
            call.cancel.set_as("its client cancelled it")
            # The client has left, but the files of the call still have to be committed.
            with anyio.CancelScope(shield=True):
                await call.until(call.is_over)
            raise
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

    async def _run(self, call: _Call, work: Callable[[Follower], Any]) -> None:
        """Run ``work`` in one of the threads, and end the call with its result or error."""
        outcome = None
        try:
            outcome = await run_sync(work, call.follower, limiter=self._threads)
        except Exception as error:  # noqa: BLE001 - `run` raises it
            outcome = error
        finally:
            call.end(outcome)
            del self._running[call]

    async def _follow(
        self, ctx: ServerRequestContext[Any, Any], call: _Call, sent: int, *, modern: bool
    ) -> types.InputRequiredResult | None:
        """Wait for the end of a call, or return its elicitation request for a modern client.

        The first ``sent`` events of the call are already sent; the others are sent to the client.
        """
        current: Inquiry | None = None

        def has_news() -> bool:
            return call.count > sent or call.is_over() or call.asking() not in {None, current}

        needed = None
        async with anyio.create_task_group() as group:
            while needed is None:
                await call.until(has_news)
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
