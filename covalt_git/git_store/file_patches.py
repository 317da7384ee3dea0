"""Git's patches of single files that are in no store."""

from __future__ import annotations

import io
import re

from dulwich.objects import Blob
from dulwich.patch import write_blob_diff

Side = tuple[int, bytes]
"""The mode and the content of a file."""

_INDEX_WITH_MODE = re.compile(rb"^(index [0-9a-f]+\.\.[0-9a-f]+) \d+$", re.MULTILINE)
_NONE = (None, None, None)


def file_patch(path: str, old: Side | None, new: Side | None) -> bytes:
    """Return the patch of one path, which ``git apply`` takes, between two sides or one and nothing."""
    out = io.BytesIO()
    name = path.encode("utf-8", "surrogateescape")
    write_blob_diff(out, _side(name, old), _side(name, new))
    if not old or not new or old[0] == new[0]:
        return out.getvalue()
    return with_modes_as_git_says(out.getvalue(), same_content=old[1] == new[1])


def with_modes_as_git_says(patch: bytes, *, same_content: bool) -> bytes:
    """Mend what dulwich writes where the mode changed.

    It says "old file mode", which git does not understand, gives an index line with no hunk below it
    when nothing else has changed, and with the new mode in it, which git would take for both.
    """
    patch = patch.replace(b" file mode ", b" mode ", 2)
    if same_content:
        return patch.partition(b"index ")[0]
    return _INDEX_WITH_MODE.sub(rb"\1", patch, count=1)


def _side(name: bytes, side: Side | None) -> tuple[bytes | None, int | None, Blob | None]:
    return _NONE if side is None else (name, side[0], Blob.from_string(side[1]))
