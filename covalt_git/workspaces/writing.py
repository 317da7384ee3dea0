"""Writing to a chat: lock it, recover what a killed process left, and yield its writer."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.names import PERSON
from covalt_git.workspaces.lock import held
from covalt_git.workspaces.recovery import recover
from covalt_git.workspaces.writer import Writer

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterator

    from covalt_git.workspaces.chat import ChatStore

PATIENCE_S = 600.0
"""How long a person's command waits for others that write to the chat."""


@contextlib.contextmanager
def writing(
    chat: ChatStore,
    *,
    by: str = PERSON,
    timeout_s: float = 30,
    waiting: Callable[[str], None] | None = None,
    cancel: threading.Event | None = None,
) -> Iterator[Writer]:
    """Hold the chat's lock and yield its writer; ``waiting`` is called with each holder before.

    Raises:
        ChatBusyError: when the lock is not free after ``timeout_s`` seconds.
        CancelledError: when ``cancel`` is set before it is free.
    """
    kept = held(chat.folder, chat.id, timeout_s=timeout_s, waiting=waiting, cancel=cancel)
    with kept as unclean:
        writer = Writer(chat, by)
        recover(writer, unclean=unclean)
        yield writer
        with contextlib.suppress(CovaltError, OSError):  # it is left to the next writer
            chat.store.combine()


def finish_left(chat: ChatStore) -> None:
    """Finish what a process left that ended over the chat; nothing where somebody writes to it now.

    Whoever only reads shall see that, too.  What cannot be finished is left to the next writer, who
    says why.
    """
    with contextlib.suppress(CovaltError, OSError), writing(chat, timeout_s=0):
        pass
