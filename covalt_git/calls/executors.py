"""Where calls are made, behind one interface: ``local`` in this process, or ``celery`` by workers.

Only the process decides: ``covalt-git serve --queue`` makes calls by workers, everything else in its own process.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, Protocol

from covalt_git.calls.running import RUNNING, Cancel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from covalt_git.calls.outcomes import CallOutcome
    from covalt_git.calls.running import Follower
    from covalt_git.models.queued_call import QueuedCall
    from covalt_git.models.reported_refs import ReportedRefs
    from covalt_git.workspaces.chat import ChatStore

    OpenChat = Callable[[str, ReportedRefs | None], ChatStore]


class Work(NamedTuple):
    """A call to make, for each executor.

    Attributes:
        perform: makes it in this thread.
        prepare: returns it as what a worker receives, after it was checked; its outcome, if it was made before; or None
            if no worker is needed.
        open_chat: opens a chat of the caller, in which the outcome is read, with the refs that the worker has reported.
    """

    perform: Callable[[], CallOutcome]
    prepare: Callable[[], QueuedCall | CallOutcome | None]
    open_chat: OpenChat


class Submission(Protocol):
    """A call that was submitted."""

    def follow(self, follower: Follower, waiting: Callable[[str], None] | None) -> CallOutcome:
        """Report the events of the call until its end, and return its outcome.

        Raises:
            CovaltError: if the call was refused.
        """


class Executor(Protocol):
    """Makes calls; ``is_queue`` says whether workers make them."""

    is_queue: bool

    def submit(self, work: Work) -> Submission:
        """Submit a call.

        Raises:
            BrokerError: if the queue does not accept it.
            CovaltError: if it is refused.
        """

    def cancel(self, call_id: str, why: str = Cancel.why) -> None:
        """Cancel a call that runs or waits.

        Raises:
            CovaltError: ``not_running``, if it does not run.
        """

    def tool_of(self, call_id: str, *, chat_id: str) -> str | None:
        """Return the tool id of a call of a chat that runs or waits, or None."""


class LocalCall(NamedTuple):
    """A call that is made by the thread that follows it."""

    work: Work

    def follow(self, _follower: Follower, _waiting: Callable[[str], None] | None) -> CallOutcome:
        """Make the call; its engine reports to the same follower."""
        return self.work.perform()


class LocalExecutor:
    """Makes each call in the thread that follows it."""

    is_queue = False

    def submit(self, work: Work) -> Submission:
        return LocalCall(work)

    def cancel(self, call_id: str, why: str = Cancel.why) -> None:
        RUNNING.cancel(call_id, why)

    def tool_of(self, call_id: str, *, chat_id: str) -> str | None:
        return RUNNING.tool_of(call_id, chat_id=chat_id)


LOCAL = LocalExecutor()
_CURRENT: list[Executor] = [LOCAL]


def executor() -> Executor:
    """Return the executor of this process."""
    return _CURRENT[-1]


@contextmanager
def executed_by(other: Executor) -> Iterator[None]:
    """Make the calls of this process by another executor while the block runs."""
    _CURRENT.append(other)
    try:
        yield
    finally:
        _CURRENT.remove(other)
