"""Having on the disk what is written: without it, a power cut may take back what was acknowledged."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def flush(path: Path | str) -> None:
    """Have a file's content, or the names in a folder, on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_content(handle: int) -> None:
    """Have an open file's content on the disk, without its times."""
    getattr(os, "fdatasync", os.fsync)(handle)  # macOS has only the one
