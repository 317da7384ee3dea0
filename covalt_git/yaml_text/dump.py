"""Writer of JSON values as YAML that all parsers read alike, for generated files."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, Final

from covalt_git.json_values.canonical_json import NotJsonError
from covalt_git.yaml_text.characters import SURROGATE, escaped
from covalt_git.yaml_text.core_schema import MAX_DIGITS
from covalt_git.yaml_text.document import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    _Order = Callable[[Iterable[str]], list[str]]

_PLAIN = re.compile(r"[^\W\d](?:[\w./@+~$*()%,;!?'=-]|:(?=[\w/])| (?=[\w(]))*")
"""Texts that need no quotes in any version of YAML: a letter, followed by simple characters."""

# YAML 1.1 reads all of them as a boolean or null, YAML 1.2 some of them as text.
_WORDS: Final = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})
_INTEGER_END: Final = 10 ** (MAX_DIGITS - 1)
_MAX_SIMPLE_KEY: Final = 1000
"""After 1,024 characters, a parser does not search for the colon of a key."""


def dump(data: Any, header: str = "", *, sort_keys: bool = True) -> str:
    """Return ``data`` as YAML, after ``header`` as a comment.

    Keys are sorted by default, and each value has its own line, so that git can merge branches.  Texts are
    quoted if YAML 1.1 or 1.2 would read another value.  ``load(dump(data)).data == data``, within the limits
    of :func:`load`.

    Raises:
        NotJsonError: for a value that is not JSON or nested deeper than ``MAX_DEPTH``, with its place.
    """
    return comment(header) + "\n".join(_lines(data, "$", 0, sorted if sort_keys else list)) + "\n"


def comment(text: str) -> str:
    """Return lines of text as comments."""
    return "".join(f"# {escaped(line)}".rstrip() + "\n" for line in text.splitlines())


def _lines(value: Any, place: str, depth: int, order: _Order) -> Iterator[str]:
    """Yield the lines of a value, without indentation."""
    if not isinstance(value, dict | list) or not value:
        yield _scalar(value, place)
        return
    if depth == MAX_DEPTH:
        raise NotJsonError(f"{place}: nested too deeply")
    if isinstance(value, list):
        for position, item in enumerate(value):
            first, *rest = _lines(item, f"{place}[{position}]", depth + 1, order)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
        return
    yield from _mapping_lines(value, place, depth, order)


def _mapping_lines(value: dict[str, Any], place: str, depth: int, order: _Order) -> Iterator[str]:
    for key in value:
        if type(key) is not str:
            raise NotJsonError(f"{place}: the key {key!r} is not a string")
    for key in order(value):
        item = value[key]
        head = f"{_text(key, place)}:"
        if len(head) > _MAX_SIMPLE_KEY:
            yield f"? {head[:-1]}"
            head = ":"
        lines = _lines(item, f"{place}.{key}", depth + 1, order)
        if isinstance(item, dict | list) and item:
            yield head
            yield from (f"  {line}" for line in lines)
        else:
            yield f"{head} {next(lines)}"


def _scalar(value: Any, place: str) -> str:
    """Return a scalar or an empty collection, on one line."""
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    kind = type(value)
    if kind is str:
        return _text(value, place)
    if kind is int:
        if abs(value) < _INTEGER_END:
            return str(value)
        raise NotJsonError(f"{place}: the integer is too large for a JSON number")
    if kind is float and math.isfinite(value):
        # 1e+16 is a text in YAML 1.1.
        mantissa, exponent, power = repr(value).partition("e")
        return f"{mantissa}.0e{power}" if exponent and "." not in mantissa else repr(value)
    if isinstance(value, dict | list):
        return "{}" if isinstance(value, dict) else "[]"
    raise NotJsonError(f"{place}: a {kind.__name__} is not a JSON value")


def _text(text: str, place: str) -> str:
    if SURROGATE.search(text):
        raise NotJsonError(f"{place}: the text contains an unpaired surrogate")
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return escaped(json.dumps(text, ensure_ascii=False))
