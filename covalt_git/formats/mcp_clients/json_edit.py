"""Edit of one value in JSON with comments, which leaves all other text unchanged."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from covalt_git.formats.documents import FormatError, parse, without_comments

if TYPE_CHECKING:
    from collections.abc import Sequence

_SPACE = re.compile(r"\s*")
_DECODER = json.JSONDecoder()


def with_value(text: str, path: Sequence[str], value: Any, display_path: str) -> str:
    """Return the text of an object after setting ``path`` to a value; missing objects of the path are added.

    Raises:
        FormatError: if the text is invalid, or a value of the path is not an object.
    """
    if not text.strip():
        text = "{}\n"
    document = parse(text.encode(), display_path)
    expected = document.value
    if document.kind != "json" or not isinstance(expected, dict):
        raise FormatError(f"{display_path!r} must contain a JSON object")
    inner = expected
    for key in path[:-1]:
        inner = inner.setdefault(key, {})
        if not isinstance(inner, dict):
            raise FormatError(f"{key!r} in {display_path!r} must be an object")
    inner[path[-1]] = value
    edited = _edited(text, path, value)
    # The file has the user's other settings: an edit that changes any of them is not written.
    if parse(edited.encode(), display_path).value != expected:
        raise FormatError(f"{display_path!r} cannot be edited safely", hint="edit it by hand")
    return edited


def _edited(text: str, path: Sequence[str], value: Any) -> str:
    plain = without_comments(
        text
    )  # of the same length, so that positions in it are those in the file
    start = plain.index("{")
    for depth, key in enumerate(path):
        members = _members(plain, start)
        span = members.get(key)
        if span is not None and depth + 1 < len(path):
            start = span[0]
            continue
        last = next(reversed(members.values()), None)
        indent = _indent(text, last[0] if last else start) + ("" if last else "  ")
        if span is not None:
            return text[: span[0]] + _lines(value, indent) + text[span[1] :]
        for name in reversed(path[depth + 1 :]):
            value = {name: value}
        entry = f"{json.dumps(key, ensure_ascii=False)}: {_lines(value, indent)}"
        if last:
            return _appended(text, plain, last[1], f"\n{indent}{entry}")
        end = plain.index("}", start)
        comments = text[start + 1 : end].rstrip()
        return f"{text[: start + 1]}{comments}\n{indent}{entry}\n{indent[:-2]}{text[end:]}"
    raise AssertionError(path)


def _appended(text: str, plain: str, end: int, entry: str) -> str:
    """Return the text with an entry after the last member, and after a comment on that member's line."""
    line_end = text.find("\n", end)
    if line_end < 0 or plain[end:line_end].strip():  # the object ends on this line
        return f"{text[:end]},{entry}{text[end:]}"
    behind = text[end:line_end]
    has_comma = behind.lstrip().startswith(",")
    comma, last = ("", ",") if has_comma else (",", "")
    return f"{text[:end]}{comma}{behind}{entry}{last}{text[line_end:]}"


def _members(text: str, start: int) -> dict[str, tuple[int, int]]:
    """Return the keys of the object that begins at ``start``, each with the beginning and end of its value."""
    spans: dict[str, tuple[int, int]] = {}
    at = _after_space(text, start + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        begin = _after_space(text, text.index(":", at) + 1)
        _, end = _DECODER.raw_decode(text, begin)
        spans[key] = (begin, end)
        at = _after_space(text, end)
        if text[at] == ",":
            at = _after_space(text, at + 1)
    return spans


def _after_space(text: str, at: int) -> int:
    space = _SPACE.match(text, at)
    assert space is not None  # the pattern matches everywhere
    return space.end()


def _indent(text: str, at: int) -> str:
    """Return the white space at the beginning of a line."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _lines(value: Any, indent: str) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", f"\n{indent}")
