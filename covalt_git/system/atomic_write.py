"""Atomic, durable writes: readers see the old file or the new one, also after a kill or a power cut."""

from __future__ import annotations

import contextlib
import functools
import glob
import os
import stat
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.names import new_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

FEW = 8
"""Up to this number of files, single ``fsync`` calls are as fast as one ``syncfs``."""

_STALE_S = 3600
"""No writer takes an hour, so an older temporary file is of a killed one."""


def replace(path: Path, content: str | bytes, *, private: bool = False) -> None:
    """Write a file, or replace the one at ``path``, whose mode it keeps; text is written as UTF-8.

    If it is ``private``, only its owner may read or write it, and the folder if that is new.

    Raises:
        OSError: when it cannot be written; the old file is unchanged.
        UnicodeEncodeError: likewise.
    """
    path.parent.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
    _remove_stale(path)
    with _written(path, Path.replace, private=private) as file:
        file.write(content.encode() if isinstance(content, str) else content)
        if not private:
            with contextlib.suppress(FileNotFoundError):
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))


@contextmanager
def create(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that gets the name ``path`` when the block ends without an error.

    Raises:
        CovaltError: when ``path`` already exists, or cannot be written.
    """
    if os.path.lexists(path):
        raise CovaltError(
            f"there is a file {str(path)!r}", hint="name another: -o FILE, or move it away"
        )
    try:
        with _written(path, Path.rename) as file:
            yield file
    except OSError as error:
        reason = (error.strerror or "no reason given").lower()
        raise CovaltError(f"{str(path)!r} cannot be written: {reason}") from None


def create_private(path: Path, content: bytes) -> None:
    """Write a new file that only its owner may read or write.

    Raises:
        FileExistsError: when ``path`` already exists, also when another process creates it just now.
        OSError: when it cannot be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _written(path, os.link, private=True) as file:
        file.write(content)


def rename(source: Path, target: Path) -> None:
    """Rename a file or a folder within its file system, durably; its content is not fsynced.

    Raises:
        OSError: when that is not possible, as where ``target`` is a folder that is not empty.
    """
    source.rename(target)
    fsync(target.parent)


def fsync(path: Path | str) -> None:
    """Wait until a file's content, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def fsync_data(handle: int) -> None:
    """Wait until an open file's content is on the disk, but not its times."""
    getattr(os, "fdatasync", os.fsync)(handle)  # macOS has only the one


def fsync_many(paths: Sequence[str]) -> None:
    """Wait until files and the names in folders, all of one file system, are on the disk.

    Links are skipped: a link is a part of its folder.
    """
    if len(paths) > FEW:
        handle = os.open(Path(paths[0]).parent, os.O_RDONLY)
        try:
            if fsync_file_system(handle):
                return
        finally:
            os.close(handle)
    for path in paths:
        if not Path(path).is_symlink():
            fsync(path)


def fsync_tree(folder: Path | str) -> None:
    """Wait until a folder with everything in it, in one file system, is on the disk."""
    found = [str(folder)]
    for top, folders, files in os.walk(folder):
        found += [f"{top}/{name}" for name in (*folders, *files)]
    fsync_many(found)


def fsync_file_system(handle: int) -> bool:
    """Wait until all of an open file's file system is on the disk; return False where that is impossible.

    Each ``fsync`` waits for the disk; ``syncfs(2)`` of Linux waits once, for all writers.

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


@contextmanager
def _written(
    path: Path, put: Callable[[Path, Path], object], *, private: bool = False
) -> Iterator[IO[bytes]]:
    """Yield a temporary file; after the block fsync it, and ``put`` it at ``path``."""
    temporary = path.with_name(f".{path.name}.{new_id()}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
    try:
        with open(handle, "wb") as file:  # noqa: PTH123 - a handle, not a path
            yield file
            file.flush()
            os.fsync(handle)
        put(temporary, path)
        fsync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _remove_stale(path: Path) -> None:
    """Remove the temporary files of killed writers of ``path``."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        with contextlib.suppress(OSError):
            if left.stat().st_mtime < time.time() - _STALE_S:
                left.unlink()
