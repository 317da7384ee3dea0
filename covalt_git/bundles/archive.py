"""Reproducible ZIP files of toolsets: equal files give equal bytes on every machine.

The entries have the paths in the toolset's directory, sorted, without times, owners or compression
(the output of deflate differs between zlib versions).

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
"""Maximum total size of the files of a bundle, which is also the space that an import needs."""

_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest time of the ZIP format
_UNIX = 3


def pack_files(files: Iterable[tuple[str, bytes, bool]]) -> bytes:
    """Return a ZIP of ``(path, content, executable)`` files, in this order."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as bundle:
        for path, content, executable in files:
            entry = zipfile.ZipInfo(path, _TIME)
            entry.create_system = _UNIX
            entry.external_attr = (stat.S_IFREG | (0o755 if executable else 0o644)) << 16
            bundle.writestr(entry, content)
    return out.getvalue()
