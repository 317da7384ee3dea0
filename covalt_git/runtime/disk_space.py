"""Free space of the file systems that tools write to: a call is stopped before it uses all of it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from covalt_git.errors import CovaltError
from covalt_git.paths import typed

# A chat on a full disk cannot be saved: each later command would fail (test_a_call_leaves_space_on_the_disk).
_LEFT = 1 << 30
_SHARE = 8
"""The reserve of a file system smaller than 8 GiB, such as a /tmp in memory: this fraction of its size."""


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
    """The reserve of free space on the file systems of a workspace and of a private folder."""

    def __init__(self, workspace: Path, private: Path | None = None) -> None:
        self._workspace = workspace
        private = private or Path(tempfile.gettempdir())
        places = ("the workspace", workspace), ("the private /tmp", private)
        self._places = [(what, folder, *_space(folder)) for what, folder in places]

    def check(self) -> None:
        """Check that the free space is at least the reserve.

        Raises:
            DiskFullError: with the file system that has less.
        """
        for what, folder, available, left in self._places:
            if available < left:
                raise DiskFullError(what, folder, left)

    def exceeded(self) -> DiskFullError | None:
        """Return the error of a call that used the reserve, or None.

        The chat's store takes as much again as the call wrote to the workspace.  A call that began with
        too little, as a tool that only reads may, can use half of what there was.
        """
        for what, folder, at_start, left in self._places:
            available, reserve = _space(folder)
            most = left if at_start >= left else at_start // 2
            stored = max(at_start - available, 0) if folder == self._workspace else 0
            if reserve and available - stored < most:
                return DiskFullError(what, folder, left, is_reserved=available >= most)
        return None


def _space(folder: Path) -> tuple[int, int]:
    """Return the available bytes of a folder's file system and its reserve; both are 0 if unknown."""
    try:
        status = os.statvfs(folder)
    except OSError:  # the tool has removed it
        return 0, 0
    size = status.f_blocks * status.f_frsize
    return status.f_bavail * status.f_frsize, min(_LEFT, size // _SHARE)
