"""Feed of the changes of a project's chats, for clients that follow them.

One poll serves all clients of the process.  It reads two timestamps of each chat, because every writer
writes the chat's ``lock``, and every call that starts its ``running-call``.  Only chats whose timestamps
differ are synchronized with the index; the changes are the differences of their rows.  So changes of other
processes are reported too.  If the chats are on a git server, a :class:`.ServerFollower` fetches the changes of other nodes.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Literal, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.git_store.objects import BrokenStoreError
from covalt_git.names import is_id, new_id
from covalt_git.system.file_cache import CHANGED, TICK_NS, lstat
from covalt_git.workspaces import running_call
from covalt_git.workspaces.chat import APPROVALS, CALLS
from covalt_git.workspaces.lease import RUNNING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from covalt_git.index.chat_queries import ChatPosition, ChatQueries
    from covalt_git.index.server_follower import ServerFollower

POLL_S = 0.25
"""Shortest interval between two polls, in seconds."""

MOST_STORED = 1000
"""Number of changes that clients can still receive."""

# A push or an import can add thousands at once, which would drop the changes of all other chats from the feed.
MOST_COMMITS = 200
"""Number of commits of one chat that one poll reports."""

_MOST_DIGITS = 20

ChangeKind = Literal[
    "CommitAdded",
    "CallChanged",
    "ApprovalChanged",
    "ChatChanged",
    "ChatsChanged",
    "ProblemsChanged",
    "EventsLost",
]

_CALLS_ONLY = (CALLS, APPROVALS, running_call.NAME, RUNNING)
"""Beginnings of refs that only change with calls and approvals."""

Mark = tuple[int, int]
"""Times of the last write of a chat's ``lock`` and ``running-call``, in nanoseconds."""


class FeedChange(NamedTuple):
    """One change.

    Attributes:
        position: the position in the feed after it.
        kind: its kind.
        chat_id: the chat, or None.
        tool_id: the tool of the call or approval; the change exists only for principals who may see it.
        facts: ids and states by name.
    """

    position: str
    kind: ChangeKind
    chat_id: str | None = None
    tool_id: str | None = None
    facts: tuple[tuple[str, str], ...] = ()


class ChangeFeed:
    """The last changes of the chats below ``folder``; thread-safe.

    ``open_index`` opens the index of the project.  ``version`` returns the version of its toolset files, or
    an empty string if they are not watched.  ``follower`` is that of the git server, if the chats are on one.
    """

    def __init__(
        self,
        folder: Path,
        open_index: Callable[[], ChatQueries],
        version: Callable[[], str],
        follower: ServerFollower | None = None,
    ) -> None:
        self._folder = folder
        self._open_index = open_index
        self._version = version
        self._lock = threading.Lock()
        self._due = 0.0
        self._epoch = new_id()
        self._count = 0
        self._stored: deque[FeedChange] = deque(maxlen=MOST_STORED)
        self._marks: dict[str, Mark | None] | None = None
        self._chats: dict[str, ChatPosition] = {}
        self._last_version = version()
        self._follower = follower
        self._names: tuple[str, ...] | None = None

    def position(self) -> str:
        """Return the current position, which :meth:`after` continues from."""
        with self._lock:
            self._poll_if_due()
            return self._position()

    def after(self, position: str) -> list[FeedChange]:
        """Return the changes after a position, oldest first.

        It is a single ``EventsLost`` if the position is of another process, or too old.
        """
        if self._follower is not None:
            self._follower.wake()
        with self._lock:
            self._poll_if_due()
            epoch, _, number = position.rpartition("-")
            # A client sends the position, so it can be any text: int() also reads other digits and spaces, and refuses
            # more than 4,300 digits.
            is_number = number.isascii() and number.isdecimal() and len(number) < _MOST_DIGITS
            is_own = epoch == self._epoch and is_number
            missed = self._count - int(number) if is_own else -1
            if not 0 <= missed <= len(self._stored):
                return [FeedChange(self._position(), "EventsLost")]
            return [*self._stored][len(self._stored) - missed :]

    def _position(self) -> str:
        return f"{self._epoch}-{self._count}"

    def _poll_if_due(self) -> None:
        if time.monotonic() < self._due:
            return
        with contextlib.suppress(CovaltError, OSError):  # the next poll reads the same changes
            self._poll()
        # From the end of the poll on: a slow one would otherwise be followed by the next one at once.
        self._due = time.monotonic() + POLL_S

    def _poll(self) -> None:
        if self._last_version != (version := self._version()):
            self._last_version = version
            self._add("ProblemsChanged")
        if self._follower is not None and self._names != (names := self._follower.names):
            if self._names is not None:
                self._add("ChatsChanged")
            self._names = names
        # Marks before rows: the next poll reports a write in between, which the other order would lose.
        marks, previous = dict(self._read_marks()), self._marks
        changed = [name for name in marks if previous is None or marks[name] != previous.get(name)]
        if previous is None:
            with self._open_index() as index:
                index.sync_chats()
                self._chats = {name: at for name in marks if (at := index.chat_position(name))}
        elif changed or previous.keys() != marks.keys():
            with self._open_index() as index:
                for name in changed:
                    self._compare(index, name)
            if previous.keys() != marks.keys():
                self._add("ChatsChanged")
        # A second write in the same tick of the file system leaves the timestamp as it is, so after a recent
        # write the chat counts as changed once more.
        recent = time.time_ns() - TICK_NS
        self._marks = {name: None if max(mark) > recent else mark for name, mark in marks.items()}

    def _read_marks(self) -> Iterator[tuple[str, Mark]]:
        with contextlib.suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            for entry in entries:
                if is_id(entry.name):
                    call = _written_at(f"{entry.path}/store.git/{running_call.NAME}")
                    yield entry.name, (_written_at(f"{entry.path}/lock"), call)

    def _compare(self, index: ChatQueries, chat_id: str) -> None:
        """Add the changes of a chat since the last poll."""
        try:
            with index.chats.as_left(chat_id) as chat:
                index.sync_chat(chat)
        except BrokenStoreError as error:
            self._add("ProblemsChanged", chat_id, code=error.code)
            return
        current, previous = index.chat_position(chat_id), self._chats.pop(chat_id, None)
        if current is None:
            return
        self._chats[chat_id] = current
        refs = {} if previous is None else previous.refs
        moved = {
            ref
            for ref in refs.keys() | current.refs.keys()
            if refs.get(ref) != current.refs.get(ref)
        }
        has_new = previous is not None and self._add_commits(index, chat_id, previous)
        for call_id in sorted(
            {_call_of(ref, current.refs) or _call_of(ref, refs) for ref in moved}
        ):
            call = index.call(chat_id, call_id)
            # A finished call was reported with its commit.  If an earlier poll did that, while the process still
            # listed the call as running, pages that were read in between show the call twice:
            # test_a_call_is_reported_again_when_its_process_stops_listing_it_as_running.
            if call is not None and (call.post_manifest_id is None or not has_new):
                facts = {"call_id": call.id, "status": call.status}
                self._add("CallChanged", chat_id, call.tool_id, **facts)
        if any(ref.startswith(APPROVALS) for ref in moved):
            for row in index.approvals(chat_id=chat_id):
                if APPROVALS + row["execution_id"] in moved:
                    facts = {name: row[name] for name in ("execution_id", "call_id", "state")}
                    self._add("ApprovalChanged", chat_id, row["tool_id"], **facts)
        if not has_new and any(not ref.startswith(_CALLS_ONLY) for ref in moved):
            self._add("ChatChanged", chat_id)

    def _add_commits(self, index: ChatQueries, chat_id: str, position: ChatPosition) -> bool:
        """Add the commits after a position, with the calls that made them; return whether there are any."""
        commits = index.commits_after(chat_id, position, limit=MOST_COMMITS)
        for commit in commits:
            facts = {"manifest_id": commit.id, "source": commit.source}
            self._add("CommitAdded", chat_id, **facts)
            if commit.tool_id is not None and commit.status is not None:
                facts = {"call_id": str(commit.source_ref), "status": commit.status}
                self._add("CallChanged", chat_id, commit.tool_id, **facts)
        return bool(commits)

    def _add(
        self,
        kind: ChangeKind,
        chat_id: str | None = None,
        tool_id: str | None = None,
        /,
        **facts: str,
    ) -> None:
        self._count += 1
        self._stored.append(
            FeedChange(self._position(), kind, chat_id, tool_id, tuple(facts.items()))
        )


def _call_of(ref: str, refs: dict[str, str]) -> str:
    """Return the unfinished call that a ref names, or an empty string."""
    if ref == running_call.NAME:
        return refs.get(ref, "")
    return ref.removeprefix(CALLS) if ref.startswith(CALLS) else ""


def _written_at(path: str) -> int:
    facts = lstat(os.fsencode(path))
    return 0 if facts is None else facts[CHANGED]
