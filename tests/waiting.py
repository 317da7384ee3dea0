"""Waiting for what another process or thread does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

PATIENCE_S = 20


def wait_for(condition: Callable[[], object], seconds: float = PATIENCE_S) -> None:
    """Return as soon as a condition holds; a test in which it does not hold in time fails."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"nothing happened within {seconds} s"
        threading.Event().wait(0.005)
