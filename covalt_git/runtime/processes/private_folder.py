"""Private folder of a tool, removed with everything in it after use.

Its creator holds a lock on it (``flock(2)``).  If the creator is killed, a later one in the same place removes
the folder.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from pathlib import Path

from covalt_git.system import file_lock
from covalt_git.system.remove_tree import remove_tree

_PREFIX = "covalt-room-"
_NEW_S = 60.0
"""How old a folder is at least whose maker must have locked it by now."""


def make(place: Path) -> tuple[Path, Path, int]:
    """Make a folder in ``place``; return it, the tool's folder in it, and the handle that locks it until closed.

    A tool may open its own folder to other users, and no other user can enter the outer one.
    """
    path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    file_lock.acquire(handle)
    inner = path / "tmp"
    inner.mkdir(0o700)
    return path, inner, handle


def clear_left(place: Path) -> None:
    """Remove the folders in ``place`` whose creators, processes of this user, were killed."""
    with os.scandir(place) as entries:
        found = [Path(entry.path) for entry in entries if entry.name.startswith(_PREFIX)]
    for path in found:
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                status = os.fstat(handle)
                if status.st_uid != os.getuid() or status.st_mtime > time.time() - _NEW_S:
                    continue
                if file_lock.acquire(handle, wait=False):
                    remove_tree(path)
            finally:
                os.close(handle)
