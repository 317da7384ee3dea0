"""Work that a git server did not accept because it did not answer: this process pushes it when the server answers again.

The commits stay in the copy of the node.  The process tries every few seconds, as any later writer of the node does: if the
refs of the server have not moved, the work is pushed, and otherwise it becomes lost work.  If this process ends before that,
the next server, worker or command of this node pushes it.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from covalt_git.git_store.server_repository import ServerError
from covalt_git.workspaces.lock import ChatBusyError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PAUSE_S = 2.0
"""Time between two attempts, in seconds."""

_LOG = logging.getLogger(__name__)
_LOCK = threading.Lock()
_LEFT: dict[Path, Callable[[], None]] = {}
"""How the work of each chat is pushed, by the folder of the chat."""

_RUNS = threading.Event()
"""Whether the thread runs; changed under the lock."""


def push_later(folder: Path, push: Callable[[], None]) -> None:
    """Call ``push`` until it succeeds, in a thread; it raises a ServerError or a ChatBusyError to be called again."""
    with _LOCK:
        _LEFT[folder] = push
        if not _RUNS.is_set():
            _RUNS.set()
            threading.Thread(target=_push_left, name="later pushes", daemon=True).start()


def waiting() -> dict[Path, Callable[[], None]]:
    """Return the chats with work that this process still has to push, by their folders."""
    with _LOCK:
        return dict(_LEFT)


def _push_left() -> None:
    while True:
        time.sleep(PAUSE_S)
        for folder, push in waiting().items():
            if _is_over(folder, push):
                with _LOCK:
                    # Another writer may have left more work in the meantime.
                    if _LEFT.get(folder) is push:
                        del _LEFT[folder]
        # In one step: push_later() must not add work between the check and the end of the thread.
        with _LOCK:
            if not _LEFT:
                _RUNS.clear()
                return


def _is_over(folder: Path, push: Callable[[], None]) -> bool:
    try:
        push()
    except (ServerError, ChatBusyError):
        return False
    except Exception as error:  # noqa: BLE001 - the others have to be pushed, and the next writer of the chat reports it
        _LOG.warning("the work left in %s cannot be pushed: %s", folder, error)
    else:
        _LOG.info("the work left in %s was pushed", folder)
    return True
