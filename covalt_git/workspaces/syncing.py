"""Making folders durable with what is in them, one by one or, where it is much, with their file system."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.system.atomic_write import FEW, fsync, fsync_file_system

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from covalt_git.workspaces.folders import Folder


def sync_many(path: str, *, above: int) -> None:
    """Make a folder durable with all that is in it, which is known to be more than a few files.

    ``above`` is a handle of the folder that it is in.
    """
    if not fsync_file_system(above):
        sync_within(path)
        fsync(path)


def sync_within(path: Path | str, others: Iterable[str] = ()) -> None:
    """Make all that is in a folder durable, and ``others`` of the same file system.

    The names in the folder itself are not: what is in it will have another one.
    """
    folders = list(os.walk(path, topdown=False))
    found = [
        *others,
        *(f"{folder}/{name}" for folder, _, names in folders for name in names),
        *(folder for folder, _, _ in folders[:-1]),
    ]
    handle = os.open(path, os.O_RDONLY)
    try:
        if len(found) > FEW and fsync_file_system(handle):
            return
    finally:
        os.close(handle)
    for one in found:
        if not Path(one).is_symlink():  # its folder holds it
            fsync(one)


def sync_names(root: Folder, paths: Iterable[str], others: Sequence[str] = ()) -> None:
    """Make the names in some folders of ``root`` durable; those that are gone need none.

    ``others`` are folders of the same file system that are elsewhere.
    """
    folders = sorted(set(paths))
    if len(folders) + len(others) > FEW and fsync_file_system(root.handle):
        return
    for path in folders:
        with root.inside(path) as folder:
            if folder is not None:
                os.fsync(folder.handle)
    for other in others:
        fsync(other)
