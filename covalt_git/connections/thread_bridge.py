"""Bridge from a caller's thread to the event loop: the thread waits, and handles events meanwhile."""

from __future__ import annotations

import asyncio
import queue
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Coroutine

    from covalt_git.json_values import JsonObject

Result = TypeVar("Result")

_POLL_S = 0.1
"""Seconds between two checks whether the caller has cancelled."""


def _ignore(*_: object) -> None:
    """Ignore an event."""


class EventHandlers(NamedTuple):
    """Callbacks of a caller, which run in its thread.

    Attributes:
        starting: receives lines about a server that starts.
        progress: receives the progress of a call: done, total or None, and a message.
        log: receives log messages of the server: level and message.
        ask: answers an elicitation: method and parameters of the protocol, and a future that is cancelled
            when the server no longer waits for the answer.  None without a user.
    """

    starting: Callable[[str], None] = _ignore
    progress: Callable[[float, float | None, str], None] = _ignore
    log: Callable[[str, str], None] = _ignore
    ask: Callable[[str, JsonObject, Future[None]], JsonObject] | None = None


class CallerThread:
    """Interface of the event loop to a caller's thread, which receives events and elicitations."""

    def __init__(self, *, can_elicit: bool) -> None:
        self.can_elicit = can_elicit
        self._events: queue.SimpleQueue[Callable[[EventHandlers], None] | None] = (
            queue.SimpleQueue()
        )
        self._elicitations: list[Future[None]] = []

    def send(self, event: Callable[[EventHandlers], None]) -> None:
        """Send an event to the caller's thread."""
        self._events.put(event)

    async def elicit(self, method: str, params: JsonObject) -> JsonObject:
        """Send an elicitation to the caller's thread, and return the answer.

        Raises:
            CovaltError: as ``EventHandlers.ask`` does.
        """
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[JsonObject] = loop.create_future()
        pending: Future[None] = Future()
        reply.add_done_callback(lambda _: pending.cancel())
        self._elicitations.append(pending)

        def set_reply(answer: JsonObject | Exception) -> None:
            if reply.done():
                return
            if isinstance(answer, Exception):
                reply.set_exception(answer)
            else:
                reply.set_result(answer)

        def ask_user(handlers: EventHandlers) -> None:
            assert handlers.ask is not None
            try:
                answer: JsonObject | Exception = handlers.ask(method, params, pending)
            except Exception as error:  # noqa: BLE001 - raised again on the loop
                answer = error
            loop.call_soon_threadsafe(set_reply, answer)

        self._events.put(ask_user)
        return await reply

    def handle_events_until_done(self, done: Callable[[], bool], handlers: EventHandlers) -> None:
        """Handle queued events in this thread, until none arrives for ``_POLL_S``."""
        while True:
            try:
                event = self._events.get(timeout=0 if done() else _POLL_S)
            except queue.Empty:
                return
            if event is None:
                return
            event(handlers)

    def end(self) -> None:
        """Wake the caller's thread, and withdraw open elicitations."""
        self._events.put(None)
        for one in self._elicitations:
            one.cancel()


def run_on_loop(
    loop: asyncio.AbstractEventLoop,
    work: Callable[[CallerThread], Coroutine[Any, Any, Result]],
    handlers: EventHandlers,
    cancel: threading.Event | None = None,
) -> Result:
    """Run ``work`` on the loop, handle its events in this thread, and return its result.

    Raises:
        concurrent.futures.CancelledError: if ``cancel`` was set.
    """
    caller = CallerThread(can_elicit=handlers.ask is not None)
    future = asyncio.run_coroutine_threadsafe(work(caller), loop)
    future.add_done_callback(lambda _: caller.end())
    try:
        while not future.done():
            caller.handle_events_until_done(future.done, handlers)
            if cancel is not None and cancel.is_set():
                future.cancel()
        caller.handle_events_until_done(future.done, handlers)
        return future.result()
    except BaseException:
        future.cancel()
        raise
