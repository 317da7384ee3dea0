"""Waiting for the file system's clock, and for other threads and processes."""

import time
from collections.abc import Callable


def until(holds: Callable[[], object], seconds: float = 60) -> None:
    """Wait until a condition holds that another thread or process brings about."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"{holds} did not hold within {seconds} s"
        time.sleep(0.005)
