"""The difference between two definitions of a tool as lines, in full: what is accepted has to be read.

Hidden characters are escaped, so that a description holds nothing else than its lines.
"""

from __future__ import annotations

from itertools import starmap
from typing import TYPE_CHECKING, NamedTuple

from covalt_git import yaml_text
from covalt_git.text import display
from covalt_git.text.line_diff import marked_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_AROUND = 2
"""Lines that are shown before and after one that differs."""


class DefinitionLine(NamedTuple):
    """A line, and its mark: ``+``, ``-``, a space for one that stays, ``@`` for the name of a part."""

    mark: str
    text: str


def definition_lines(parts: Mapping[str, tuple[object, object]]) -> Iterator[DefinitionLine]:
    """Yield the lines of all parts of a definition that differ, each part after its name.

    ``parts`` are what each was and is, by their names.
    """
    for name, (old, new) in parts.items():
        yield DefinitionLine("@", name)
        yield from starmap(DefinitionLine, marked_lines(_lines(old), _lines(new), _AROUND))


def _lines(value: object) -> list[str]:
    if value is None:
        return []
    text = value if isinstance(value, str) else yaml_text.dump(value)
    return [display.in_line(line) for line in text.removesuffix("\n").split("\n")]
