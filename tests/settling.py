"""Waiting for the file system's clock, and for other threads and processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

TICK_NS = 30_000_000
"""Resolution of the timestamps of file systems, in nanoseconds."""


def settle(path: Path) -> None:
    """Wait until the last change of a file, or below a folder, is past."""
    newest = max(one.lstat().st_ctime_ns for one in [path, *path.rglob("*")])
    while time.time_ns() - newest < TICK_NS:
        time.sleep(0.01)


def until(holds: Callable[[], object], seconds: float = 60) -> None:
    """Wait until a condition holds that another thread or process brings about."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"{holds} did not hold within {seconds} s"
        time.sleep(0.005)
