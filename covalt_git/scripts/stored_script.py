"""Stored scripts: the state of each script that has not ended, as a commit at ``refs/covalt/scripts/<id>``.

``git show refs/covalt/scripts/<id>:script`` prints the script, and ``git ls-tree`` lists its settled calls.  The ref
moves by compare-and-swap under the lock of the chat.  Only the process that holds the file lock of the script runs it,
on one node (:mod:`covalt_git.workspaces.script_claim`).
"""

from __future__ import annotations

import contextlib
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from covalt_git.git_store.objects import FILE, CommitObject, TreeEntry
from covalt_git.models.scripts import SCRIPT_REFS, OpenScript, SettledCall
from covalt_git.names import is_new_id
from covalt_git.system import file_lock
from covalt_git.workspaces import script_claim, trees
from covalt_git.workspaces.chat import MovedError, read_stored, write_stored
from covalt_git.workspaces.commits import author
from covalt_git.workspaces.lock import ChatGoneError
from covalt_git.workspaces.records import COMMITTER
from covalt_git.workspaces.script_claim import ScriptBusyError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.writer import Writer

_SCRIPT = "script"
_CALLS = "calls"


@dataclass(slots=True)
class StoredScript:
    """A script as stored, with its settled calls by their indexes; :meth:`add` and :meth:`save` change it."""

    script: OpenScript
    calls: dict[int, SettledCall] = field(default_factory=dict)
    _at: str | None = None
    _unsaved: dict[int, SettledCall] = field(default_factory=dict)

    @classmethod
    def read(cls, chat: ChatStore, script_id: str) -> Self | None:
        """Return a script of a chat; None if it has ended or never began.

        Raises:
            BrokenStoreError: if the stored script cannot be read.
        """
        at = chat.store.read_ref(SCRIPT_REFS + script_id) if is_new_id(script_id) else None
        if at is None:
            return None
        tree = chat.store.read_commit(at).tree
        script, calls = None, {}
        for path, entry in trees.walk(chat.store, tree):
            if path == _SCRIPT:
                script = read_stored(chat.store, entry.oid, OpenScript)
            elif path.startswith(f"{_CALLS}/"):
                call = read_stored(chat.store, entry.oid, SettledCall)
                calls[call.index] = call
        # The copied folder of another chat has its scripts too.
        if script is None or (script.id, script.chat_id) != (script_id, chat.id):
            return None
        return cls(script, calls, at)

    def add(self, call: SettledCall) -> None:
        """Note a call; it is durable after :meth:`save`."""
        self.calls[call.index] = self._unsaved[call.index] = call

    @property
    def has_unrecorded(self) -> bool:
        """Whether a call is not stored that no commit records, so that a crash would lose its answer."""
        return any(call.call_id is None for call in self._unsaved.values())

    def save(self, writer: Writer, script: OpenScript | None = None) -> None:
        """Store the script, by default unchanged, and the calls that were added, durably.

        Raises:
            MovedError: if another process has changed it.
        """
        store = writer.chat.store
        if script is None and self._at is not None and not self._unsaved:
            return
        edits: dict[str, TreeEntry | None] = {}
        if script is not None or self._at is None:
            self.script = script or self.script
            edits[_SCRIPT] = _file(
                write_stored(store, self.script, f"script: {self.script.language}")
            )
        for index, call in self._unsaved.items():
            subject = f"call: {call.path} {call.status}"
            edits[f"{_CALLS}/{index:06}"] = _file(write_stored(store, call, subject))
        tree = None if self._at is None else store.read_commit(self._at).tree
        commit = CommitObject(
            tree=str(trees.edited(store, tree, edits)),
            parents=(),
            author=author(self.script.by),
            committer=COMMITTER,
            time=int(time.time()),
            message=f"script: {self.script.id} on {self.script.branch}\n",
        )
        new = store.write_commit(commit)
        store.flush()
        if not store.swap_ref(SCRIPT_REFS + self.script.id, self._at, new):
            raise MovedError(f"another process has changed the script {self.script.id}")
        self._at = new
        self._unsaved.clear()

    def delete(self, writer: Writer) -> None:
        """Remove an ended script; another process that waits for its lock finds that it has ended."""
        writer.chat.store.swap_ref(SCRIPT_REFS + self.script.id, self._at, None)


def script_ids(chat: ChatStore) -> list[str]:
    """Return the ids of the scripts of a chat that have not ended, oldest first."""
    return sorted(ref.removeprefix(SCRIPT_REFS) for ref in chat.store.ref_names(SCRIPT_REFS))


@contextmanager
def held(chat: ChatStore, script_id: str, *, wait: bool) -> Iterator[None]:
    """Hold the lock of a script, so that no other process, thread or node runs it.

    Raises:
        ScriptBusyError: without ``wait``, if another one runs it.
        ServerError: if the chats are on a git server that cannot be reached.
    """
    try:
        with file_lock.held(_lock_file(chat, script_id), create=True, wait=wait):
            try:
                with script_claim.claimed(chat, script_id, wait=wait):
                    yield
            finally:
                # A process that waits for this file gets its lock, and finds that the script has ended.
                if chat.store.read_ref(SCRIPT_REFS + script_id) is None:
                    _lock_file(chat, script_id).unlink(missing_ok=True)
    except BlockingIOError:
        raise ScriptBusyError(script_id) from None
    except FileNotFoundError:
        if chat.folder.exists():
            raise
        raise ChatGoneError(chat.id) from None


def is_held(chat: ChatStore, script_id: str) -> bool:
    """Return whether a process runs a script, on any node.

    Raises:
        ServerError: if the chats are on a git server that cannot be reached.
    """
    file = _lock_file(chat, script_id)
    try:
        with contextlib.suppress(FileNotFoundError), file_lock.held(file, wait=False):
            pass
    except BlockingIOError:
        return True
    return script_claim.is_claimed(chat, script_id)


def _lock_file(chat: ChatStore, script_id: str) -> Path:
    return chat.folder / f"script-{script_id}.lock"


def _file(oid: str) -> TreeEntry:
    return TreeEntry(b"", FILE, oid)
