"""JSON values to YAML that every reader understands alike, for files that the machine writes."""

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
    from collections.abc import Iterator

_PLAIN = re.compile(r"[^\W\d](?:[\w./@+~$*()%,;!?'=-]|:(?=[\w/])| (?=[\w(]))*")
"""Texts that every reader takes for themselves: they start with a letter and stay simple."""

_WORDS: Final = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})
_INTEGER_END: Final = 10 ** (MAX_DIGITS - 1)
_MAX_SIMPLE_KEY: Final = 1000
"""Past 1,024 characters a parser no longer looks for the colon."""


def dump(data: Any, header: str = "") -> str:
    """Return ``data`` as YAML for files that the machine writes, below ``header`` as a comment.

    One fact a line and keys sorted, so that branches merge; a text is quoted wherever a reader of
    YAML 1.1 or 1.2 could see something else in it.  ``load(dump(data)).data == data``, as far as
    the limits of :func:`load` go.

    Raises:
        NotJsonError: naming the place of what is not a JSON value, or deeper than ``MAX_DEPTH``.
    """
    return comment(header) + "\n".join(_written(data, "$", 0)) + "\n"


def comment(text: str) -> str:
    """Return lines of text as comments."""
    return "".join(f"# {escaped(line)}".rstrip() + "\n" for line in text.splitlines())


def _written(value: Any, place: str, depth: int) -> Iterator[str]:
    """Give the lines of a value, the first without what stands before it."""
    if not isinstance(value, dict | list) or not value:
        yield _written_leaf(value, place)
        return
    if depth == MAX_DEPTH:
        raise NotJsonError(f"{place}: this is nested too deeply")
    if isinstance(value, list):
        for position, item in enumerate(value):
            first, *rest = _written(item, f"{place}[{position}]", depth + 1)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
        return
    yield from _written_mapping(value, place, depth)


def _written_mapping(value: dict[str, Any], place: str, depth: int) -> Iterator[str]:
    for key in value:
        if type(key) is not str:
            raise NotJsonError(f"{place}: the key {key!r} is not a string")
    for key in sorted(value):
        item = value[key]
        before = f"{_written_text(key, place)}:"
        if len(before) > _MAX_SIMPLE_KEY:
            yield f"? {before[:-1]}"
            before = ":"
        lines = _written(item, f"{place}.{key}", depth + 1)
        if isinstance(item, dict | list) and item:
            yield before
            yield from (f"  {line}" for line in lines)
        else:
            yield f"{before} {next(lines)}"


def _written_leaf(value: Any, place: str) -> str:
    """Return a value without values in it, on one line."""
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    kind = type(value)
    if kind is str:
        return _written_text(value, place)
    if kind is int:
        if abs(value) < _INTEGER_END:
            return str(value)
        raise NotJsonError(f"{place}: an integer beyond what JSON numbers hold")
    if kind is float and math.isfinite(value):
        # YAML 1.1 takes 1e+16 for a text.
        mantissa, exponent, power = repr(value).partition("e")
        return f"{mantissa}.0e{power}" if exponent and "." not in mantissa else repr(value)
    if isinstance(value, dict | list):
        return "{}" if isinstance(value, dict) else "[]"
    raise NotJsonError(f"{place}: a {kind.__name__} is not a JSON value")


def _written_text(text: str, place: str) -> str:
    if SURROGATE.search(text):
        raise NotJsonError(f"{place}: half of a surrogate pair is not text")
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return escaped(json.dumps(text, ensure_ascii=False))
