"""Size and number of files of a workspace or of a tool's private folder, counted while a tool runs.

The more files there are, the longer counting takes.  Small limits are exact: the folder is counted before the
call and after it.  With large limits, as the defaults are, the folder is counted only if the free space of the
file system shows that much was written.

While the tool runs, a folder is counted as soon as the tool wrote half of a limit.  It is also counted now and
then without that, because the free space does not show what a tool wrote if other programs remove files.
"""

from __future__ import annotations

import os
import stat
import time
from typing import TYPE_CHECKING

from covalt_git.models.outcomes import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from covalt_git.models.tool_properties import Limits

_SHARE = 20
"""Of the time that passes, counting takes one part in so many."""

_FIRST_S = 2.0
"""How long a call runs before a folder with large limits is counted."""

_SMALL = 10_000, 256 * MIB
"""Files and bytes of the limits that are exact."""

_WORTH = 2_000, 64 * MIB
"""Files and bytes that were written before large limits are counted: writing them takes much longer."""

_TICK = 20_000_000  # ns by which the clock of a file system may be behind


class FolderSize:
    """Check of a folder against the limits of a call: number of files, and size.

    A folder that exceeded a limit before the call may keep its size, so that a call can reduce it.  If it was
    not counted before the call, the files that have not changed since are taken as its old content, and up to
    :data:`_WORTH` more are allowed for replaced files.  Links are not followed, sparse files count by their
    length, and a hard link counts at each of its names.
    """

    def __init__(self, folder: Path, limits: Limits) -> None:
        self._folder = folder
        self._files = limits.files
        self._size = limits.workspace_mb and limits.workspace_mb * MIB
        self._largest = limits.file_mb and limits.file_mb * MIB
        self._is_limited = any((self._files, self._size, self._largest))
        self._is_exact = any(
            most is not None and most <= small
            for most, small in zip((self._files, self._largest), _SMALL, strict=True)
        )
        if not self._is_limited:
            return
        self._since = time.time_ns() - _TICK
        self._free_at_start = self._free_before = self._free()
        self._next = 0.0 if self._is_exact else time.monotonic() + _FIRST_S
        if self._is_exact:
            held = [size for size, _ in self._held()]
            self._files = self._files and max(self._files, len(held))
            self._size = self._size and max(self._size, sum(held))

    def exceeded_soon(self) -> str:
        """Return the limit that is exceeded now, if enough was written to justify a count."""
        if not self._is_limited:
            return ""
        if time.monotonic() < self._next and not self._was_filled():
            return ""
        self._free_before = self._free()
        began = time.monotonic()
        code = self._counted()
        ended = time.monotonic()
        self._next = ended + (ended - began) * _SHARE
        return code

    def exceeded(self) -> str:
        """Return the limit that is exceeded once the tool has ended."""
        if not self._is_limited:
            return ""
        written = self._written_since(self._free_at_start)
        is_worth = any(size >= worth for size, worth in zip(written, _WORTH, strict=True))
        return self._counted() if self._is_exact or is_worth else ""

    def _counted(self) -> str:
        """Return the limit that is exceeded, by a count of all files."""
        files = size = old_files = old_size = 0
        for length, is_new in self._held():
            # The kernel lets one byte more through: this length alone shows that the tool hit the limit.
            if is_new and self._largest and length == self._largest + 1:
                return "limit_written"
            files += 1
            size += length
            if not (is_new or self._is_exact):
                old_files += 1
                old_size += length
            if self._files and files - old_files > self._files:
                return "limit_files"
            if self._size and size - old_size > self._size:
                return "limit_workspace"
        more_files, more_size = (0, 0) if self._is_exact else _WORTH
        if self._files and files > max(self._files, old_files + more_files):
            return "limit_files"
        if self._size and size > max(self._size, old_size + more_size):
            return "limit_workspace"
        return ""

    def _was_filled(self) -> bool:
        """Return whether half of a limit was written since the last count."""
        limits = self._files, self._size or self._largest
        written = self._written_since(self._free_before)
        return any(
            most is not None and size * 2 >= most
            for most, size in zip(limits, written, strict=True)
        )

    def _written_since(self, before: tuple[int, int]) -> tuple[int, int]:
        """Return the files and bytes that the file system shows as written since its free space was ``before``."""
        files, size = self._free()
        return before[0] - files, before[1] - size

    def _held(self) -> Iterator[tuple[int, bool]]:
        """Yield the size of each file, and whether it is new or has changed since the start."""
        waiting = [os.fspath(self._folder)]
        while waiting:
            try:
                with os.scandir(waiting.pop()) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
                            continue
                        status = entry.stat(follow_symlinks=False)
                        size = status.st_size if stat.S_ISREG(status.st_mode) else 0
                        # Not the mtime, which a tool can set.
                        yield size, status.st_ctime_ns >= self._since
            except OSError:
                continue  # it was removed meanwhile, or cannot be read

    def _free(self) -> tuple[int, int]:
        """Return the free files and bytes of the folder's file system."""
        try:
            status = os.statvfs(self._folder)
        except OSError:
            return 0, 0
        return status.f_ffree, status.f_bfree * status.f_frsize
