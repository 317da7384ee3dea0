"""Keys of previews: each opens the files of one commit, for one session of a browser.

The frame of a preview has no origin, so its requests have neither the cookie nor the origin of our pages.  A key in
their path takes the place of both.  Keys are in the memory of the server's process only, and in no log.  Nodes of a project with a
git server have :mod:`.shared_keys` instead.
"""

from __future__ import annotations

import secrets
import threading
import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

PATH = "/preview/"
"""Beginning of the paths of all previews; the key follows."""

MOST = 1024
"""Number of keys; a new one ends the key that was not used for the longest time."""

IDLE_S = 12 * 3600.0
"""Seconds without a request after which a key ends: a browser that was closed does not sign out."""

_KEY_BYTES = 16


class PreviewedCommit(NamedTuple):
    """A commit of a chat that a session previews; ``session`` is empty for clients without a cookie."""

    session: str
    chat_id: str
    manifest_id: str


class AnyPreviewKeys(Protocol):
    """The keys of one server, or of all nodes of a project (:mod:`.shared_keys`)."""

    def key(self, commit: PreviewedCommit) -> str:
        """Return the key of a commit for a session."""

    def find(self, key: str) -> PreviewedCommit | None:
        """Return the commit of a key; None if the key does not exist or has ended."""

    def opens(self, key: str) -> bool:
        """Return whether a key exists."""

    def end(self, session: str) -> None:
        """End the keys of a session."""


class PreviewKeys:
    """The keys of one server; ``clock`` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # Both in the order of the last use, because the first one is dropped if there are too many.
        self._commits: dict[str, PreviewedCommit] = {}
        self._used: dict[str, float] = {}

    def key(self, commit: PreviewedCommit) -> str:
        """Return the key of a commit for a session: the same one until it ends."""
        with self._lock:
            self._end_idle()
            key = next((key for key, other in self._commits.items() if other == commit), None)
            return self._use(key or secrets.token_hex(_KEY_BYTES), commit)

    def find(self, key: str) -> PreviewedCommit | None:
        """Return the commit of a key; None if the key does not exist or has ended."""
        with self._lock:
            self._end_idle()
            commit = self._commits.get(key)
            if commit is not None:
                self._use(key, commit)
            return commit

    def opens(self, key: str) -> bool:
        return self.find(key) is not None

    def end(self, session: str) -> None:
        with self._lock:
            for key in [key for key, of in self._commits.items() if of.session == session]:
                self._drop(key)

    def _use(self, key: str, commit: PreviewedCommit) -> str:
        self._drop(key)
        self._commits[key], self._used[key] = commit, self._clock()
        while len(self._commits) > MOST:
            self._drop(next(iter(self._commits)))
        return key

    def _end_idle(self) -> None:
        oldest = self._clock() - IDLE_S
        for key in [key for key, used in self._used.items() if used <= oldest]:
            self._drop(key)

    def _drop(self, key: str) -> None:
        self._commits.pop(key, None)
        self._used.pop(key, None)
