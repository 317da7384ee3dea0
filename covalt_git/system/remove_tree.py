"""Removal of a file or a folder, also of folders without permissions for their owner."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path


def remove_tree(path: Path) -> None:
    """Remove ``path`` if it exists; symbolic links are removed, not followed."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    # From the top: each folder is unlocked before `walk` lists it.
    _unlock(path)
    for folder, below, _ in os.walk(path):
        for name in below:
            _unlock(Path(folder, name))
    shutil.rmtree(path, ignore_errors=True)


def _unlock(folder: Path) -> None:
    if not folder.is_symlink():
        with contextlib.suppress(OSError):
            folder.chmod(0o700)
