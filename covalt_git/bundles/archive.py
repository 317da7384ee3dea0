"""Bundles: a toolset as one ZIP file, the same bytes for the same files on every machine.

The files lie in it as in the toolset's directory, sorted, without times, owners or compression
(what deflate makes of a file differs from one zlib to the next).

Format: PKWARE's APPNOTE 6.3, as :mod:`zipfile` writes it.
"""

from __future__ import annotations

import io
import stat
import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_FILES = 2_000
MAX_FILE_BYTES = 16 << 20
MAX_BYTES = 64 << 20
"""Together, and so the most that whoever opens a bundle has to make room for."""

_TIME = (1980, 1, 1, 0, 0, 0)  # the first that a ZIP can say
_UNIX = 3


def pack_files(files: Iterable[tuple[str, bytes, bool]]) -> bytes:
    """Return the ZIP of files in this order: path, content, and whether it may be run."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as bundle:
        for path, content, executable in files:
            entry = zipfile.ZipInfo(path, _TIME)
            entry.create_system = _UNIX
            entry.external_attr = (stat.S_IFREG | (0o755 if executable else 0o644)) << 16
            bundle.writestr(entry, content)
    return out.getvalue()
