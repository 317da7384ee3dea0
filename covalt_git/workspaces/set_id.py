"""Set-user-ID and set-group-ID bits of files in a workspace, which are cleared wherever a scan finds them.

The sandbox keeps tools from setting them.  MCP servers and tools at the level ``process`` run without
its filter, and other users of the machine could run such a program with the rights of the owner.
Folders keep the set-group-ID bit: new entries inherit the group, which users rely on.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.workspaces.folders import Folder

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


def clear_below(root: Folder, paths: Iterable[str]) -> None:
    """Clear the bits of the files at ``paths``, and of all files in the folders there."""
    waiting = list(paths)
    while waiting:
        path = waiting.pop()
        with contextlib.suppress(OSError):
            with root.parent_of(path) as (parent, name):
                clear(parent, name)
            with root.inside(path) as folder:
                if folder is None:
                    continue
                with os.scandir(folder.handle) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(f"{path}/{entry.name}")
                        else:
                            clear(folder.handle, entry.name)
