"""What a power cut leaves of a store: what was flushed, and of the rest whatever the disk has come to."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from covalt_git.git_objects.write_ahead import this_boot

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STATES = ("whole", "empty", "zeros", "missing")
"""What becomes of a file that was not flushed."""


def start_anew(store: Path) -> None:
    """Let a store's log seem to be of another boot, as if the machine had been started anew."""
    log = store / "wal"
    if log.exists():
        log.write_bytes(log.read_bytes().replace((this_boot() or "").encode(), b"0" * 36))


def cut_off(store: Path, flushed: Path, state_of: Callable[[str], str]) -> None:
    """Leave of a store what was ``flushed``, its log, and of each other file what ``state_of`` says.

    ``flushed`` is a copy of it from when its log was empty.
    """
    for path in sorted(store.rglob("*")):
        before = flushed / path.relative_to(store)
        if path.name == "wal" or not path.is_file():
            continue
        content = path.read_bytes()
        if before.exists() and before.read_bytes() == content:
            continue
        state = state_of(str(path.relative_to(store)))
        if state == "missing":
            path.unlink()
            if before.exists():
                shutil.copy2(before, path)
        elif state != "whole":
            path.chmod(0o644)
            path.write_bytes(bytes(len(content)) if state == "zeros" else b"")
    for before in flushed.rglob("*"):
        path = store / before.relative_to(flushed)
        if before.is_file() and not path.exists():  # its removal was not flushed either
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(before, path)
    for folder in (path for path in store.rglob("*") if path.is_dir()):
        os.utime(folder, (0, 0))  # what came into it last is not in it
    start_anew(store)
