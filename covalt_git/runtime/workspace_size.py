"""How much a workspace holds, looked at while a tool fills it.

Counting takes as long as there are files, so it is done only once the file system tells that about so
much was written since, and at the end.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MIB = 1 << 20


class WorkspaceSize:
    """Judges a folder by the most files and bytes that it may hold; None of either is no limit.

    One that holds more already may go on holding it: else nobody could make it smaller.  Links are not
    followed, and what stands at several names counts at each.
    """

    def __init__(self, folder: Path, *, files: int | None, size_mb: int | None) -> None:
        self._folder = folder
        self._files = files
        self._size = None if size_mb is None else size_mb * MIB
        self._counted = (0, 0)
        if self._is_limited:
            self._counted = self._free()
            held = list(self._held())
            self._files = None if files is None else max(files, len(held))
            self._size = None if self._size is None else max(self._size, sum(held))

    @property
    def _is_limited(self) -> bool:
        return self._files is not None or self._size is not None

    def exceeded_soon(self) -> str:
        """Return the limit that is exceeded now, where enough was written to make it worth a look."""
        if not self._is_limited:
            return ""
        files, size = (
            before - now for before, now in zip(self._counted, self._free(), strict=True)
        )
        # Half of it: some may have been there before.
        if files * 2 < (self._files or files + 1) and size * 2 < (self._size or size + 1):
            return ""
        self._counted = self._free()
        return self.exceeded()

    def exceeded(self) -> str:
        """Return the limit that is exceeded now."""
        if not self._is_limited:
            return ""
        size = 0
        for files, one in enumerate(self._held(), 1):
            size += one
            if self._files is not None and files > self._files:
                return "limit_files"
            if self._size is not None and size > self._size:
                return "limit_workspace"
        return ""

    def _held(self) -> Iterator[int]:
        """Yield the size of each file."""
        waiting = [os.fspath(self._folder)]
        while waiting:
            try:
                with os.scandir(waiting.pop()) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(entry.path)
                            continue
                        yield entry.stat(follow_symlinks=False).st_size
            except OSError:
                continue  # it went while it was looked at, or is nobody's to read

    def _free(self) -> tuple[int, int]:
        """Return how many files and bytes have room in the file system that the folder is on."""
        try:
            told = os.statvfs(self._folder)
        except OSError:
            return 0, 0
        return told.f_ffree, told.f_bfree * told.f_frsize
