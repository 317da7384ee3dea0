"""Levels of lists and objects inside each other, which recursive readers and writers limit."""

from __future__ import annotations

from typing import Any


def has_more_levels(value: Any, most: int) -> bool:
    """Return whether a value has more than ``most`` lists and objects inside each other."""
    # Without recursion: Python's stack ends at a thousand levels.
    waiting = [(value, 1)]
    while waiting:
        entry, level = waiting.pop()
        if isinstance(entry, dict | list | tuple):
            if level > most:
                return True
            inner = entry.values() if isinstance(entry, dict) else entry
            waiting += [
                (item, level + 1) for item in inner if isinstance(item, dict | list | tuple)
            ]
    return False
