"""Background calls: the events of a call while it runs, its cancellation, and taking it up again.

A :class:`BackgroundCall` keeps the events and the outcome of a call that runs in a thread of its own,
so that a client that asked for it, or comes back, waits for them in a thread or in an event loop.
:data:`RUNNING` finds the calls of this process by their ids.  A call that runs in another process, as
one of the command line, is that process's to cancel.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from covalt_git.elicitation.requests import NOBODY, Respondent
from covalt_git.errors import CovaltError
from covalt_git.runtime.jobs import Log, Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from covalt_git.elicitation.requests import Inquiry

Event = TypeVar("Event")
Outcome = TypeVar("Outcome")
Kept = TypeVar("Kept", bound="BackgroundCall[Any, Any]")

KEPT_EVENTS = 4096
KEPT_EVENT_BYTES = 4 << 20
"""How many events of one call are kept, and how large they may be; the first ones go first."""

KEPT_S = 600.0
KEPT_CALLS = 256
KEPT_BYTES = 64 << 20
"""For how long, of how many calls that have ended, and up to which size events and outcomes are kept."""


class NotRunningError(CovaltError):
    """No call of that id runs in this process."""

    code = "not_running"
    http_status = 409


@dataclass(frozen=True, slots=True)
class Started:
    """A call has begun to run, under this id."""

    call_id: str


@dataclass(frozen=True, slots=True)
class Installing:
    """What the toolset's Python needs is being installed; ``message`` is what the installer said."""

    message: str


CallEvent = Started | Installing | Progress | Log


class Cancel(threading.Event):
    """Set by anybody, it ends a call; ``why`` is what the call's record says then."""

    why = "a person stopped it"

    def set_as(self, why: str) -> None:
        """Set it for another reason than a person's wish."""
        if not self.is_set():
            self.why = why
            self.set()


@dataclass(frozen=True, slots=True)
class Follower:
    """Somebody who follows a call: is told what happens, and may set ``cancel`` at any time.

    ``respondent`` answers what the call asks while it runs.
    """

    tell: Callable[[CallEvent], None] = lambda _: None
    cancel: Cancel = field(default_factory=Cancel)
    respondent: Respondent = NOBODY


class BackgroundCall(Generic[Event, Outcome]):
    """A call that runs in a thread of its own: its events, its inquiry and its end; for many threads.

    Attributes:
        cancel: ends it.
        outcome: what came of it, once it is over.
        ended_at: when that was, by the monotonic clock.
        count: how many events there were; they are numbered from 1.
        size: how large those are that are kept, in bytes.
        changed: is notified of each event, of an inquiry and of the end; and locks all of it.
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
        """Tell whether nothing comes any more."""
        return self.ended_at is not None

    def asking(self) -> Inquiry | None:
        """Return the inquiry that waits for answers now, if there is one."""
        found = self._inquiry
        return found if found is not None and found.open() else None

    def after(self, number: int) -> tuple[list[Event], int]:
        """Return the kept events after a number, and the number of the last one."""
        with self.changed:
            new = max(0, self.count - number)
            return [event for _, event in self._events][-new:] if new else [], self.count

    def report(self, event: Event, size: int) -> None:
        """Add an event of so many bytes, unless the call is over."""
        with self._waking():
            if not self.is_over():
                self._add(event, size)
            while len(self._events) > KEPT_EVENTS or self.size > KEPT_EVENT_BYTES:
                self.size -= self._events.popleft()[0]

    def end(self, outcome: Outcome | None, last: Event | None = None, size: int = 0) -> None:
        """End the call, with a last event, which is kept however large it is."""
        with self._waking():
            self.outcome = outcome
            self.ended_at = time.monotonic()
            if last is not None:
                self._add(last, size)

    def ask(self, inquiry: Inquiry) -> None:
        """Show an inquiry to clients that wait."""
        with self._waking():
            self._inquiry = inquiry

    async def until(self, ready: Callable[[], object]) -> None:
        """Wait in an event loop until ``ready`` returns something true; threads wait for ``changed``."""
        woken = asyncio.Event()
        wake = partial(asyncio.get_running_loop().call_soon_threadsafe, woken.set)
        self._wakers.append(wake)
        try:
            while not ready():
                await woken.wait()
                woken.clear()
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
        for wake in [*self._wakers]:
            with suppress(RuntimeError):  # its loop is closed
                wake()


class BackgroundCalls(Generic[Kept]):
    """Background calls by their keys, while they run and for a while afterwards; for many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[str, Kept] = {}

    def get(self, key: str) -> Kept | None:
        """Return a call, or None where it is not kept."""
        with self._lock:
            self._forget()
            return self._calls.get(key)

    def find_or_add(self, key: str, made: Kept, *, goes_on: bool = False) -> Kept:
        """Return the call of a key, which is ``made`` where there was none.

        Of a call that ``goes_on`` after it had waited for a person, the one that ended then is replaced.
        """
        with self._lock:
            self._forget()
            found = self._calls.setdefault(key, made)
            if goes_on and found.is_over():
                found = self._calls[key] = made
            return found

    def drop(self, key: str, made: Kept) -> None:
        """Forget a call."""
        with self._lock:
            if self._calls.get(key) is made:
                del self._calls[key]

    def _forget(self) -> None:
        """Forget what ended long ago, and the oldest where those are too many."""
        ended = sorted(
            (one.ended_at, key) for key, one in self._calls.items() if one.ended_at is not None
        )
        size = sum(self._calls[key].size for _, key in ended)
        for left, (ended_at, key) in zip(range(len(ended), 0, -1), ended, strict=True):
            is_old = ended_at < time.monotonic() - KEPT_S
            if is_old or left > KEPT_CALLS or size > KEPT_BYTES:
                size -= self._calls.pop(key).size


@dataclass(frozen=True, slots=True, eq=False)
class _Running:
    call_id: str
    chat_id: str
    tool_id: str
    cancel: Cancel


class RunningCalls:
    """Which calls run here, or wait for their chat; for use by many threads."""

    def __init__(self) -> None:
        self._calls: list[_Running] = []  # whose methods are atomic

    @contextmanager
    def named(self, call_id: str, cancel: Cancel, *, chat_id: str, tool_id: str) -> Iterator[None]:
        """Let :meth:`cancel` find the call for as long as it runs, or waits for its chat."""
        one = _Running(call_id, chat_id, tool_id, cancel)
        self._calls.append(one)
        try:
            yield
        finally:
            self._calls.remove(one)

    def tool_of(self, call_id: str, *, chat_id: str) -> str | None:
        """Return the tool of a call of that chat which is under way here; None where there is none."""
        ids = (call_id, chat_id)
        found = (one.tool_id for one in [*self._calls] if (one.call_id, one.chat_id) == ids)
        return next(found, None)

    def cancel(self, call_id: str) -> None:
        """Ask a call to end; it has ended within a second, and what it wrote is kept.

        Raises:
            NotRunningError: where it does not run here, or has ended.
        """
        found = [one for one in [*self._calls] if one.call_id == call_id]
        if not found:
            raise NotRunningError(
                f"the call {call_id!r} does not run here",
                hint="it has ended, still waits, or is another process's: Ctrl-C ends it there",
            )
        for one in found:
            one.cancel.set()

    def cancel_all(self) -> None:
        """Ask every call to end, as before the server does."""
        for one in [*self._calls]:
            one.cancel.set_as("the server was stopped")


RUNNING = RunningCalls()
"""The calls of this process."""
