"""Values of other programs in a form that records can contain, with notes about what differs.

An answer must not be lost because canonical JSON cannot represent a part of it: the tool has run.
"""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

from covalt_git.json_values import canonical_json

MOST_DEPTH = 128
"""Lists and objects that are nested deeper become a text."""

_MOST_DIGITS = 17  # far beyond 2^53 already, and fast to parse
_MOST_BITS = 4000
"""Python refuses to print integers of more than 4,300 digits."""


LARGE_INTEGER = "an integer beyond 2^53 is stored as a text of its digits"
HALF_SURROGATE = "half of a surrogate pair is stored as U+FFFD"


class Storable(NamedTuple):
    """A value that canonical JSON can represent, and what was changed in it."""

    value: Any
    notes: tuple[str, ...]


def storable(value: Any) -> Storable:
    """Return a value in a form that canonical JSON can represent; integers beyond 2^53 become texts of their digits."""
    notes: dict[str, None] = {}
    return Storable(_storable(value, notes, 0), tuple(notes))


def finite(value: Any) -> Storable:
    """Return the value of a JSON text in which NaN and infinite numbers are texts, as :func:`storable` stores them."""
    notes: dict[str, None] = {}

    def replaced(inner: Any) -> Any:
        match inner:
            case float() if not math.isfinite(inner):
                return _storable(inner, notes, 0)
            case dict():
                return {key: replaced(item) for key, item in inner.items()}
            case list():
                return [replaced(item) for item in inner]
        return inner

    return Storable(replaced(value), tuple(notes))


def loads(text: str | bytes) -> Any:
    """Return the value of a text that is almost JSON: with halves of surrogate pairs, NaN or any integers.

    Raises:
        ValueError: if it is not; also if it is nested too deeply.
    """
    try:
        return json.loads(text, parse_int=exact_integer)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def exact_integer(digits: str) -> int | str:
    """Return an integer, or its digits if it is beyond 2^53, where some readers round it."""
    # The length first: a server can send digits that Python takes seconds to parse, or refuses.
    is_short = len(digits) <= _MOST_DIGITS
    is_exact = is_short and abs(int(digits)) <= canonical_json.MAX_EXACT_INTEGER
    return int(digits) if is_exact else digits


def without_surrogates(text: str) -> str:
    """Return a text in which each half of a surrogate pair is U+FFFD; two halves that fit become their character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _storable(value: Any, notes: dict[str, None], depth: int) -> Any:
    match value:
        case str():
            return _text(value, notes)
        case bool() | None:  # before the integers, because True is an int in Python
            return value
        case int() if abs(value) > canonical_json.MAX_EXACT_INTEGER:
            notes[LARGE_INTEGER] = None
            return str(value) if value.bit_length() <= _MOST_BITS else hex(value)
        case int():
            return int(value)
        case float() if not math.isfinite(value):
            notes[f"{value} is not a JSON number, and is stored as a text"] = None
            return str(value)
        case float():
            return value
        case dict() | list() | tuple() if depth >= MOST_DEPTH:
            notes[f"values nested deeper than {MOST_DEPTH} levels are left out"] = None
            return "(nested too deeply)"
        case dict():
            return {
                _text(str(key), notes): _storable(inner, notes, depth + 1)
                for key, inner in value.items()
            }
        case list() | tuple():
            return [_storable(inner, notes, depth + 1) for inner in value]
    notes[f"a value of the type {type(value).__name__} is stored as a text"] = None
    return _text(str(value), notes)


def _text(text: str, notes: dict[str, None]) -> str:
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        notes[HALF_SURROGATE] = None
        return without_surrogates(text)
    return text
