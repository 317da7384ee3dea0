"""Writing to a chat: locks it, recovers it after a killed process, and yields its writer."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.git_store import repacking
from covalt_git.names import LOCAL_USER
from covalt_git.workspaces.lock import held
from covalt_git.workspaces.recovery import recover
from covalt_git.workspaces.writer import Writer

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from covalt_git.workspaces.chat import ChatStore

PATIENCE_S = 600.0
"""How long a user's command waits for other writers of the chat."""


@contextlib.contextmanager
def writing(
    chat: ChatStore,
    *,
    by: str = LOCAL_USER,
    timeout_s: float = 30,
    waiting: Callable[[str], None] | None = None,
    cancel: threading.Event | None = None,
) -> Iterator[Writer]:
    """Lock the chat, recover it and yield its writer; while this waits, ``waiting`` is called with each holder.

    Raises:
        ChatBusyError: when the lock is not free after ``timeout_s`` seconds.
        CancelledError: when ``cancel`` is set before the lock is free.
    """
    lock = held(chat.folder, chat.id, timeout_s=timeout_s, waiting=waiting, cancel=cancel)
    with lock as unclean:
        writer = Writer(chat, by)
        recover(writer, unclean=unclean)
        yield writer
        chat.stat_cache.head = chat.head()
        with contextlib.suppress(CovaltError, OSError):  # the next writer tries again
            repacking.combine(chat.store.objects)


def finish_left(chat: ChatStore) -> None:
    """Complete the unfinished work of a killed process, so that readers do not see it; not if the chat is locked.

    Errors are ignored here, because the next writer reports them.
    """
    with contextlib.suppress(CovaltError, OSError), writing(chat, timeout_s=0):
        pass
