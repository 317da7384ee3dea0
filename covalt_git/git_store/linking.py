"""Hard links of packs and objects between stores: a file exists as long as one store has a link to it."""

from __future__ import annotations

import errno
import os
import shutil
from typing import TYPE_CHECKING

from covalt_git.git_store.objects import BrokenStoreError

if TYPE_CHECKING:
    from covalt_git.git_store.object_reader import ObjectReader

_CANNOT_LINK = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS}


def link_objects(store: ObjectReader, other: ObjectReader) -> None:
    """Link all packs and loose objects of a store to another one; the caller fsyncs that.

    The caller holds the chat's lock.

    Raises:
        BrokenStoreError: when the store borrows objects from yet another one.
    """
    objects = store.objects
    if objects.alternates:
        raise BrokenStoreError(
            f"{store.path} borrows objects from another store",
            hint=f"git -C {store.path} repack -a -d, then rm {objects.path}/info/alternates",
        )
    packs = [pack.path for pack in objects.packs]
    indexes = [pack.with_suffix(".idx") for pack in packs]
    for path in [*indexes, *packs, *objects.loose_objects().values()]:
        target = other.objects.path / path.relative_to(objects.path)
        target.parent.mkdir(exist_ok=True)
        try:
            os.link(path, target)
        except OSError as error:
            if error.errno not in _CANNOT_LINK:
                raise
            shutil.copy(path, target)
    other.objects.refresh()
