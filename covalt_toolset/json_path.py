"""Paths of places in a JSON value: ``$.config.rows[3].name``."""

from __future__ import annotations

import json
import re

# covalt_git has such paths too, in json_values/pointer.py; the SDK does not import that package.
ROOT = "$"

_PART = re.compile(r"\.([A-Za-z_][A-Za-z0-9_-]*)|\[(\"(?:[^\"\\]|\\.)*\")\]|\[([0-9]+)\]")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def member(place: str, key: str) -> str:
    """Return the place of ``key`` in the object at ``place``."""
    if _PLAIN_KEY.fullmatch(key):
        return f"{place}.{key}"
    return f"{place}[{json.dumps(key)}]"


def parts(place: str) -> list[str | int]:
    """Return the keys and indexes of a place."""
    return [
        name or (json.loads(quoted) if quoted else int(index))
        for name, quoted, index in _PART.findall(place)
    ]


def item(place: str, index: int) -> str:
    """Return the place of the item at ``index`` in the array at ``place``."""
    return f"{place}[{index}]"
