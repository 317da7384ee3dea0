"""Levels of lists and objects inside each other, which recursive readers and writers limit."""

from __future__ import annotations

import re
from typing import Any

# Possessive, so that a text with many quotes is read once.
_PART = re.compile(r'"(?:[^"\\]++|\\.)*+"|[\[\]{}]', re.DOTALL)


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


def cut(value: Any, most: int) -> Any:
    """Return a JSON value with None in place of the lists and objects below ``most`` levels of them."""
    if not isinstance(value, dict | list):
        return value
    if most == 0:
        return None
    if isinstance(value, dict):
        return {key: cut(inner, most - 1) for key, inner in value.items()}
    return [cut(inner, most - 1) for inner in value]


def cut_text(text: str, most: int) -> str:
    """Return a JSON text with ``null`` in place of the lists and objects below ``most`` levels of them."""
    pieces, copied_to, level = [], 0, 0
    for part in _PART.finditer(text):
        if part[0] in {"[", "{"}:
            level += 1
            if level == most + 1:
                pieces += [text[copied_to : part.start()], "null"]
        elif part[0] in {"]", "}"}:
            if level == most + 1:
                copied_to = part.end()
            level -= 1
    # Of a text that ends within a part, nothing more is copied, and it stays invalid.
    return "".join([*pieces, text[copied_to:] if level <= most else ""])
