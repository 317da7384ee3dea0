"""The calls that run in this process: what they tell while they run, and how one is cancelled.

A call that runs in another process, as one of the command line, is that process's to cancel.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covalt_git.asking import NOBODY, Respondent
from covalt_git.errors import CovaltError
from covalt_git.runtime.jobs import Log, Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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


class RunningCalls:
    """Which calls run here; for use by many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancels: dict[str, Cancel] = {}

    @contextmanager
    def named(self, call_id: str, cancel: Cancel) -> Iterator[None]:
        """Let :meth:`cancel` find the call for as long as it runs, or waits for its chat."""
        with self._lock:
            outer = self._cancels.get(call_id)
            self._cancels[call_id] = cancel
        try:
            yield
        finally:
            with self._lock:
                del self._cancels[call_id]
                if outer is not None:
                    self._cancels[call_id] = outer

    def cancel(self, call_id: str) -> None:
        """Ask a call to end; it has ended within a second, and what it wrote is kept.

        Raises:
            NotRunningError: where it does not run here, or has ended.
        """
        with self._lock:
            cancel = self._cancels.get(call_id)
        if cancel is None:
            raise NotRunningError(
                f"the call {call_id!r} does not run here",
                hint="it has ended, still waits, or is another process's: Ctrl-C ends it there",
            )
        cancel.set()

    def cancel_all(self) -> None:
        """Ask every call to end, as before the server does."""
        with self._lock:
            cancels = [*self._cancels.values()]
        for cancel in cancels:
            cancel.set_as("the server was stopped")


RUNNING = RunningCalls()
"""The calls of this process."""
