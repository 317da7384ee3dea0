"""Counting of work, which is the same on each machine; time is not."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def work_of(run: Callable[[], object]) -> int:
    """Return how many lines of our modules, and of difflib, a function runs, and how many calls of theirs return."""
    count = 0
    counted: dict[str, bool] = {}

    def step(_: FrameType, event: str, argument: object) -> Callable[..., Any]:  # noqa: ARG001 - called for each line
        nonlocal count
        count += 1
        return step

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:  # noqa: ARG001
        file = frame.f_code.co_filename
        if (is_counted := counted.get(file)) is None:
            is_counted = counted[file] = "covalt_git" in file or "difflib" in file
        return step if is_counted else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return count
