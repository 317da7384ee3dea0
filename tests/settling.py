"""Waiting for the file system's clock, and for other threads and processes."""

import time
from collections.abc import Callable
from pathlib import Path


def until(holds: Callable[[], object], seconds: float = 60) -> None:
    """Wait until a condition holds that another thread or process brings about."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"{holds} did not hold within {seconds} s"
        time.sleep(0.005)


def until_one_waits(path: Path) -> None:
    """Wait until a thread or process waits for the lock of a file or folder, which only Linux shows."""
    place = f":{path.stat().st_ino} "
    locks = Path("/proc/locks")
    if not locks.exists():
        time.sleep(0.5)
        return
    until(lambda: any("->" in line and place in line for line in locks.read_text().splitlines()))
