"""Tables of arrays of objects: the columns and the cells."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def column_names(objects: Iterable[dict[str, object]]) -> list[str]:
    """Return the keys of all objects, each once; a key that the first objects lack comes after the key before it.

    So a column of a value that is optional is where the objects that have it show it.
    """
    following: dict[str | None, str | None] = {None: None}
    for item in objects:
        previous: str | None = None
        for name in item:
            if name not in following:
                following[name], following[previous] = following[previous], name
            previous = name
    names: list[str] = []
    while (last := following[names[-1] if names else None]) is not None:
        names.append(last)
    return names


def cell(value: object) -> str:
    """Return the text of a value in a table; empty for null, and JSON for what is not a text."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
