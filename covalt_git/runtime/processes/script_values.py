"""Values of scripts as JSON data: those of an argument, and the value of a script."""

from __future__ import annotations

import math
from typing import Any, Final

_MOST_INTEGER = 2**53 - 1
_MOST_DEPTH = 100

MOST_PATH: Final = 500
"""Characters of the path of a tool; longer ones do not exist."""

FAULT: Final = "RuntimeError"
"""The exception that an error of a call is in Python."""

STUCK: Final = "the script waits for something that is no call of a tool"


class NotJsonDataError(Exception):
    """A value of a script that JSON cannot represent."""


def json_data(value: Any, what: str, depth: int = 0) -> Any:
    """Return a value of the script as JSON data; ``what`` names it in errors.

    Raises:
        NotJsonDataError: if it is not.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if depth > _MOST_DEPTH:
        raise NotJsonDataError(f"{what} is nested more than {_MOST_DEPTH} levels deep")
    if type(value) is int:
        if abs(value) > _MOST_INTEGER:
            raise NotJsonDataError(f"{what} has an integer beyond 2^53: pass it as a text")
        return value
    if type(value) is float:
        if not math.isfinite(value):
            raise NotJsonDataError(f"{what} has the number {value}, which JSON does not have")
        return value
    if type(value) is dict:
        for key in value:
            if not isinstance(key, str):
                raise NotJsonDataError(f"{what} has a key that is not a text: {key!r:.40}")
        return {str(key): json_data(item, what, depth + 1) for key, item in value.items()}
    if type(value) in {list, tuple}:
        return [json_data(item, what, depth + 1) for item in value]
    kind = getattr(value, "name", type(value).__name__)
    raise NotJsonDataError(
        f"{what} has an object of the type {kind!s:.40}, which JSON does not have"
    )
