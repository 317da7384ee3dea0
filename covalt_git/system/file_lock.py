"""Locks on files and folders (``flock(2)``), which the kernel releases when a process ends."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

POLL_S = 0.1
"""Interval in seconds for polling locks, files of other processes, and other things without events."""


def acquire(handle: int, *, shared: bool = False, wait: bool = True) -> bool:
    """Lock an open file or folder until it is closed.

    Without ``wait``, return False if another process has the lock.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(handle, kind if wait else kind | fcntl.LOCK_NB)  # noqa: TID251 - its home
    except BlockingIOError:
        return False
    return True


@contextmanager
def held(
    path: Path, *, create: bool = False, shared: bool = False, wait: bool = True
) -> Iterator[int]:
    """Hold the lock of a file or a folder during the block, and yield its handle.

    With ``create``, a missing file is created, which only its owner can access.

    Raises:
        BlockingIOError: without ``wait``, if another process has the lock.
    """
    # Opened anew each time: flock(2) locks an open file, so that two threads with one handle would not exclude each
    # other.
    handle = os.open(path, os.O_RDWR | os.O_CREAT if create else os.O_RDONLY, 0o600)
    try:
        if not acquire(handle, shared=shared, wait=wait):
            raise BlockingIOError
        yield handle
    finally:
        os.close(handle)
