"""Having on the disk what is written: without it, a power cut may take back what was acknowledged.

Every flush waits for the disk, so that of ten files each waits for ten.  ``syncfs(2)`` waits once,
for what others have written, too; it is Linux's.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

FEW = 8
"""So many flushes take no longer than one of all that a file system holds."""


def flush(path: Path | str) -> None:
    """Have a file's content, or the names in a folder, on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_content(handle: int) -> None:
    """Have an open file's content on the disk, without its times."""
    getattr(os, "fdatasync", os.fsync)(handle)  # macOS has only the one


def flush_many(paths: Sequence[str]) -> None:
    """Have files and the names in folders of one file system on the disk."""
    if len(paths) > FEW:
        handle = os.open(paths[0], os.O_RDONLY)
        try:
            if flush_file_system(handle):
                return
        finally:
            os.close(handle)
    for path in paths:
        flush(path)


def flush_file_system(handle: int) -> bool:
    """Have all of the file system on the disk that an open file is on; return whether that is possible.

    Raises:
        OSError: when something could not be written.
    """
    if sys.platform != "linux":
        return False
    number = _syncfs()(handle)
    if number:
        raise OSError(number, os.strerror(number))
    return True


@functools.cache
def _syncfs() -> Callable[[int], int]:
    """Return ``syncfs(2)``, which returns the number of its error."""
    import ctypes  # noqa: PLC0415 - few commands come here

    libc = ctypes.CDLL(None, use_errno=True)
    return lambda handle: ctypes.get_errno() if libc.syncfs(handle) else 0
