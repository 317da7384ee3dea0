"""How a thread waits for what happens on the event loop: what it is told, it is told in that thread."""

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

_SLICE_S = 0.1
"""How often a waiting thread looks whether it was cancelled, in seconds."""


def _unheard(*_: object) -> None:
    """Take note of nothing."""


class EventHandlers(NamedTuple):
    """What whoever waits is told, and what it can be asked.

    Attributes:
        starting: lines about a server that is being started.
        progress: how far a call is: done, the total if it is known, and words.
        log: something that the server has to say: the level and the words.
        ask: answers a question of the server, method and parameters as the protocol has them; the future
            is cancelled once nobody waits for the answer any more.  None where nobody is there.
    """

    starting: Callable[[str], None] = _unheard
    progress: Callable[[float, float | None, str], None] = _unheard
    log: Callable[[str, str], None] = _unheard
    ask: Callable[[str, JsonObject, Future[None]], JsonObject] | None = None


class Voice:
    """The loop's side of somebody who waits in a thread."""

    def __init__(self, *, can_ask: bool) -> None:
        self.can_ask = can_ask
        self._events: queue.SimpleQueue[Callable[[EventHandlers], None] | None] = (
            queue.SimpleQueue()
        )
        self._asked: list[Future[None]] = []

    def say(self, event: Callable[[EventHandlers], None]) -> None:
        """Have something done in the thread that waits."""
        self._events.put(event)

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        """Return the answers of the waiting thread to an elicitation request.

        Raises:
            CovaltError: as ``EventHandlers.ask`` does.
        """
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[JsonObject] = loop.create_future()
        asked: Future[None] = Future()
        answered.add_done_callback(lambda _: asked.cancel())
        self._asked.append(asked)

        def settle(answer: JsonObject | Exception) -> None:
            if answered.done():
                return
            if isinstance(answer, Exception):
                answered.set_exception(answer)
            else:
                answered.set_result(answer)

        def put(hears: EventHandlers) -> None:
            assert hears.ask is not None
            try:
                answer: JsonObject | Exception = hears.ask(method, params, asked)
            except Exception as error:  # noqa: BLE001 - raised again where it is waited for
                answer = error
            loop.call_soon_threadsafe(settle, answer)

        self._events.put(put)
        return await answered

    def handle_events_until_done(self, done: Callable[[], bool], hears: EventHandlers) -> None:
        """Do in this thread what was said so far, or comes within a moment."""
        while True:
            try:
                event = self._events.get(timeout=0 if done() else _SLICE_S)
            except queue.Empty:
                return
            if event is None:
                return
            event(hears)

    def end(self) -> None:
        """Wake whoever waits, and ask nothing any more."""
        self._events.put(None)
        for one in self._asked:
            one.cancel()


def wait(
    loop: asyncio.AbstractEventLoop,
    work: Callable[[Voice], Coroutine[Any, Any, Result]],
    hears: EventHandlers,
    cancel: threading.Event | None = None,
) -> Result:
    """Return what ``work`` does on the loop, hearing what is said meanwhile; ``cancel`` ends it.

    Raises:
        concurrent.futures.CancelledError: when it was cancelled.
    """
    voice = Voice(can_ask=hears.ask is not None)
    future = asyncio.run_coroutine_threadsafe(work(voice), loop)
    future.add_done_callback(lambda _: voice.end())
    try:
        while not future.done():
            voice.handle_events_until_done(future.done, hears)
            if cancel is not None and cancel.is_set():
                future.cancel()
        voice.handle_events_until_done(future.done, hears)
        return future.result()
    except BaseException:
        future.cancel()
        raise
