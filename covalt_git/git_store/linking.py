"""Hard links of packs between stores: a pack exists as long as one store has a link to it."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from typing import TYPE_CHECKING

from covalt_git.git_store.objects import BrokenStoreError
from covalt_git.git_store.pack_stream import store_pack
from covalt_git.system.atomic_write import fsync

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.git_store.object_reader import ObjectReader

_CANNOT_LINK = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS}


def link_objects(store: ObjectReader, other: ObjectReader, *, durable: bool) -> None:
    """Link all packs of a store to another one, which is empty, and copy its loose objects as a pack.

    Tag objects, the notes of chats of version 0.1, are not copied.  The caller holds the chat's lock.

    Raises:
        BrokenStoreError: when the store borrows objects from yet another one.
    """
    objects = store.path / "objects"
    if (objects / "info" / "alternates").exists():
        raise BrokenStoreError(
            f"{store.path} borrows objects from another store",
            hint=f"git -C {store.path} repack -a -d, then rm {objects}/info/alternates",
        )
    folder = other.path / "objects" / "pack"
    folder.mkdir(exist_ok=True)
    for index in objects.glob("pack/*.idx"):
        if index.with_suffix(".pack").exists():
            for path in (index, index.with_suffix(".pack")):
                _link(path, folder / path.name)
    loose = []
    for oid in store.objects.loose_objects():
        with contextlib.suppress(BrokenStoreError):
            if store.read_object(oid)[0] != b"tag":
                loose.append(oid)
    if loose:
        store_pack(store.objects, loose, folder, durable=durable)
    elif durable:
        fsync(folder)


def _link(path: Path, target: Path) -> None:
    try:
        os.link(path, target)
    except OSError as error:
        if error.errno not in _CANNOT_LINK:
            raise
        shutil.copy(path, target)
        fsync(target)
