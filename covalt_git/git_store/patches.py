"""Git patches of single files, which ``git apply`` accepts, and what git calls binary."""

from __future__ import annotations

import io
import re
import stat

from dulwich.objects import Blob, ObjectID
from dulwich.patch import is_binary, write_object_diff

Side = tuple[int, bytes]
"""The mode and the content of a file."""

_INDEX_WITH_MODE = re.compile(rb"^(index [0-9a-f]+\.\.[0-9a-f]+) \d+$", re.MULTILINE)


def file_patch(path: str, old: Side | None, new: Side | None) -> bytes:
    """Return the patch of one path between two sides; one of them may be absent."""
    if old and new and stat.S_IFMT(old[0]) != stat.S_IFMT(new[0]):
        return file_patch(path, old, None) + file_patch(path, None, new)
    out = io.BytesIO()
    name = path.encode("utf-8", "surrogateescape")
    blobs: dict[ObjectID, Blob] = {}
    before, after = (_side(name, side, blobs) for side in (old, new))
    write_object_diff(out, blobs, before, after)  # type: ignore[arg-type]  # it only reads blobs
    if not old or not new or old[0] == new[0]:
        return out.getvalue()
    # For a changed mode, dulwich writes "old file mode", which git does not understand, and an index
    # line with the new mode, which git would read as the old mode too, or which has no hunk below it.
    patch = out.getvalue().replace(b" file mode ", b" mode ", 2)
    if old[1] == new[1]:
        return patch.partition(b"index ")[0]
    return _INDEX_WITH_MODE.sub(rb"\1", patch, count=1)


def is_binary_content(content: bytes) -> bool:
    """Return whether git would call the content binary."""
    return bool(is_binary(content))


def _side(
    name: bytes, side: Side | None, blobs: dict[ObjectID, Blob]
) -> tuple[bytes | None, int | None, ObjectID | None]:
    if side is None:
        return None, None, None
    blob = Blob.from_string(side[1])
    blobs[blob.id] = blob
    return name, side[0], blob.id
