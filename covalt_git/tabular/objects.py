"""Tables of arrays of objects: the columns and the cells."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def column_names(objects: Iterable[dict[str, object]]) -> list[str]:
    """Return the keys of all objects, each once; a key that the first objects lack comes before the key after it.

    So the column of an optional value is where the objects that have it show it.
    """
    preceding: dict[str | None, str | None] = {None: None}
    for item in objects:
        following: str | None = None
        for name in reversed(item):
            if name not in preceding:
                preceding[name], preceding[following] = preceding[following], name
            following = name
    names: list[str] = []
    while (first := preceding[names[-1] if names else None]) is not None:
        names.append(first)
    return names[::-1]


def cell(value: object) -> str:
    """Return the text of a value in a table; empty for null, and JSON for what is not a text."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
