"""Values of plain (unquoted) scalars, by the core schema of YAML 1.2 (10.3.2)."""

from __future__ import annotations

import math
import re
import string
from typing import Final

from covalt_git.json_values.canonical_json import NotJsonError
from covalt_git.text.display import shorten

MAX_DIGITS: Final = 400
"""The most characters of an integer: a double has at most 309 digits, and Python parses this many."""

TEXT_STARTS: Final = frozenset(string.printable) - frozenset("+-.0123456789~nNtTfF")
"""ASCII characters that no constant and no number starts with, for a fast check."""

NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})

_CONSTANTS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(NULLS),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
# Digits of ASCII only: `\d` matches those of other scripts too, which YAML reads as text.
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


def resolve(text: str) -> str | int | float | bool | None:
    """Return the value of a plain scalar.

    Raises:
        NotJsonError: for a number that JSON cannot represent.
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        if len(text) > MAX_DIGITS:
            raise _too_large(text)
        # YAML 1.2 reads 012 as twelve, which `int(text, 0)` refuses.
        return int(text, 0) if text[1:2] in ("o", "x") else int(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        if math.isinf(number):
            raise _too_large(text)
        return number
    if _NOT_FINITE.fullmatch(text):
        raise NotJsonError(f"{text!r} is not a JSON number", hint=f'quote it: `"{text}"`')
    return text


def _too_large(text: str) -> NotJsonError:
    return NotJsonError(f"{shorten(text)!r} is too large for a JSON number", hint="quote it")
