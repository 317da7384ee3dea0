"""Clearing away a tool's private folder, whatever it left there."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path


def remove(path: Path) -> None:
    """Remove a file or a folder, also one that its owner was locked out of; links are not followed."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    _open(path)
    for folder, below, _ in os.walk(path):
        for name in below:
            _open(Path(folder, name))
    shutil.rmtree(path, ignore_errors=True)


def _open(folder: Path) -> None:
    if not folder.is_symlink():
        with contextlib.suppress(OSError):
            folder.chmod(0o700)
