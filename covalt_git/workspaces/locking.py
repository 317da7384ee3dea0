"""The lock of a chat: one process writes at a time, and the others are told who does."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class ChatBusyError(CovaltError):
    """Somebody else is writing to the chat and did not finish in time."""

    code = "chat_busy"
    http_status = 409


@contextlib.contextmanager
def held(
    path: Path, chat_id: str, *, timeout_s: float, waiting: Callable[[str], None] | None
) -> Iterator[None]:
    """Hold the lock file at ``path``; ``waiting`` is told once, who holds it meanwhile.

    The kernel lets go of it when the process ends, however that ends.

    Raises:
        ChatBusyError: when it is not free after ``timeout_s`` seconds.
    """
    with path.open("a+", encoding="utf-8") as lock:
        _take(lock.fileno(), path, chat_id, timeout_s, waiting)
        lock.truncate(0)
        lock.write(f"process {os.getpid()}")
        lock.flush()
        yield
        lock.truncate(0)


def _take(
    handle: int, path: Path, chat_id: str, timeout_s: float, waiting: Callable[[str], None] | None
) -> None:
    end = time.monotonic() + timeout_s
    pause = 0.002
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = path.read_text(encoding="utf-8") or "another process"
            if time.monotonic() > end:
                raise ChatBusyError(
                    f"chat {chat_id!r} is busy: {holder} has been writing for {timeout_s:g} s",
                    hint="try again when it has finished",
                ) from None
            if waiting is not None:
                waiting(holder)
                waiting = None
            time.sleep(pause)
            pause = min(pause * 1.5, 0.1)
        else:
            return
