"""Canonical JSON (RFC 8785) for values that are hashed, compared or stored in commits.

Equal values have equal bytes, so that grants and approvals can refer to their digest.  The reader
rejects duplicate keys, NaN and text that is not UTF-8, which other parsers read differently.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import rfc8785

from covalt_git.errors import CovaltError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_EXACT_INTEGER = 2**53 - 1
"""The largest integer that every JSON parser reads exactly (RFC 7493, section 2.2)."""

_MAX_PLAIN_DIGITS = 22
"""RFC 8785 writes doubles below 1e21 without an exponent: 21 digits and a sign."""
_QUOTE = "put the number in quotes"
_TOO_LONG = 10**40
"""Messages do not contain larger integers; Python cannot print more than 4,300 digits."""


class NotJsonError(CovaltError):
    """A value that JSON cannot represent exactly, or a text that is not one JSON value."""

    code = "not_json"


def dumps(value: Any) -> bytes:
    """Return the canonical bytes of ``value``.

    Raises:
        NotJsonError: for a value that JSON cannot represent, with its place (``$.rows[3].total``).
    """
    try:
        if _is_plain(value):
            return _ENCODER.encode(value).encode()
        return bytes(rfc8785.dumps(value))
    except (ValueError, RecursionError) as error:
        # Searched only now: neither writer says where the value is, and nearly all values are valid.
        place, reason = next(_obstacles(value, "$"), ("$", error))
        raise NotJsonError(f"{place}: {reason}") from None


def _is_plain(value: Any) -> bool:
    """Return whether the standard library writes a value as in RFC 8785, in a tenth of the time.

    This is false for doubles, large integers, and keys whose order in UTF-16 can differ.
    """
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return True
    if kind is int:
        return bool(-MAX_EXACT_INTEGER <= value <= MAX_EXACT_INTEGER)
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str or not key.isascii():
                return False
            # Most values are texts, which need no call.
            if type(item) is not str and not _is_plain(item):
                return False
        return True
    return (kind is list or kind is tuple) and all(map(_is_plain, value))


def loads(text: bytes | str) -> Any:
    """Return the value of one JSON text.

    Raises:
        NotJsonError: for anything that is not exactly one JSON value in UTF-8.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        # Named, as it is invisible: the decoder alone says that it expects a value.
        if text.startswith("\ufeff"):
            raise json.JSONDecodeError("Unexpected UTF-8 BOM", text, 0)
        return _DECODER.decode(text)
    except UnicodeDecodeError:
        raise NotJsonError("the text is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise NotJsonError(syntax_problem(error)) from None
    except RecursionError:
        raise NotJsonError("the value is nested too deeply") from None


_SYNTAX = {
    "Expecting value": "expected a value: { or [, a text in double quotes, a number, true, false or null",
    "Expecting property name enclosed in double quotes": "expected a key in double quotes",
    "Expecting ':' delimiter": "expected a colon after the key",
    "Expecting ',' delimiter": "expected a comma or the closing bracket",
    "Extra data": "expected the end, because the value is complete before this",
    "Unterminated string starting at": "the text that starts here has no closing double quote",
    "Invalid control character at": "a line break in a text must be written as \\n, and other control characters as \\u0000",
    "Invalid \\uXXXX escape": "\\u must be followed by four hexadecimal digits",
    "Invalid \\escape": "a backslash in a text must be written as \\\\",
    "Illegal trailing comma before end of": "a comma must not come before the closing bracket",
}
"""What the decoder expects, by the first words of its message."""


def syntax_problem(error: json.JSONDecodeError) -> str:
    """Return the place of a syntax error, ``LINE:COLUMN:``, with what is expected there."""
    words = next(
        (text for start, text in _SYNTAX.items() if error.msg.startswith(start)), error.msg
    )
    return f"{error.lineno}:{error.colno}: {words}"


def digest(value: Any) -> str:
    """Return ``sha256:<hex>`` of the canonical bytes of ``value``."""
    return digest_bytes(dumps(value))


def digest_bytes(content: bytes) -> str:
    """Return ``sha256:<hex>`` of ``content``."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        # In linear time, as the text comes from others (test_duplicate_among_many_keys_is_found_in_linear_time).
        [(repeated, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise NotJsonError(f"duplicate key {repeated!r}")
    return value


def _integer(digits: str) -> int | float:
    # First the length: Python takes the square of it to parse digits, and refuses more than 4,300.
    if len(digits) <= _MAX_PLAIN_DIGITS:
        number = int(digits)
        if abs(number) <= MAX_EXACT_INTEGER:
            return number
        # RFC 8785 writes the double 1e20 as 100000000000000000000, which must be readable.
        double = float(number)
        if rfc8785.dumps(double) == digits.encode():
            return double
    raise NotJsonError(f"{digits[:40]} is too large for an exact JSON number", hint=_QUOTE)


def _double(digits: str) -> float:
    double = float(digits)
    if math.isinf(double):
        raise NotJsonError(f"{digits[:40]} is too large for a JSON number", hint=_QUOTE)
    return double


def _no_constant(name: str) -> float:
    raise NotJsonError(f"{name} is not JSON")


def _obstacles(value: Any, place: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the places of values that JSON cannot represent, and the reasons."""
    if depth > 200:  # noqa: PLR2004 - far beyond any document, well within Python's stack
        yield place, "the value is nested too deeply"
    elif isinstance(value, int):
        if abs(value) > MAX_EXACT_INTEGER:
            number = value if abs(value) < _TOO_LONG else "an integer"
            yield place, f"{number} is too large for an exact JSON number; {_QUOTE}"
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield place, f"{value} is not a JSON number"
    elif isinstance(value, str):
        if any("\ud800" <= char <= "\udfff" for char in value):
            yield place, "the text contains an unpaired surrogate"
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                yield place, f"the key {key!r} is not a string"
            yield from _obstacles(key, f"{place}.<key>", depth + 1)
            yield from _obstacles(item, f"{place}.{key}", depth + 1)
    elif isinstance(value, list | tuple):
        for position, item in enumerate(value):
            yield from _obstacles(item, f"{place}[{position}]", depth + 1)
    elif value is not None:
        yield place, f"a {type(value).__name__} is not JSON"


_ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"))
_DECODER = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_int=_integer,
    parse_float=_double,
    parse_constant=_no_constant,
)
