"""Temporary folders that their creators lock (``flock(2)``), so that those of killed processes can be removed."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING

from covalt_git.names import new_id
from covalt_git.system import file_lock
from covalt_git.system.remove_tree import remove_tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def create(parent: Path, prefix: str) -> Iterator[Path]:
    """Yield a new folder in ``parent``, which only its owner can enter; remove it unless the block has renamed it."""
    with contextlib.ExitStack() as stack:
        while True:
            folder = parent / f"{prefix}{new_id()}"
            folder.mkdir(0o700)
            # Another process may clear the folder before it is locked.
            with contextlib.suppress(FileNotFoundError):
                stack.enter_context(file_lock.held(folder))
            if folder.exists():
                break
        stack.callback(remove_tree, folder)
        yield folder


def clear(parent: Path, prefix: str) -> None:
    """Remove the folders of this user in ``parent`` whose creators were killed."""
    for path in parent.glob(f"{prefix}*"):
        # Another process may be using this folder, or clearing it.
        with contextlib.suppress(OSError):
            # In a place such as /tmp, another user could swap a folder of its own for a link.
            if _is_own_folder(path):
                with file_lock.held(path, wait=False):
                    remove_tree(path)


def _is_own_folder(path: Path) -> bool:
    status = path.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
