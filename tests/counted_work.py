"""Counting of work, which is the same on each machine; time is not."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def work_of(run: Callable[[], object]) -> int:
    """Return how many lines of our modules, and of difflib, a function runs."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        nonlocal count
        if (
            "covalt_git" not in frame.f_code.co_filename
            and "difflib" not in frame.f_code.co_filename
        ):
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return count
