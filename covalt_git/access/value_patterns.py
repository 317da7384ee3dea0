"""Values and text patterns of a rule, of which a value may match one in one of its forms.

A text is compared as written and as a normalized path.  A number has the same value as number and as text, in each
notation: the engine reads an integer beyond 2^53 from a text, and HTTP tools write numbers as text.
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final

from covalt_git.json_values import canonical_json, with_texts
from covalt_git.names import matches_text
from covalt_git.paths import WORKSPACE_PREFIX, normal_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MOST_DIGITS: Final = 1000
"""Digits of the longest integer that the engine reads from a text; longer notations are compared as numbers only."""

_JSON_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
"""The notation of JSON, in which a call or a server reads the text of a number; ``0100`` can be an id."""

_BEGINS_A_NUMBER: Final = frozenset("+-.iInN")


class ValuePatterns:
    """Values and text patterns, prepared to be compared with many values."""

    def __init__(self, rule_values: Sequence[Any]) -> None:
        scalars = [value for value in rule_values if not isinstance(value, dict | list)]
        texts = [value for value in scalars if isinstance(value, str)]
        self._texts = _TextPatterns(texts, also=map(scalar_text, scalars))
        self._paths = _TextPatterns(map(plain_path, texts))
        numbers = [
            value for value in scalars if value not in texts or _JSON_NUMBER.fullmatch(value)
        ]
        self._numbers = {number_of(value) for value in numbers} - {None}
        parts = [value for value in rule_values if isinstance(value, dict | list)]
        self._parts = {form for part in parts for form in _part_forms(part)}
        self._lengths = {(type(part), len(part)) for part in parts}

        self.has_scalars = bool(scalars)
        self.has_parts = bool(parts)

    def may_match_part(self, value: Any) -> bool:
        """Return whether a list or an object may match one of them."""
        if not isinstance(value, dict | list) or (type(value), len(value)) not in self._lengths:
            return False
        return not self._parts.isdisjoint(_part_forms(value))

    def may_match(self, value: Any) -> bool:
        """Return whether a value that is no list and no object may match one of them."""
        if isinstance(value, dict | list):
            return False
        if self._texts.match(scalar_text(value)):
            return True
        if isinstance(value, str) and self._paths.match(plain_path(value)):
            return True
        if isinstance(value, str) and not _JSON_NUMBER.fullmatch(value):
            return False
        number = number_of(value)
        if number is None:
            return False
        return number in self._numbers or any(map(self._texts.match, _notations(number)))


class _TextPatterns:
    """Text patterns in which ``*`` matches any characters."""

    def __init__(self, patterns: Iterable[str], also: Iterable[str] = ()) -> None:
        every = [*patterns]
        self._literals = {pattern for pattern in every if "*" not in pattern}.union(also)
        self._wild = [pattern for pattern in dict.fromkeys(every) if "*" in pattern]
        # The caller chooses how many texts are compared: most of them are excluded by one comparison with all patterns.
        self._begins = tuple(pattern.partition("*")[0] for pattern in self._wild)
        self._ends = tuple(pattern.rpartition("*")[2] for pattern in self._wild)

    def match(self, text: str) -> bool:
        if text in self._literals:
            return True
        if not text.startswith(self._begins) or not text.endswith(self._ends):
            return False
        return any(matches_text(pattern, text) for pattern in self._wild)


def plain_path(text: str) -> str:
    """Return a normalized path; HTTP tools read the file of ``workspace:a.txt`` and ``a.txt`` alike."""
    return normal_path(text.removeprefix(WORKSPACE_PREFIX))


def scalar_text(value: Any) -> str:
    """Return a text, or the text of another scalar, as in the query of a URL."""
    return value if isinstance(value, str) else canonical_json.dumps(value).decode()


def number_of(value: Any) -> Decimal | None:
    """Return the exact value of a number, or of the text of one, of any length; None for other values."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str):
        begin = value.lstrip()[:1]
        if not begin.isdecimal() and begin not in _BEGINS_A_NUMBER:
            return None
    try:
        number = Decimal(value)
    except InvalidOperation:
        return _rounded(value)
    return None if number.is_nan() else number


def _rounded(text: Any) -> Decimal | None:
    """Return the double of a text whose exponent Decimal does not have, such as ``1e99999999999999999999``."""
    try:
        number = Decimal(float(text))
    except ValueError:
        return None
    return None if number.is_nan() else number


def _notations(number: Decimal) -> list[str]:
    """Return the texts that are one number: its digits, and as JSON writes a double."""
    if not number.is_finite() or number.adjusted() >= _MOST_DIGITS:
        return []
    texts = []
    if number == number.to_integral_value():
        texts.append(f"{number.to_integral_value():f}")
    if Decimal(double := float(number)) == number:
        texts.append(canonical_json.dumps(double).decode())
    return texts


def _part_forms(value: Any) -> tuple[bytes, bytes]:
    """Return a list or an object twice: as written, and with its texts as normalized paths."""
    exact = _with_exact_integers(value)
    return canonical_json.dumps(exact), canonical_json.dumps(with_texts(exact, plain_path))


def _with_exact_integers(value: Any) -> Any:
    """Return a value with doubles beyond 2^53 as texts of their digits, as which a caller can write them too."""
    if isinstance(value, float) and abs(value) > canonical_json.MAX_EXACT_INTEGER:
        return str(int(value))
    if isinstance(value, dict):
        return {key: _with_exact_integers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [*map(_with_exact_integers, value)]
    return value
