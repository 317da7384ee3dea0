"""Three-way merge of YAML texts by key, which keeps the comments and the layout of our version.

A text is split into entries: the keys of its mappings, and the items of lists, identified by ``id`` or
``tool_id``.  An entry that only one side changed is taken from that side; an entry that both changed is
split further.  So the sides may change adjacent lines, which is a conflict in a merge by lines.  The
entries are slices of the text, so entries that did not change are kept byte for byte.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from covalt_git import yaml_text
from covalt_git.merging import line_merge

if TYPE_CHECKING:
    from covalt_git.yaml_text import YamlDocument

_IDENTITIES = ("id", "tool_id")
_LINE_ABOVE = re.compile(r"(?:\A|(?<=\n))([ ]*)#[^\n]*\n\Z")

Loc = tuple[str | int, ...]
Sides = tuple[str, str]


class MergedText(NamedTuple):
    """A merged text; unless it is ``clean``, it contains conflict markers."""

    content: bytes
    clean: bool


def merge_yaml(base: bytes, ours: bytes, theirs: bytes, names: Sides) -> MergedText | None:
    """Return the text with the changes of both sides; ``names`` are the labels in conflict markers.

    The result is None if the texts cannot be merged by keys: they are not YAML, or their layouts differ
    too much.  A clean result is valid YAML.
    """
    try:
        documents = [yaml_text.load(text, "") for text in (base, ours, theirs)]
    except yaml_text.YamlProblems:
        return None
    blocks = [_split(document, (), 0, len(document.text)) for document in documents]
    merged = _merge_blocks(blocks[0], blocks[1], blocks[2], names)
    if merged is None:
        return None
    if merged.clean:
        try:
            # The parts are merged as texts. If one side removes an anchor that the other one uses, the result is not
            # YAML.
            yaml_text.load(merged.content, "")
        except yaml_text.YamlProblems:
            return None
    return merged


class _Entry(NamedTuple):
    """A key with its value, or an item of a list, from ``start`` to ``end`` of its document.

    ``text`` begins at the start of a line; after the dash of a list item, spaces replace the dash.
    """

    document: YamlDocument
    loc: Loc
    start: int
    end: int
    text: str

    def block(self) -> _Block | None:
        """Return the entries inside it, or None if it has none that can be identified."""
        return _split(self.document, self.loc, self.start, self.end)


class _Block(NamedTuple):
    """A mapping or a list as text: the text before its entries, and the entries by name.

    With ``dash``, the first key of the mapping is on the line of the list item's dash.
    """

    head: str
    entries: dict[str, _Entry]
    column: int
    dash: bool


def _split(document: YamlDocument, loc: Loc, start: int, end: int) -> _Block | None:
    """Split the text from ``start`` to ``end``, which contains the value at ``loc``."""
    value: Any = document.data
    for part in loc:
        value = value[part]
    text = document.text
    if isinstance(value, dict):
        locs_and_places = [
            ((*loc, name), document.offset((*loc, name), key=True)) for name in value
        ]
        names = list(value)
    else:
        names = _identities(value)
        dashes = [text.rfind("-", start, document.offset((*loc, at))) for at in range(len(names))]
        locs_and_places = [((*loc, at), place) for at, place in enumerate(dashes)]
    places = [place for _, place in locs_and_places]
    if not places or not start <= places[0] or places[-1] >= end:
        return None  # empty, or an alias of another node
    if any(first >= second for first, second in pairwise(places)):
        return None
    lines = [text.rfind("\n", 0, place) + 1 for place in places]
    column = places[0] - lines[0]
    prefixes = [text[line:place].strip() for line, place in zip(lines, places, strict=True)]
    if any(place - line != column for line, place in zip(lines, places, strict=True)):
        return None  # in flow style
    if any(prefixes[1:]) or prefixes[0] not in {"", "-"}:
        return None
    dash = prefixes[0] == "-"
    starts = [max(_with_comments(text, line, column), start) for line in lines]
    if dash:
        starts[0] = places[0]
    pad = " " * column if dash else ""
    entries = {
        name: _Entry(
            document, entry_loc, first, last, (pad if first == places[0] else "") + text[first:last]
        )
        for name, (entry_loc, _), first, last in zip(
            names, locs_and_places, starts, [*starts[1:], end], strict=True
        )
    }
    return _Block(text[start : starts[0]], entries, column, dash)


def _identities(value: object) -> list[str]:
    """Return the ids of the items of a list; empty if they are missing or not unique."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        return []
    for key in _IDENTITIES:
        names = [item.get(key) for item in value]
        if all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
            return [str(name) for name in names]
    return []


def _with_comments(text: str, line: int, column: int) -> int:
    """Return the start of the comment lines directly above a line that have the same indentation.

    A line with deeper indentation may be the end of a block scalar.
    """
    while True:
        above = text.rfind("\n", 0, max(line - 1, 0)) + 1
        comment = _LINE_ABOVE.search(text[above:line])
        if above == line or comment is None or len(comment[1]) != column:
            return line
        line = above


def _merge_blocks(
    base: _Block | None, ours: _Block | None, theirs: _Block | None, names: Sides
) -> MergedText | None:
    if ours is None or theirs is None:
        return None
    if (ours.column, ours.dash) != (theirs.column, theirs.dash):
        return None
    old = base.entries if base else {}
    head = _one_changed(base.head if base else ours.head, ours.head, theirs.head)
    if head is None:
        return None
    parts: dict[str, MergedText] = {}
    for name in _in_order(ours, theirs):
        merged = _merge_entries(
            old.get(name), ours.entries.get(name), theirs.entries.get(name), names
        )
        if merged.content:
            parts[name] = merged
    text = b"".join(part.content for part in parts.values())
    if ours.dash:
        pad = b" " * ours.column
        if not parts or not next(iter(parts.values())).clean or not text.startswith(pad):
            return None  # a conflict marker would come after the dash
        text = text.removeprefix(pad)
    return MergedText(head.encode() + text, all(part.clean for part in parts.values()))


def _in_order(ours: _Block, theirs: _Block) -> list[str]:
    """Return all names: first ``ours`` in order; each new name of ``theirs`` is inserted after its predecessor in ``theirs``."""
    order = list(ours.entries)
    at = 0
    for name in theirs.entries:
        if name in ours.entries:
            at = order.index(name) + 1
        else:
            order.insert(at, name)
            at += 1
    return order


def _merge_entries(
    base: _Entry | None, ours: _Entry | None, theirs: _Entry | None, names: Sides
) -> MergedText:
    """Return one merged entry; its text is empty if it was removed."""
    old, mine, other = (entry.text if entry else "" for entry in (base, ours, theirs))
    text = _one_changed(old, mine, other)
    if text is not None:
        return MergedText(text.encode(), clean=True)
    contents = old.encode(), mine.encode(), other.encode()
    if ours is not None and theirs is not None:
        base_block = base.block() if base else None
        inside = _merge_blocks(base_block, ours.block(), theirs.block(), names)
        if inside is not None:
            return inside
        by_lines = line_merge.merge(*contents) if base else None
        if by_lines is not None:
            return MergedText(by_lines, clean=True)
    return MergedText(line_merge.decided(*contents, (), names), clean=False)


def _one_changed(base: str, ours: str, theirs: str) -> str | None:
    """Return the changed text if only one side changed it or both agree; else None."""
    if ours in {base, theirs}:
        return theirs
    return ours if theirs == base else None
