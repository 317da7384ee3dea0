"""Sharing objects between stores: hard links of files that never change.

Two stores that share them are independent all the same: a file is there for as long as one of them
has a name for it.  Where a file system cannot link, the bytes are copied.
"""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.git_store.objects import BrokenStoreError
from covalt_git.system.atomic_write import fsync

if TYPE_CHECKING:
    from covalt_git.git_store.object_folder import ObjectFolder

_CANNOT_LINK = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS}


def link_objects(objects: ObjectFolder, target: Path, *, durable: bool) -> None:
    """Give the store whose ``objects`` folder is ``target``, which is empty, all objects but notes.

    Only whoever holds the lock of the chat that they come from may.

    Raises:
        BrokenStoreError: when the store borrows objects from yet another one.
    """
    if (objects.path / "info/alternates").exists():
        raise BrokenStoreError(
            f"{objects.path.parent} borrows objects from another store",
            hint=f"git -C {objects.path.parent} repack -a -d, then rm {objects.path}/info/alternates",
        )
    objects.refresh()
    pack_folder = target / "pack"
    pack_folder.mkdir()
    folders = {pack_folder, target}
    for pack in objects.packs:
        for path in map(Path, (pack.file(".idx"), pack.file(".pack"))):
            _link(path, pack_folder / path.name)
    for path in sorted(objects.path.glob("[0-9a-f][0-9a-f]/*")):
        if objects.loose_kind(path.parent.name + path.name) in {b"tag", b""}:
            continue
        folder = target / path.parent.name
        folder.mkdir(exist_ok=True)
        folders.add(folder)
        _link(path, folder / path.name)
    for folder in folders if durable else ():
        fsync(str(folder))


def _link(path: Path, target: Path) -> None:
    try:
        os.link(path, target)
    except OSError as error:
        if error.errno not in _CANNOT_LINK:
            raise
        shutil.copy(path, target)
        fsync(str(target))
