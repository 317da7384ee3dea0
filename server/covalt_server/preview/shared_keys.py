"""Keys of previews that each node of a project accepts: a key has its commit, signed with a key that all nodes derive.

A frame has no cookie, so the key alone says for which session it is.  Scripts in the frame can read the id of the session
in it, which opens nothing: cookies of sessions are signed.  A session that ended is a note of the project's nodes
on the git server, ``refs/covalt/ended/<digest of its id>``, until all of its keys have ended.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_server.preview.keys import IDLE_S, PreviewedCommit

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.workspaces.server_notes import ServerNotes

NOTES = "refs/covalt/ended/"
"""Beginning of the refs of the notes."""

FRESH_S = 2.0
"""Time after which a node notices that a session has ended on another one, in seconds."""

_PERIOD_S = int(IDLE_S) // 2
_MAC_BYTES = 16
_LOG = logging.getLogger(__name__)


class SharedPreviewKeys:
    """The keys of the nodes that have the same ``secret``.

    Args:
        secret: signs the keys.
        notes: returns the notes of the nodes.
        clock: returns seconds since 1970.
    """

    def __init__(
        self,
        secret: bytes,
        notes: Callable[[], ServerNotes | None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._secret = secret
        self._notes = notes
        self._clock = clock
        self._lock = threading.Lock()
        self._ended: set[str] = set()
        self._read_at = -FRESH_S

    def key(self, commit: PreviewedCommit) -> str:
        """Return the key of a commit for a session, which ends after 6 to 12 hours: the same one for some hours."""
        ends = (int(self._clock()) // _PERIOD_S + 2) * _PERIOD_S
        text = f"{ends} {commit.manifest_id} {commit.session} {commit.chat_id}".encode()
        return (self._mac(text) + text).hex()

    def find(self, key: str) -> PreviewedCommit | None:
        """Return the commit of a key; None if no node has signed it, or it has ended, or that cannot be known."""
        try:
            content = bytes.fromhex(key)
        except ValueError:
            return None
        mac, text = content[:_MAC_BYTES], content[_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(text)):
            return None
        ends, manifest_id, session, chat_id = text.decode().split(" ", 3)
        if int(ends) <= self._clock():
            return None
        try:
            is_ended = bool(session) and _digest(session) in self._ended_sessions()
        except CovaltError:
            return None
        return None if is_ended else PreviewedCommit(session, chat_id, manifest_id)

    def opens(self, key: str) -> bool:
        return self.find(key) is not None

    def end(self, session: str) -> None:
        """End the keys of a session on all nodes; without the git server, on this one only."""
        name = _digest(session)
        with self._lock:
            self._ended.add(name)
        try:
            notes = self._notes()
            if notes is not None:
                self._remove_expired(notes)
                ends = int(self._clock()) + int(IDLE_S)
                notes.create(name, json.dumps({"v": 1, "ends": ends}).encode())
        except CovaltError as error:
            _LOG.warning("a session has ended on this node only: %s", error.message)

    def _ended_sessions(self) -> set[str]:
        with self._lock:
            if time.monotonic() - self._read_at > FRESH_S:
                notes = self._notes()
                # Sessions that this node has ended stay in the set: their notes may not be on the server.
                self._ended |= set() if notes is None else notes.ids().keys()
                self._read_at = time.monotonic()
            return self._ended

    def _remove_expired(self, notes: ServerNotes) -> None:
        expired = {}
        for name, (oid, content) in notes.entries(notes.ids()).items():
            with suppress(ValueError, KeyError, TypeError):
                if json.loads(content)["ends"] < self._clock():
                    expired[name] = oid
        if expired:
            notes.remove_all(expired)

    def _mac(self, text: bytes) -> bytes:
        return hmac.digest(self._secret, text, "sha256")[:_MAC_BYTES]


def _digest(session: str) -> str:
    return hashlib.sha256(session.encode()).hexdigest()
