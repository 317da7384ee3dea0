"""Set-user-ID and set-group-ID bits of files in a workspace, which are cleared wherever a scan finds them.

The sandbox keeps tools from setting them.  MCP servers and tools at the level ``process`` run without
its filter, and other users of the machine could run such a program with the rights of the owner.
Folders keep the set-group-ID bit: new entries inherit the group, which users rely on.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import Final

BITS: Final = stat.S_ISUID | stat.S_ISGID


def clear(parent: int, name: str) -> None:
    """Clear the bits of a regular file in an open folder; links are not followed.

    A file of another user keeps them.
    """
    with contextlib.suppress(OSError, NotImplementedError):  # the latter: glibc before 2.32
        mode = os.lstat(name, dir_fd=parent).st_mode
        if stat.S_ISREG(mode) and mode & BITS:
            mode = stat.S_IMODE(mode) & ~BITS
            # Not by a descriptor: the file may have a mode that its owner cannot open it with.
            os.chmod(name, mode, dir_fd=parent, follow_symlinks=False)
