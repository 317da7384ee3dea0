"""Background calls: their events, cancellation and outcome, for clients that follow or reconnect.

A :class:`BackgroundCall` runs in a thread of its own and stores its events and its outcome.  Clients
wait for them in a thread or in an event loop.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from covalt_git.calls.running import Cancel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from covalt_git.elicitation.requests import Inquiry

Event = TypeVar("Event")
Outcome = TypeVar("Outcome")
Stored = TypeVar("Stored", bound="BackgroundCall[Any, Any]")

MAX_STORED_EVENTS = 4096
MAX_STORED_EVENT_BYTES = 4 << 20
"""Largest number and total size of the stored events of one call; the oldest are dropped first."""

MAX_STORED_S = 600.0
MAX_STORED_CALLS = 256
MAX_STORED_BYTES = 64 << 20
"""Longest time, number and total size for which ended calls are stored."""


class BackgroundCall(Generic[Event, Outcome]):
    """A call that runs in a thread of its own; thread-safe.

    Attributes:
        cancel: cancels the call.
        outcome: the result, after the call has ended.
        ended_at: the time of the end on the monotonic clock, in seconds.
        count: the number of events so far; events are numbered from 1.
        size: the total size of the stored events, in bytes.
        changed: lock of all fields; notified of each event, each elicitation request and the end.
    """

    def __init__(self) -> None:
        self.cancel = Cancel()
        self.outcome: Outcome | None = None
        self.ended_at: float | None = None
        self.count = 0
        self.size = 0
        self.changed = threading.Condition()
        self._inquiry: Inquiry | None = None
        self._events: deque[tuple[int, Event]] = deque()
        self._wakers: list[Callable[[], object]] = []

    def is_over(self) -> bool:
        return self.ended_at is not None

    def asking(self) -> Inquiry | None:
        """Return the elicitation request that is open now, or None."""
        inquiry = self._inquiry
        return inquiry if inquiry is not None and inquiry.open() else None

    def after(self, number: int) -> tuple[list[Event], int]:
        """Return the stored events after event ``number``, and the number of the last event."""
        with self.changed:
            new = max(0, self.count - number)
            return [event for _, event in self._events][-new:] if new else [], self.count

    def report(self, event: Event, size: int) -> None:
        """Add an event of ``size`` bytes, unless the call has ended."""
        with self._waking():
            if not self.is_over():
                self._add(event, size)
            while len(self._events) > MAX_STORED_EVENTS or self.size > MAX_STORED_EVENT_BYTES:
                self.size -= self._events.popleft()[0]

    def end(self, outcome: Outcome | None, last: Event | None = None, size: int = 0) -> None:
        """End the call; a last event is stored whatever its size."""
        with self._waking():
            self.outcome = outcome
            self.ended_at = time.monotonic()
            if last is not None:
                self._add(last, size)

    def ask(self, inquiry: Inquiry) -> None:
        """Publish an elicitation request to the clients that wait."""
        with self._waking():
            self._inquiry = inquiry

    async def until(self, ready: Callable[[], object]) -> None:
        """Wait in an event loop until ``ready`` returns a true value; threads use ``changed`` instead."""
        changed = asyncio.Event()
        # An asyncio.Event is not thread-safe, and the events come from the call's own thread.
        wake = partial(asyncio.get_running_loop().call_soon_threadsafe, changed.set)
        # Registered before the first check, so that an event between the check and the wait still wakes the loop.
        self._wakers.append(wake)
        try:
            while not ready():
                await changed.wait()
                changed.clear()
        finally:
            self._wakers.remove(wake)

    def _add(self, event: Event, size: int) -> None:
        self.count += 1
        self.size += size
        self._events.append((size, event))

    @contextmanager
    def _waking(self) -> Iterator[None]:
        with self.changed:
            yield
            self.changed.notify_all()
        # A copy, because a waiter removes itself in the thread of its event loop meanwhile.
        for wake in [*self._wakers]:
            with suppress(RuntimeError):  # its loop is closed
                wake()


class BackgroundCalls(Generic[Stored]):
    """Background calls by key, while they run and until they expire; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[str, Stored] = {}

    def get(self, key: str) -> Stored | None:
        """Return a call; None if it does not exist or has expired."""
        with self._lock:
            self._remove_expired()
            return self._calls.get(key)

    def find_or_add(self, key: str, new: Stored, *, replace_ended: bool = False) -> Stored:
        """Return the call of a key; if it does not exist, store and return ``new``.

        With ``replace_ended``, a call that ended as pending approval is replaced by the approved one.
        """
        with self._lock:
            self._remove_expired()
            call = self._calls.setdefault(key, new)
            if replace_ended and call.is_over():
                call = self._calls[key] = new
            return call

    def drop(self, key: str, call: Stored) -> None:
        with self._lock:
            if self._calls.get(key) is call:
                del self._calls[key]

    def _remove_expired(self) -> None:
        """Remove expired calls, then the oldest ended calls above the limits."""
        ended = sorted(
            (call.ended_at, key) for key, call in self._calls.items() if call.ended_at is not None
        )
        size = sum(self._calls[key].size for _, key in ended)
        for left, (ended_at, key) in zip(range(len(ended), 0, -1), ended, strict=True):
            is_old = ended_at < time.monotonic() - MAX_STORED_S
            if is_old or left > MAX_STORED_CALLS or size > MAX_STORED_BYTES:
                size -= self._calls.pop(key).size
