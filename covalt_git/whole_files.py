"""Putting a text in the place of a file: readers see the old one or the new one, whoever is killed."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import time
from typing import TYPE_CHECKING

from covalt_git.flushing import flush
from covalt_git.names import new_id

if TYPE_CHECKING:
    from pathlib import Path

_AN_HOUR = 3600


def write_whole(file: Path, text: str) -> None:
    """Put a text at ``file``, durable and never half of it; who may read it stays."""
    file.parent.mkdir(parents=True, exist_ok=True)
    _clear(file)
    temporary = file.with_name(f".{file.name}.{new_id()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as out:
            out.write(text)
            with contextlib.suppress(FileNotFoundError):
                shutil.copymode(file, temporary)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
    flush(file.parent)


def _clear(file: Path) -> None:
    """Remove what writers of a file left who were killed: nobody needs an hour to write one."""
    for left in file.parent.glob(f".{glob.escape(file.name)}.*.tmp"):
        with contextlib.suppress(OSError):
            if left.stat().st_mtime < time.time() - _AN_HOUR:
                left.unlink()
