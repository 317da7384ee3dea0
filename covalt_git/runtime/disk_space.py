"""Free space of the file systems that tools write to, of which calls leave some to everything else."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from covalt_git.errors import CovaltError
from covalt_git.paths import typed

_LEFT = 1 << 30
_SHARE = 8
"""Of a small file system, such as a /tmp in memory, one part in so many is left."""


class DiskFullError(CovaltError):
    """A file system has too little space left for a tool that writes."""

    code = "limit_disk"
    http_status = 507

    def __init__(self, what: str, folder: Path, left: int, *, is_reserved: bool = False) -> None:
        size = "1 GiB" if left == _LEFT else f"{max(left >> 20, 1)} MiB"
        rest = " once what it wrote is stored" if is_reserved else ""
        super().__init__(
            f"the file system that holds {what} has less than {size} left{rest}",
            hint=f"delete what you do not need there: df -h {typed(folder)}",
        )


class DiskSpace:
    """Judges the file systems of a workspace and of private folders by the space that is to be left."""

    def __init__(self, workspace: Path, private: Path | None = None) -> None:
        self._workspace = workspace
        places = [("the workspace", workspace)]
        places.append(("the private /tmp", private or Path(tempfile.gettempdir())))
        self._places = [(what, folder, *_space(folder)) for what, folder in places]

    def check(self) -> None:
        """Make sure that there is space for a tool that writes.

        Raises:
            DiskFullError: naming the place.
        """
        for what, folder, available, left in self._places:
            if available < left:
                raise DiskFullError(what, folder, left)

    def exceeded(self) -> DiskFullError | None:
        """Return what is wrong where a call leaves too little.

        The chat's store takes as much again as the call wrote to the workspace.  A call that began with
        too little, as a tool that only reads may, can use half of what there was.
        """
        for what, folder, before, left in self._places:
            now, known = _space(folder)
            most = left if before >= left else before // 2
            stored = max(before - now, 0) if folder == self._workspace else 0
            if known and now - stored < most:
                return DiskFullError(what, folder, left, is_reserved=now >= most)
        return None


def _space(folder: Path) -> tuple[int, int]:
    """Return how many bytes are available at a folder, and how many of them are to be left: 0 if unknown."""
    try:
        told = os.statvfs(folder)
    except OSError:  # the tool has removed it
        return 0, 0
    return told.f_bavail * told.f_frsize, min(_LEFT, told.f_blocks * told.f_frsize // _SHARE)
