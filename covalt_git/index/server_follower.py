"""Follower of the git server that has the chats, for the change feed of a node.

While a client reads the feed, a thread reads the list of chats, and brings the copies of the chats that this process opened
last to what the server has.  That writes to the copies, which the feed notices as it notices other processes.  When no client reads
the feed any more, the thread ends: a node without open pages sends no requests.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.workspaces.registry import Chats

POLL_S = 2.0
"""Pause between two rounds, in seconds."""

IDLE_S = 20.0
"""Time without a reader of the feed after which the thread ends, in seconds; long polling returns within this time."""

MOST_CHATS = 32
"""Number of chats that are followed."""

_SHARE = 9
"""The pause is at least this many times as long as a round, so that many chats or a slow server do not occupy the node."""


class ServerFollower:
    """Follower of the chats that ``open_chats`` returns; thread-safe."""

    def __init__(self, open_chats: Callable[[], Chats]) -> None:
        self._open_chats = open_chats
        self._lock = threading.Lock()
        self._until = 0.0
        self._thread: threading.Thread | None = None
        self.names: tuple[str, ...] | None = None
        """The chats in the last list; None before the first one."""

    def wake(self) -> None:
        """Follow the server for the next :data:`IDLE_S`."""
        with self._lock:
            self._until = time.monotonic() + IDLE_S
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
                self._thread.start()

    @property
    def is_active(self) -> bool:
        return self._thread is not None

    def _run(self) -> None:
        while True:
            start = time.monotonic()
            # The server can be away, and covalt.yaml can have errors, for some time.
            with contextlib.suppress(CovaltError, OSError):
                self._follow()
            time.sleep(max(POLL_S, _SHARE * (time.monotonic() - start)))
            with self._lock:
                if time.monotonic() >= self._until:
                    self._thread = None
                    return

    def _follow(self) -> None:
        chats = self._open_chats()
        recent = [*chats.memories][-MOST_CHATS:]
        # A dict of its own: `memories` is in the order of the last use, and following a chat does not count as a use.
        chats = replace(chats, memories={})
        self.names = tuple(chats.listed())
        for chat_id in recent:
            if chat_id in self.names:
                # A chat may be damaged, or be deleted meanwhile.
                with contextlib.suppress(CovaltError, OSError):
                    chats.as_left(chat_id).close()
