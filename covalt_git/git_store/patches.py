"""Git patches of single files, which ``git apply`` accepts."""

from __future__ import annotations

import io
import re
import stat
from typing import TYPE_CHECKING

from dulwich.objects import Blob, ObjectID
from dulwich.patch import write_object_diff

if TYPE_CHECKING:
    from covalt_git.git_store.object_reader import ObjectReader
    from covalt_git.models.chats import FileChange

Side = tuple[int, bytes]
"""The mode and the content of a file."""

_INDEX_WITH_MODE = rb"(?m)^(index [0-9a-f]+\.\.[0-9a-f]+) \d+$"


def file_patch(path: str, old: Side | None, new: Side | None) -> bytes:
    """Return the patch of one path between two sides; one of them may be absent."""
    if old and new and stat.S_IFMT(old[0]) != stat.S_IFMT(new[0]):
        return file_patch(path, old, None) + file_patch(path, None, new)
    out = io.BytesIO()
    name = path.encode("utf-8", "surrogateescape")
    blobs: dict[ObjectID, Blob] = {}
    files: list[tuple[bytes, int, ObjectID] | tuple[None, None, None]] = []
    for side in (old, new):
        blob = Blob.from_string(side[1] if side else b"")
        blobs[blob.id] = blob
        files.append((name, side[0], blob.id) if side else (None, None, None))
    write_object_diff(out, blobs, *files)  # type: ignore[arg-type]  # it only reads blobs
    if not old or not new or old[0] == new[0]:
        return out.getvalue()
    # For a changed mode, dulwich writes "old file mode", which git does not understand, and an index
    # line with the new mode, which git would read as the old mode too, or which has no hunk below it.
    patch = out.getvalue().replace(b" file mode ", b" mode ", 2)
    if old[1] == new[1]:
        return patch.partition(b"index ")[0]
    return re.sub(_INDEX_WITH_MODE, rb"\1", patch, count=1)


def change_patch(store: ObjectReader, change: FileChange) -> str:
    """Return the patch of one change in a store; bytes that are not UTF-8 are replaced."""
    old, new = (
        (side.mode, store.read_blob(side.oid)) if side else None
        for side in (change.old, change.new)
    )
    return file_patch(change.path, old, new).decode("utf-8", "replace")
