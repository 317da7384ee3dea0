"""Calls that run in this process: their followers, their events and their cancellation.

:data:`RUNNING` finds the calls of this process by their ids; a call that runs in another process can be
cancelled only there.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.elicitation.requests import NO_RESPONDENT, Respondent
from covalt_git.errors import CovaltError
from covalt_git.models.outcomes import Log, Progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Started(NamedTuple):
    """The call with this id has begun to run."""

    call_id: str


class Installing(NamedTuple):
    """A line of output of the installer of a toolset's dependencies."""

    message: str


CallEvent = Started | Installing | Progress | Log


class Cancel(threading.Event):
    """Cancellation of a call, which any thread may set.

    Attributes:
        why: the reason in the call's record.
        client: the client that made the call.
        left: whether the client has received an elicitation request, after which it may never answer.
    """

    why = "the user cancelled it"
    client: object = None
    left = False

    @property
    def is_stop(self) -> bool:
        """Whether the call is cancelled because the server or the worker stops."""
        return self.is_set() and self.why in {STOPPED, WORKER_STOPPED}

    def set_as(self, why: str) -> None:
        """Cancel for a reason other than the user's request, unless it is cancelled."""
        # The first reason stays: a server that stops must not overwrite that the user cancelled.
        if not self.is_set():
            self.why = why
            self.set()


STOPPED = "the server was stopped"
"""Why a call is cancelled when the server stops."""

WORKER_STOPPED = "the worker was stopped"
"""Why a call is cancelled when its worker stops."""


@dataclass(frozen=True, slots=True)
class Follower:
    """Client that follows a call.

    Attributes:
        report: receives each event of the call.
        cancel: cancels the call when the client sets it.
        respondent: answers elicitation requests of the call.
    """

    report: Callable[[CallEvent], None] = lambda _: None
    cancel: Cancel = field(default_factory=Cancel)
    respondent: Respondent = NO_RESPONDENT


@dataclass(frozen=True, slots=True, eq=False)
class _Running:
    call_id: str
    chat_id: str
    tool_id: str
    cancel: Cancel


class RunningCalls:
    """Calls of this process that run or wait for the lock of their chat; thread-safe."""

    def __init__(self) -> None:
        self._calls: list[_Running] = []  # append and remove are atomic
        self._ended = threading.Condition()
        self._stopped = ""

    @contextmanager
    def track(self, call_id: str, cancel: Cancel, *, chat_id: str, tool_id: str) -> Iterator[None]:
        """Register a call for :meth:`cancel` while the block runs."""
        call = _Running(call_id, chat_id, tool_id, cancel)
        self._calls.append(call)
        # After the append: a call that comes while the server stops is either cancelled with the others or here.
        if self._stopped:
            cancel.set_as(self._stopped)
        try:
            yield
        finally:
            self._calls.remove(call)
            with self._ended:
                self._ended.notify_all()

    def tool_of(self, call_id: str, *, chat_id: str) -> str | None:
        """Return the tool id of a registered call of a chat, or None."""
        ids = (call_id, chat_id)
        tool_ids = (call.tool_id for call in [*self._calls] if (call.call_id, call.chat_id) == ids)
        return next(tool_ids, None)

    def cancel(self, call_id: str, why: str = Cancel.why) -> None:
        """Cancel a call.  It ends within a second, and its files are committed.

        Raises:
            CovaltError: ``not_running``, if the call does not run in this process.
        """
        calls = [call for call in [*self._calls] if call.call_id == call_id]
        if not calls:
            raise CovaltError(
                f"the call {call_id!r} does not run in this process",
                hint="it has ended, is pending approval, or runs in another process: press Ctrl-C there",
                code="not_running",
                http_status=409,
            )
        # One id can have two entries: a call with an idempotency key is tracked while it waits for its chat, and
        # again while it runs.
        for call in calls:
            call.cancel.set_as(why)

    def end_left(self, chat_id: str, client: object) -> None:
        """Cancel the calls in a chat that wait for answers of a client, because they would block its next call.

        Its parallel calls are not cancelled: it made them before it received an elicitation request.
        """
        for call in [*self._calls]:
            if call.chat_id == chat_id and call.cancel.left and call.cancel.client == client:
                call.cancel.set_as("its client made another call before it answered")

    @contextmanager
    def served(self, why: str = STOPPED) -> Iterator[None]:
        """Serve clients while the block runs; then :meth:`stop`."""
        self._stopped = ""
        try:
            yield
        finally:
            self.stop(why=why)

    def stop(self, within_s: float | None = None, why: str = STOPPED) -> None:
        """Cancel all calls because the server stops, and wait until each is recorded, at most ``within_s`` seconds.

        A call that begins later, as one whose request waited for a thread, is cancelled before its tool runs.
        """
        self._stopped = why
        for call in [*self._calls]:
            call.cancel.set_as(why)
        with self._ended:
            self._ended.wait_for(lambda: not self._calls, within_s)


RUNNING = RunningCalls()
"""The calls of this process."""
