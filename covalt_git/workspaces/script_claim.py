"""Claims of running scripts: with chats on a git server, one node runs a script.

The file lock of a script orders the processes of one machine.  A claim orders the nodes: a note in the repository with the list
of chats, ``refs/covalt/scripts/<chat>/<script>``, which its node renews while the script runs, and which others take over
when it has expired.

A node that was paused for longer than its claim makes no further call.  Before each call it checks, under the lease of the
chat, that it renewed the claim in time by its own clocks.  The node that takes over writes to the chat first, which moves the lease: so
a call whose check came before the pause is refused by the server.
"""

from __future__ import annotations

import contextlib
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from covalt_git import timestamps
from covalt_git.errors import CovaltError
from covalt_git.json_values import canonical_json
from covalt_git.models.base import One, StrictModel
from covalt_git.names import new_id
from covalt_git.workspaces.lease import SKEW_S
from covalt_git.workspaces.server_notes import ServerNotes
from covalt_git.workspaces.storage import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from covalt_git.workspaces.chat import ChatStore

PREFIX: Final = "refs/covalt/scripts/"
"""Beginning of the refs of the notes."""

POLL_S = 1.0
"""Pause between two attempts to take a claim, in seconds."""


class ScriptBusyError(CovaltError):
    """Another process, thread or node runs the script."""

    code = "script_running"
    http_status = 409

    def __init__(self, script_id: str, where: str = "in another process") -> None:
        super().__init__(
            f"the script {script_id} is running {where}",
            hint=f"covalt-git script show {script_id}",
        )


class _Note(StrictModel):
    """The content of a note: the node, and the time from which others may take it over, by the clock of the node."""

    v: One = 1
    node: str
    session: str
    expires_at: str


class ScriptClaim:
    """Claim of one script, which is renewed until it is released."""

    def __init__(self, notes: ServerNotes, name: str, node: str, lease_s: float) -> None:
        self._notes, self._name, self._node, self._lease_s = notes, name, node, lease_s
        self._oid: str | None = None
        self._renewed = (0.0, 0.0)
        self._ended = threading.Event()

    @property
    def is_valid(self) -> bool:
        """Whether no other node can have taken it over.  Both clocks: one of them stops while a machine sleeps."""
        return all(
            at - then < self._lease_s for at, then in zip(clocks(), self._renewed, strict=True)
        )

    def take(self) -> bool:
        """Take the claim, unless another node has it; return whether this node has it now."""
        stored = self._notes.read(self._name)
        if stored is None:
            return self._write(None)
        oid, content = stored
        return not self._is_of_another(content) and self._write(oid)

    def is_elsewhere(self) -> bool:
        """Return whether another node has the claim."""
        stored = self._notes.read(self._name)
        return stored is not None and self._is_of_another(stored[1])

    def _is_of_another(self, content: bytes) -> bool:
        note = _parsed(content)
        if note is None:  # another version wrote it
            return True
        earliest = timestamps.written(now() - timedelta(seconds=SKEW_S))
        # The caller holds the file lock, so a process of this node that had the claim has ended.
        return note.node != self._node and earliest < note.expires_at

    def _write(self, old: str | None) -> bool:
        start = clocks()
        end = now() + timedelta(seconds=self._lease_s)
        note = _Note(node=self._node, session=new_id(), expires_at=timestamps.written(end))
        oid = self._notes.replace(self._name, old, canonical_json.dumps(note.model_dump()))
        if oid is None:
            return False
        self._oid, self._renewed = oid, start
        return True

    def renew(self) -> bool:
        """Renew the claim; return False if another node has taken it over."""
        return self._write(self._oid)

    @contextlib.contextmanager
    def renewed(self) -> Iterator[None]:
        """Renew the claim in a thread while the block runs, and release it."""
        thread = threading.Thread(target=self._renew, name="script-claim", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()
            if self._oid is not None:
                with contextlib.suppress(CovaltError, OSError):  # it expires
                    self._notes.remove(self._name, self._oid)

    def _renew(self) -> None:
        while not self._ended.wait(self._lease_s / 3):
            # The server can be away for a moment; then the claim is not valid any more at some time.
            with contextlib.suppress(CovaltError, OSError):
                if not self.renew():
                    return


_CLAIMS: dict[tuple[Path, str], ScriptClaim] = {}
"""The claims of this process, by the folder of the chat and the script."""


@contextlib.contextmanager
def claimed(chat: ChatStore, script_id: str, *, wait: bool) -> Iterator[None]:
    """Hold the claim of a script, whose file lock the caller holds; do nothing if the chats are on this machine only.

    Raises:
        ScriptBusyError: without ``wait``, if another node runs it.
        ServerError: if the git server cannot be reached.
    """
    claim = _claim(chat, script_id)
    if claim is None:
        yield
        return
    while not claim.take():
        if not wait:
            raise _elsewhere(script_id)
        time.sleep(POLL_S)
    key = (chat.folder, script_id)
    _CLAIMS[key] = claim
    try:
        with claim.renewed():
            yield
    finally:
        del _CLAIMS[key]


def check(chat: ChatStore, script_id: str) -> None:
    """Check that this node may make a call of a script that runs; the caller has the lease of the chat.

    Raises:
        ScriptBusyError: if another node may have taken it over.
    """
    claim = _CLAIMS.get((chat.folder, script_id))
    if claim is not None and not claim.is_valid:
        raise _elsewhere(script_id)


def is_claimed(chat: ChatStore, script_id: str) -> bool:
    """Return whether another node runs a script."""
    claim = _claim(chat, script_id)
    return claim is not None and claim.is_elsewhere()


def _claim(chat: ChatStore, script_id: str) -> ScriptClaim | None:
    storage = chat.storage
    repository = storage.repository(REGISTRY)
    if repository is None:
        return None
    notes = ServerNotes(repository, PREFIX)
    return ScriptClaim(notes, f"{chat.id}/{script_id}", storage.node, storage.lease_s)


def now() -> datetime:
    """Return the time of this node."""
    return datetime.now(UTC)


def clocks() -> tuple[float, float]:
    """Return the seconds of the monotonic clock, and of the clock of the machine, which can be set."""
    return time.monotonic(), time.time()


def _parsed(content: bytes) -> _Note | None:
    try:
        return _Note.model_validate(canonical_json.loads(content))
    except (ValidationError, canonical_json.NotJsonError):
        return None


def _elsewhere(script_id: str) -> ScriptBusyError:
    return ScriptBusyError(script_id, "on another node")
