"""Waiting until what was written is past for the file system's clock, so that its signature tells of it."""

from __future__ import annotations

import time
from pathlib import Path

TICK_NS = 30_000_000
"""How long a file system may take to tell two moments apart, in nanoseconds."""


def settle(path: Path) -> None:
    """Wait until the last change of a file, or below a folder, is past."""
    newest = max(one.lstat().st_ctime_ns for one in [path, *path.rglob("*")])
    while time.time_ns() - newest < TICK_NS:
        time.sleep(0.01)
