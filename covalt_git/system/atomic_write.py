"""Atomic, durable writes: readers see the old or the new file, also after a crash or power failure."""

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
"""The age at which a temporary file is considered to be of a killed process."""


def replace(path: Path, content: str | bytes, *, private: bool = False) -> None:
    """Write or replace the file at ``path``, and keep the mode of the old one; text is UTF-8.

    If ``private``, only the owner can access the file, and the folder if this function creates it.

    Raises:
        OSError: when it cannot be written; the old file is unchanged.
        UnicodeEncodeError: when the text cannot be encoded; the old file is unchanged.
    """
    path.parent.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
    _remove_stale(path)
    with _temporary(path, Path.replace, private=private) as file:
        file.write(content.encode() if isinstance(content, str) else content)
        if not private:
            with contextlib.suppress(FileNotFoundError):
                os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))


@contextmanager
def create(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that is renamed to ``path`` when the block ends without an error.

    Raises:
        CovaltError: when ``path`` already exists, or cannot be written.
    """
    if os.path.lexists(path):
        raise CovaltError(
            f"the file {str(path)!r} already exists", hint="use another name: -o FILE, or move it"
        )
    try:
        with _temporary(path, Path.rename) as file:
            yield file
    except OSError as error:
        reason = (error.strerror or "no reason given").lower()
        raise CovaltError(f"{str(path)!r} cannot be written: {reason}") from None


def create_private(path: Path, content: bytes) -> None:
    """Write a new file that only its owner can access.

    Raises:
        FileExistsError: when ``path`` exists, also if another process creates it at the same time.
        OSError: when it cannot be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _temporary(path, os.link, private=True) as file:
        file.write(content)


def rename(source: Path, target: Path) -> None:
    """Rename a file or a folder within a file system, durably; its content is not fsynced.

    Raises:
        OSError: when that is not possible, for example if ``target`` is a folder that is not empty.
    """
    source.rename(target)
    fsync(target.parent)


def fsync(path: Path | str) -> None:
    """Fsync a file, or the names in a folder."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def fsync_data(handle: int) -> None:
    """Fsync an open file's content, but not its times."""
    getattr(os, "fdatasync", os.fsync)(handle)  # macOS only has fsync


def fsync_many(paths: Sequence[str]) -> None:
    """Fsync files, and the names in folders; all must be in the same file system.

    Symbolic links are skipped, as they are part of their folder.
    """
    if len(paths) > FEW:
        # Of the folder above: the first path may be a link, or a file that its mode forbids to open.
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
    """Fsync a folder with everything in it; all must be in the same file system."""
    paths = [str(folder)]
    for top, folders, files in os.walk(folder):
        paths += [f"{top}/{name}" for name in (*folders, *files)]
    fsync_many(paths)


def fsync_file_system(handle: int) -> bool:
    """Sync the file system of an open file by ``syncfs(2)``; return False if it is not Linux.

    Each ``fsync`` waits for the disk; ``syncfs`` waits once for all files.

    Raises:
        OSError: when a file could not be written.
    """
    if sys.platform != "linux":
        return False
    number = _syncfs()(handle)
    if number:
        raise OSError(number, os.strerror(number))
    return True


@functools.cache
def _syncfs() -> Callable[[int], int]:
    """Return ``syncfs(2)`` as a function that returns the error number or 0."""
    import ctypes  # noqa: PLC0415 - few commands come here

    libc = ctypes.CDLL(None, use_errno=True)
    return lambda handle: ctypes.get_errno() if libc.syncfs(handle) else 0


@contextmanager
def _temporary(
    path: Path, move: Callable[[Path, Path], object], *, private: bool = False
) -> Iterator[IO[bytes]]:
    """Yield a temporary file; after the block, fsync it and ``move`` it to ``path``."""
    # In the folder of the target, as a rename is atomic only within a file system.  A new name, which two writers
    # never share, and no other user can have made a link of.
    temporary = path.with_name(f".{path.name}.{new_id()}.tmp")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
    try:
        # The content, then the name: after a power failure, a name that came first could have an empty file.
        with open(handle, "wb") as file:  # noqa: PTH123 - a handle, not a path
            yield file
            file.flush()
            os.fsync(handle)
        move(temporary, path)
        fsync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _remove_stale(path: Path) -> None:
    """Remove the temporary files of killed writers of ``path``."""
    # By age: the file of a killed writer has no other difference to that of a writer in another process.
    for file in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        with contextlib.suppress(OSError):
            if file.stat().st_mtime < time.time() - _STALE_S:
                file.unlink()
