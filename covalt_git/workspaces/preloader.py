"""The program that looks at and reads files for another process.

It is run by itself (:mod:`.preload` starts it) and imports nothing but the standard library, and isal
where it is told the folder of that.  A question is its length, then as :mod:`marshal` spells it a
workspace, a hash and what is asked of some folders in it; for each of these an answer follows, its
length first.  What is asked of a folder is its path, and one of: what
:meth:`.stat_cache.KnownFolder.told` says of it; names of files in it; or nothing, of its last files.
The answer is whether all is as it was told, or the files that were read, by their names.  Once files
are asked for elsewhere, nothing is read any more of what was asked before: whoever asks has got there.
"""

from __future__ import annotations

import hashlib
import importlib
import marshal
import os
import select
import stat
import sys
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.workspaces.preload import Read
    from covalt_git.workspaces.stat_cache import Mark, Seen

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LARGE = 1 << 16
_MOST = 64  # files of one answer
_LEVEL = 1
_HASHES = {"sha1": hashlib.sha1, "sha256": hashlib.sha256}

_Asked = tuple[str, bytes | None, list[str] | None]


class _Reader:
    """What reads files: whole ones that are not large, as git's objects."""

    def __init__(self, isal: list[str]) -> None:
        sys.path += isal
        self._library: Any = importlib.import_module("isal.isal_zlib" if isal else "zlib")

    def answer(
        self,
        workspace: str,
        hash_name: str,
        path: str,
        told: bytes | None,
        names: list[str] | None,
    ) -> bool | dict[str, Read]:
        try:
            handle = _opened(workspace, path)
        except OSError:
            return {}
        try:
            if told is not None:
                return _is_as_told(handle, told)
            names = names or _last_names(handle)
            found = {name: self._read(handle, name, hash_name) for name in names}
            return {name: one for name, one in found.items() if one is not None}
        except OSError:
            return {}
        finally:
            os.close(handle)

    def _read(self, folder: int, name: str, hash_name: str) -> Read | None:
        try:
            handle = os.open(name, _FILE, dir_fd=folder)
        except OSError:
            return None
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGE:
                return None
            content = os.read(handle, status.st_size + 1)
        except OSError:
            return None
        finally:
            os.close(handle)
        if len(content) != status.st_size:
            return None
        whole = b"blob %d\0%b" % (len(content), content)
        return (
            status.st_ctime_ns,
            status.st_mtime_ns,
            status.st_ino,
            status.st_size,
            status.st_mode,
            _HASHES[hash_name](whole, usedforsecurity=False).digest(),
            status.st_dev,
            status.st_nlink,
            self._library.compress(content, _LEVEL),
        )


def _opened(workspace: str, path: str) -> int:
    """Open a folder of a workspace element by element: no link on the way leads anywhere else."""
    handle = os.open(workspace, _DIRECTORY)
    for element in path.split("/") if path else ():
        above = handle
        try:
            handle = os.open(element, _DIRECTORY, dir_fd=above)
        finally:
            os.close(above)
    return handle


def _last_names(folder: int) -> list[str]:
    """Return the names of the last files of a folder."""
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
    return names[-_MOST:]


def _is_as_told(folder: int, told: bytes) -> bool:
    """Tell whether a folder and each of its files is what it was, and no file has another name."""
    mark: Mark
    files: dict[str, Seen]
    mark, files = marshal.loads(told)  # noqa: S302 - of whoever started it
    status = os.fstat(folder)
    if mark != (status.st_ctime_ns, status.st_ino, status.st_dev):
        return False
    for name, seen in files.items():
        now = os.lstat(name, dir_fd=folder)
        if now.st_nlink != 1 or seen != (
            now.st_ctime_ns,
            now.st_mtime_ns,
            now.st_ino,
            now.st_size,
            now.st_mode,
            seen[5],
        ):
            return False
    return True


class _Questions:
    """What is asked, folder by folder, as long as somebody asks."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, str, str, _Asked]] = deque()
        self._number = self._reads = 0
        self._come = select.poll()
        self._come.register(0, select.POLLIN)

    def __iter__(self) -> Iterator[tuple[str, str, _Asked | None]]:
        """Yield workspaces, hashes and what is asked of a folder; None where it is not any more."""
        while True:
            while not self._waiting or self._come.poll(0):
                if not self._take():
                    return
            number, workspace, hash_name, asked = self._waiting.popleft()
            is_over = asked[1] is None and number < self._reads
            yield workspace, hash_name, None if is_over else asked

    def _take(self) -> bool:
        """Take the next question; tell whether there is one."""
        question = self._read(int.from_bytes(self._read(8), "big"))
        if not question:
            return False
        workspace, hash_name, folders = marshal.loads(question)  # noqa: S302 - of whoever started it
        self._number += 1
        if any(asked[1] is None for asked in folders):
            self._reads = self._number
        self._waiting.extend((self._number, workspace, hash_name, asked) for asked in folders)
        return True

    def _read(self, size: int) -> bytes:
        parts = [b""]
        while size and (part := os.read(0, size)):
            parts.append(part)
            size -= len(part)
        return b"" if size else b"".join(parts)


def main() -> None:
    """Serve until nothing comes any more."""
    reader, target = _Reader(sys.argv[1:]), sys.stdout.buffer
    for workspace, hash_name, asked in _Questions():
        answer = marshal.dumps(asked is not None and reader.answer(workspace, hash_name, *asked))
        target.write(len(answer).to_bytes(4, "big") + answer)
        target.flush()


if __name__ == "__main__":
    main()
