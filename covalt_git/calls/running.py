"""The calls that run in this process: what they tell while they run, and how one is cancelled.

A call that runs in another process, as one of the command line, is that process's to cancel.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covalt_git.elicitation.requests import NOBODY, Respondent
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


@dataclass(frozen=True, slots=True)
class _UnderWay:
    chat_id: str
    tool_id: str
    cancel: Cancel


class RunningCalls:
    """Which calls run here, or wait for their chat; for use by many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[str, list[_UnderWay]] = {}

    @contextmanager
    def named(self, call_id: str, cancel: Cancel, *, chat_id: str, tool_id: str) -> Iterator[None]:
        """Let :meth:`cancel` find the call for as long as it runs, or waits for its chat."""
        one = _UnderWay(chat_id, tool_id, cancel)
        with self._lock:
            self._calls.setdefault(call_id, []).append(one)
        try:
            yield
        finally:
            with self._lock:
                self._calls[call_id] = [each for each in self._calls[call_id] if each is not one]
                if not self._calls[call_id]:
                    del self._calls[call_id]

    def tool_of(self, call_id: str, *, chat_id: str) -> str | None:
        """Return the tool of a call of that chat which is under way here; None where there is none."""
        with self._lock:
            found = self._calls.get(call_id, ())
            return next((one.tool_id for one in found if one.chat_id == chat_id), None)

    def cancel(self, call_id: str) -> None:
        """Ask a call to end; it has ended within a second, and what it wrote is kept.

        Raises:
            NotRunningError: where it does not run here, or has ended.
        """
        with self._lock:
            found = [*self._calls.get(call_id, ())]
        if not found:
            raise NotRunningError(
                f"the call {call_id!r} does not run here",
                hint="it has ended, still waits, or is another process's: Ctrl-C ends it there",
            )
        for one in found:
            one.cancel.set()

    def cancel_all(self) -> None:
        """Ask every call to end, as before the server does."""
        with self._lock:
            found = [one for calls in self._calls.values() for one in calls]
        for one in found:
            one.cancel.set_as("the server was stopped")


RUNNING = RunningCalls()
"""The calls of this process."""
