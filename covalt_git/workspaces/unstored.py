"""Files of a workspace that no commit holds, such as in ``node_modules/``: whether they are the same ones.

An approval covers them too, for the call that it lets run may load them.
"""

from __future__ import annotations

import hashlib
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


def digest(workspace: Path, paths: Iterable[str]) -> str:
    """Return the digest of a listing of everything at and below ``paths``, contents unread.

    A row has a file's path, mode, size, inode, and times of modification and of change, the last of
    which no program can set.
    """
    rows = hashlib.sha256()
    for path, status in sorted(_files(workspace, paths), key=lambda found: found[0]):
        facts = (
            status.st_mode,
            status.st_size,
            status.st_ino,
            status.st_mtime_ns,
            status.st_ctime_ns,
        )
        rows.update(repr((path, facts)).encode())
    return f"sha256:{rows.hexdigest()}"


def _files(workspace: Path, paths: Iterable[str]) -> Iterator[tuple[bytes, os.stat_result]]:
    waiting = [os.fsencode(path) for path in paths]
    top = os.fsencode(workspace)
    while waiting:
        path = waiting.pop()
        try:
            status = os.lstat(os.path.join(top, path))  # noqa: PTH118 - names need not be text
            if stat.S_ISDIR(status.st_mode):
                with os.scandir(os.path.join(top, path)) as entries:  # noqa: PTH118 - as above
                    waiting += [path + b"/" + entry.name for entry in entries]
            else:
                yield path, status
        except OSError:  # it is gone, or unreadable: it is not in the listing
            continue
