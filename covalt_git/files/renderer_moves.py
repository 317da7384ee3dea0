"""Moving a renderer from its old place, ``tools[].renderer``, to ``tool_overrides``.

It is moved as it is written, its lines with their comments.  Where the manifest is laid out in a way
that this does not know, or the tool has another renderer already, nothing is moved.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from covalt_git import yaml_text
from covalt_git.files.edits import Edit, Mend
from covalt_git.files.override_keys import override_key
from covalt_git.models import problems as codes

if TYPE_CHECKING:
    from covalt_git.files.model_errors import Loc
    from covalt_git.models.base import JsonObject
    from covalt_git.models.toolset_manifest import LegacyRenderer, ToolsetManifest

_KEY = re.compile(r"""(["']?)renderer\1[ ]*:""")
_COMMENT_ONLY = re.compile(r"[ \t]*(#.*)?")
_ITEM = re.compile(r"( *- +)")
_STEP: Final = 2
_OVERRIDES: Final = "tool_overrides"


class _Lines(NamedTuple):
    """Whole lines of the text that belong to one key: from its line to the end of its value."""

    start: int
    end: int
    indent: int
    """The column of the key, from 0."""
    first: str
    """What stands on the key's line behind the colon."""
    below: tuple[str, ...]


class _Written(NamedTuple):
    """A renderer as it is written: the comment of its type, and its configuration's lines."""

    comment: str
    config_head: str
    config_below: tuple[str, ...]
    has_config: bool


def renderer_moves(document: yaml_text.Document, manifest: ToolsetManifest) -> list[Mend]:
    """Return the moves that can be made at once; without ``tool_overrides`` only the first."""
    moves = []
    for position, tool in enumerate(manifest.tools):
        if tool.renderer is None:
            continue
        move = _move(document, manifest, position, tool.renderer)
        if move is not None:
            moves.append(move)
    return moves if _OVERRIDES in document.data else moves[:1]


def _move(
    document: yaml_text.Document, manifest: ToolsetManifest, position: int, renderer: LegacyRenderer
) -> Mend | None:
    loc: Loc = ("tools", position, "renderer")
    lines = _lines(document, loc)
    written = _written(document, loc, lines, renderer) if lines else None
    if lines is None or written is None:
        return None
    tool_id = manifest.tools[position].id
    whole = override_key(manifest.id, tool_id)
    targets = [
        at
        for at, override in enumerate(manifest.tool_overrides)
        if override_key(manifest.id, override.tool_id) == whole
    ]
    if targets:
        there = manifest.tool_overrides[targets[0]]
        taken = there.renderer is not None or (written.has_config and there.renderer_config)
        put = None if taken else _into(document, targets[0], renderer.type, written)
    else:
        put = _appended(document, tool_id, renderer.type, written)
    taken_out = _taken_out(document.text, lines)
    if put is None or taken_out is None:
        return None

    def change(data: Any) -> None:
        del data["tools"][position]["renderer"]
        facts: JsonObject = {"renderer": renderer.type}
        facts |= {"renderer_config": renderer.config} if renderer.config else {}
        if targets:
            data[_OVERRIDES][targets[0]] |= facts
        else:
            data.setdefault(_OVERRIDES, []).append({"tool_id": tool_id} | facts)

    return Mend(
        codes.LEGACY_KEY, loc, f"the renderer is now in {_OVERRIDES}", (taken_out, put), change
    )


# What is there


def _lines(document: yaml_text.Document, loc: Loc) -> _Lines | None:
    """Return the lines of a key in block style, or None where others share them."""
    text = document.text
    at = document.offset(loc, key=True)
    start = text.rfind("\n", 0, at) + 1
    before = text[start:at]
    key = _KEY.match(text, at)
    if key is None or (before.strip() and not _ITEM.fullmatch(before)):
        return None
    end = _end_of_block(text, _next_line(text, at), len(before))
    first, *below = text[key.end() : end].splitlines(keepends=True) or [""]
    return _Lines(at if before.strip() else start, end, len(before), first, tuple(below))


def _end_of_block(text: str, at: int, indent: int) -> int:
    """Return where the lines end that stand deeper than ``indent``, empty ones at the end left out."""
    end = at
    while at < len(text):
        after = _next_line(text, at)
        line = text[at:after]
        if line.strip():
            if len(line) - len(line.lstrip(" ")) <= indent:
                break
            end = after
        at = after
    return end


def _next_line(text: str, at: int) -> int:
    found = text.find("\n", at)
    return len(text) if found < 0 else found + 1


def _written(
    document: yaml_text.Document, loc: Loc, lines: _Lines, renderer: LegacyRenderer
) -> _Written | None:
    if lines.first.lstrip().startswith("{"):
        return _written_in_braces(document, loc, lines, renderer)
    head = _COMMENT_ONLY.fullmatch(lines.first.rstrip("\r\n"))
    kind = re.compile(rf"""[ ]*(["']?)type\1[ ]*:[ ]*(["']?){renderer.type}\2[ ]*(#.*)?""")
    types = [line for line in lines.below if kind.fullmatch(line.rstrip("\r\n"))]
    if head is None or len(types) != 1:
        return None
    found = kind.fullmatch(types[0].rstrip("\r\n"))
    rest = tuple(line for line in lines.below if line is not types[0])
    comment = f"  {found[3]}" if found and found[3] else ""
    config_head = f"  {head[1]}" if head[1] else ""
    if not renderer.config:
        # Nothing but comments is left; they go with the type.
        return (
            None
            if rest or (comment and config_head)
            else _Written(comment or config_head, "", (), has_config=False)
        )
    return _Written(comment, config_head, rest, has_config=True)


def _written_in_braces(
    document: yaml_text.Document, loc: Loc, lines: _Lines, renderer: LegacyRenderer
) -> _Written | None:
    text = document.text
    opened = document.offset(loc)
    closed = text.rfind("}", opened, lines.end)
    behind = _COMMENT_ONLY.fullmatch(text[closed + 1 : lines.end].rstrip())
    if closed < 0 or behind is None or text[opened] != "{":
        return None
    comment = f"  {behind[1]}" if behind[1] else ""
    if not renderer.config:
        return _Written(comment, "", (), has_config=False)
    key_at = document.offset((*loc, "type"), key=True)
    value_at = document.offset((*loc, "type"))
    value = re.compile(rf"""(["']?){renderer.type}\1""").match(text, value_at)
    if value is None:
        return None
    before, after = text[opened:key_at], text[value.end() : closed + 1]
    comma = re.compile(r"\s*,\s*").match(after)
    inner = before + after[comma.end() :] if comma else re.sub(r"\s*,\s*$", "", before) + after
    first, *below = inner.splitlines(keepends=True)
    return _Written(comment, f" {first}".rstrip("\r\n"), tuple(below), has_config=True)


# Where it goes


def _taken_out(text: str, lines: _Lines) -> Edit | None:
    """Return the edit that removes the old lines."""
    if text[lines.start - 1 : lines.start] in {"", "\n"}:
        return Edit(lines.start, lines.end, "")
    # The first key of a list item: the next one takes its place.
    following = lines.end + lines.indent
    line = text[lines.end : _next_line(text, lines.end)]
    alone = line[: lines.indent].strip() or line[lines.indent : lines.indent + 1] in {"", "#", "-"}
    return None if alone else Edit(lines.start, following, "")


def _into(document: yaml_text.Document, at: int, kind: str, written: _Written) -> Edit | None:
    """Return the edit that puts a renderer below the ``tool_id`` of an override that is there."""
    text = document.text
    key_at = document.offset((_OVERRIDES, at, "tool_id"), key=True)
    before = text[text.rfind("\n", 0, key_at) + 1 : key_at]
    if before.strip() and not _ITEM.fullmatch(before):
        return None
    place = _next_line(text, document.offset((_OVERRIDES, at, "tool_id")))
    lines = _override_lines(len(before), kind, written)
    return Edit(place, place, _joined(text, lines))


def _appended(
    document: yaml_text.Document, tool_id: str, kind: str, written: _Written
) -> Edit | None:
    """Return the edit that adds an override behind the last one."""
    text = document.text
    overrides = document.data.get(_OVERRIDES, [])
    last: Loc = (_OVERRIDES, len(overrides) - 1) if overrides else ("tools", 0)
    at = document.offset(last)
    item = _ITEM.fullmatch(text[text.rfind("\n", 0, at) + 1 : at])
    if _OVERRIDES in document.data and (not overrides or item is None):
        return None
    prefix = item[1] if item else "  - "
    head = f"{prefix}tool_id: {yaml_text.dump(tool_id).strip()}\n"
    lines = [head, *_override_lines(len(prefix), kind, written)]
    place = len(text)
    if overrides:
        place = _end_of_block(text, _next_line(text, at), prefix.index("-"))
    else:
        lines.insert(0, f"{_OVERRIDES}:\n")
    return Edit(place, place, _joined(text, lines))


def _override_lines(indent: int, kind: str, written: _Written) -> list[str]:
    lines = [f"{' ' * indent}renderer: {kind}{written.comment}\n"]
    if written.has_config:
        lines.append(f"{' ' * indent}renderer_config:{written.config_head}\n")
        lines += _indented(written.config_below, indent + _STEP)
    return lines


def _indented(lines: tuple[str, ...], indent: int) -> list[str]:
    """Return lines moved sideways as one, so that the least indented stands at ``indent``."""
    columns = [len(line) - len(line.lstrip(" ")) for line in lines if line.strip()]
    move = indent - min(columns, default=0)
    return [
        (" " * move + line if move > 0 else line[-move:]) if line.strip() else line
        for line in lines
    ]


def _joined(text: str, lines: list[str]) -> str:
    """Return new lines, ending as those of the text do."""
    joined = "".join(lines)
    if "\r\n" in text:
        joined = joined.replace("\r\n", "\n").replace("\n", "\r\n")
    return joined
