"""The program that asks the file system for another process whether folders are as they were.

It is run by itself (:mod:`.preload` starts it) and imports nothing but the standard library.  A
question is its length, then as :mod:`marshal` spells it the path of a workspace and of each folder
the path in it, and what :meth:`.stat_cache.KnownFolder.told` says of it.  The answer is a byte for
each folder, in order: 1 where it is as it was.
"""

from __future__ import annotations

import marshal
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from covalt_git.workspaces.stat_cache import Mark, Seen

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TOGETHER = 16  # answers, of some 20 files each


def main() -> None:
    """Serve until nothing comes any more."""
    source, target = sys.stdin.buffer, sys.stdout.buffer
    while length := source.read(8):
        question = source.read(int.from_bytes(length, "big"))
        workspace, folders = marshal.loads(question)  # noqa: S302 - of whoever started it
        for at in range(0, len(folders), _TOGETHER):
            target.write(
                bytes(_is_as_told(workspace, *one) for one in folders[at : at + _TOGETHER])
            )
            target.flush()


def _is_as_told(workspace: str, path: str, told: bytes) -> bool:
    """Tell whether a folder and each of its files is what it was, and no file has another name."""
    mark: Mark
    files: dict[str, Seen]
    mark, files = marshal.loads(told)  # noqa: S302 - of whoever started it
    try:
        handle = os.open(f"{workspace}/{path}", _DIRECTORY)
    except OSError:
        return False
    try:
        status = os.fstat(handle)
        if mark != (status.st_ctime_ns, status.st_ino, status.st_dev):
            return False
        for name, seen in files.items():
            now = os.lstat(name, dir_fd=handle)
            if now.st_nlink != 1 or seen != (
                now.st_ctime_ns,
                now.st_mtime_ns,
                now.st_ino,
                now.st_size,
                now.st_mode,
                seen[5],
            ):
                return False
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


if __name__ == "__main__":
    main()
