"""Complete line diff of two definitions of a tool, for the review before they are accepted.

Invisible characters are escaped, so that a description cannot hide text.
"""

from __future__ import annotations

from itertools import starmap
from typing import TYPE_CHECKING, NamedTuple

from covalt_git import yaml_text
from covalt_git.text import display
from covalt_git.text.line_diff import marked_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_CONTEXT = 2
"""Number of unchanged lines before and after a changed one."""


class DefinitionLine(NamedTuple):
    """A line and its mark: ``+``, ``-``, a space if unchanged, ``@`` for the name of a part."""

    mark: str
    text: str


def definition_lines(parts: Mapping[str, tuple[object, object]]) -> Iterator[DefinitionLine]:
    """Yield the lines of the changed parts of a definition, each part after its name.

    ``parts`` maps names to old and new values.
    """
    for name, (old, new) in parts.items():
        yield DefinitionLine("@", name)
        yield from starmap(DefinitionLine, marked_lines(_lines(old), _lines(new), _CONTEXT))


def _lines(value: object) -> list[str]:
    if value is None:
        return []
    text = value if isinstance(value, str) else yaml_text.dump(value)
    return [display.in_line(line) for line in text.removesuffix("\n").split("\n")]
