"""How much a workspace, or a tool's private folder, holds: looked at while a tool fills it.

Counting takes as long as there are files.  So it is done at the end, as soon as the file system tells
that about so much was written since, and else so seldom that it takes little of the time: others remove
files meanwhile, and hide from the file system what was written.
"""

from __future__ import annotations

import os
import stat
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from covalt_git.models.toolset_manifest import Limits

MIB = 1 << 20
_SHARE = 20
"""Of the time that passes, counting takes one part in so many."""


class FolderSize:
    """Judges a folder by the most that it may hold, as the limits of a call say it.

    One that holds more already may go on holding it: else nobody could make it smaller.  Links are not
    followed, and what stands at several names counts at each.
    """

    def __init__(self, folder: Path, limits: Limits) -> None:
        self._folder = folder
        self._files = limits.files
        self._size = limits.workspace_mb and limits.workspace_mb * MIB
        self._largest = limits.written_mb and limits.written_mb * MIB
        self._is_limited = any((self._files, self._size, self._largest))
        if self._is_limited:
            self._begin_counting()
            held = list(self._held())
            self._end_counting()
            self._files = self._files and max(self._files, len(held))
            self._size = self._size and max(self._size, sum(size for _, size in held))
            self._large = {file for file, size in held if self._largest and size > self._largest}

    def exceeded_soon(self) -> str:
        """Return the limit that is exceeded now, where enough was written to make it worth a look."""
        if not self._is_limited:
            return ""
        if time.monotonic() < self._next and not self._was_filled():
            return ""
        self._begin_counting()
        found = self.exceeded()
        self._end_counting()
        return found

    def exceeded(self) -> str:
        """Return the limit that is exceeded now."""
        if not self._is_limited:
            return ""
        held = 0
        for files, (file, size) in enumerate(self._held(), 1):
            held += size
            if self._largest is not None and size > self._largest and file not in self._large:
                return "limit_written"
            if self._files is not None and files > self._files:
                return "limit_files"
            if self._size is not None and held > self._size:
                return "limit_workspace"
        return ""

    def _begin_counting(self) -> None:
        self._free_before = self._free()
        self._began = time.monotonic()

    def _end_counting(self) -> None:
        now = time.monotonic()
        self._next = now + (now - self._began) * _SHARE

    def _was_filled(self) -> bool:
        """Tell whether half of a limit was written since, as some may have been there before."""
        limits = self._files, self._size or self._largest
        return any(
            most is not None and (before - now) * 2 >= most
            for most, before, now in zip(limits, self._free_before, self._free(), strict=True)
        )

    def _held(self) -> Iterator[tuple[int, int]]:
        """Yield the inode of each file, and its size."""
        waiting = [os.fspath(self._folder)]
        while waiting:
            try:
                with os.scandir(waiting.pop()) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
                            continue
                        found = entry.stat(follow_symlinks=False)
                        yield found.st_ino, found.st_size if stat.S_ISREG(found.st_mode) else 0
            except OSError:
                continue  # it went while it was looked at, or is nobody's to read

    def _free(self) -> tuple[int, int]:
        """Return how many files and bytes have room in the file system that the folder is on."""
        try:
            told = os.statvfs(self._folder)
        except OSError:
            return 0, 0
        return told.f_ffree, told.f_bfree * told.f_frsize
