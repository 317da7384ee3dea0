"""Edits of a hand-written ``toolset.yaml`` that add and remove an entry of a list.

Comments and layout stay.  The new text is parsed, and must have the old data and the one difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from covalt_git import yaml_text
from covalt_git.errors import CovaltError
from covalt_git.json_values.difference import same

if TYPE_CHECKING:
    from collections.abc import Mapping

_MARK = "\ufeff"


def with_entry(content: bytes, path: str, key: str, entry: Mapping[str, Any]) -> bytes:
    """Return a manifest with an entry at the end of a list.

    Raises:
        CovaltError: ``manifest_not_editable``, if it has to be edited by hand.
        YamlProblems: if the manifest is invalid.
    """
    document = yaml_text.load(content, path)
    entries = document.data.get(key)
    item = yaml_text.dump([dict(entry)], sort_keys=False)
    text = document.text
    if not entries:
        separator = "" if text.endswith("\n") or not text else "\n"
        new = f"{text}{separator}\n{key}:\n{_indented(item, '  ')}"
    else:
        start, end = _lines_of(document, key, len(entries) - 1)
        indent = text[start : document.offset((key, len(entries) - 1))].partition("-")[0]
        separator = "" if text[:end].endswith("\n") else "\n"
        new = f"{text[:end]}{separator}{_indented(item, indent)}{text[end:]}"
    expected = document.data | {key: [*(entries or ()), dict(entry)]}
    hint = f"add to {key} in {path}: {yaml_text.dump([dict(entry)], sort_keys=False).strip()}"
    return _checked(content, new, path, expected, hint)


def without_entry(content: bytes, path: str, key: str, entry_id: str) -> bytes:
    """Return a manifest without the entry of a list that has an id.

    Raises:
        CovaltError: ``manifest_not_editable``, if it has to be edited by hand.
        YamlProblems: if the manifest is invalid.
    """
    document = yaml_text.load(content, path)
    entries = document.data[key]
    position = next(at for at, entry in enumerate(entries) if entry.get("id") == entry_id)
    start, end = _lines_of(document, key, position)
    rest = [entry for at, entry in enumerate(entries) if at != position]
    expected = dict(document.data)
    if rest:
        expected[key] = rest
    else:
        del expected[key]
        start = document.text.rfind("\n", 0, document.offset((key,), key=True)) + 1
    new = document.text[:start] + document.text[end:]
    hint = f"remove {entry_id} from {key} in {path}"
    return _checked(content, new, path, expected, hint)


def _checked(content: bytes, text: str, path: str, expected: Any, hint: str) -> bytes:
    # The loader removes the byte order mark, and an edit must change nothing but its lines.
    mark = _MARK if content.startswith(_MARK.encode()) else ""
    edited = (mark + text).encode()
    try:
        is_expected = same(yaml_text.load(edited, path).data, expected)
    except yaml_text.YamlProblems:
        is_expected = False
    if not is_expected:
        raise CovaltError(
            f"{path} cannot be edited safely, and was left as it is",
            hint=hint,
            code="manifest_not_editable",
            http_status=409,
        )
    return edited


def _lines_of(document: yaml_text.YamlDocument, key: str, position: int) -> tuple[int, int]:
    """Return the beginning and the end of the lines of an entry of a list, without comments after it."""
    text = document.text
    first = document.offset((key, position))
    start = text.rfind("\n", 0, first) + 1
    column = len(text[start:first].partition("-")[0])
    end = at = _line_end(text, first)
    while at < len(text):
        following = _line_end(text, at)
        line = text[at:following]
        words = line.strip()
        if words and not words.startswith("#"):
            if len(line) - len(line.lstrip()) <= column:
                break
            end = following
        at = following
    return start, end


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _indented(text: str, indent: str) -> str:
    return "".join(f"{indent}{line}" for line in text.splitlines(keepends=True))
