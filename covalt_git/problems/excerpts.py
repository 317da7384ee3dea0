"""Excerpt of a file for a problem: its line, with the position of the carets.

Widths are in terminal cells (Unicode Standard Annex 11).  Tab stops are four cells apart, and hidden
characters are escaped.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from covalt_git.text import display

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_MAX_BYTES: Final = 4 << 20
_TAB: Final = 4
_LINE_END = re.compile(r"\r\n?|\n")
_WORD = re.compile(r"""\"[^"]*\"|'[^']*'|[^\s,:\[\]{}"'<>()=]+|.""")


class FilePlace(Protocol):
    """A place in a file of the project, such as that of a problem; ``line`` is 0 for the whole file."""

    @property
    def path(self) -> str:
        """The path from the project's folder."""

    @property
    def line(self) -> int:
        """The line, from 1."""

    @property
    def col(self) -> int:
        """The character, from 1."""


class Excerpt(NamedTuple):
    """A line for a terminal.

    ``start`` is the cell of the first caret (from 0), ``width`` the number of carets.
    """

    line: int
    text: str
    start: int
    width: int


class Sources:
    """The lines of a project's files; each file is read once.

    ``mask`` masks secrets in the text of a file, without changing the positions of other characters.
    """

    def __init__(self, root: Path, mask: Callable[[str], str] = str) -> None:
        self._root = root
        self._mask = mask
        self._lines: dict[str, list[str]] = {}

    def excerpt(self, place: FilePlace, room: int) -> Excerpt | None:
        """Return the excerpt of a place in at most ``room`` cells, or None if it has no line."""
        if not place.line:
            return None
        lines = self._read(place.path)
        # The file can have changed since it was checked.
        if place.line > len(lines):
            return None
        return excerpt(place.line, lines[place.line - 1], place.col, room)

    def _read(self, path: str) -> list[str]:
        if path not in self._lines:
            file = self._root / path
            try:
                if not file.is_file():  # opening a pipe would block
                    return []
                with file.open("rb") as stream:
                    text = stream.read(_MAX_BYTES).decode("utf-8-sig", "replace")
            except OSError:
                return []
            # Masked before it is split, because a secret can have several lines.
            self._lines[path] = _LINE_END.split(self._mask(text))
        return self._lines[path]


def excerpt(number: int, line: str, col: int, room: int) -> Excerpt:
    """Return the excerpt of a line, with carets for the word at ``col`` (a character, from 1)."""
    start = min(col - 1, len(line))
    word = _WORD.match(line, start)
    end = word.end() if word else start
    cells: list[str] = []
    edges = [0]
    for character in line:
        cells.append(_cell_text(character, edges[-1]))
        edges.append(edges[-1] + width(cells[-1]))
    first, after = 0, len(line)
    if edges[-1] > room:
        # Truncate the text before the word first, so that the carets are always visible.
        while first < start and edges[min(end + _TAB, len(line))] - edges[first] + 1 > room:
            first += 1
        while after > start and edges[after] - edges[first] + 2 > room:
            after -= 1
    cut_before, cut_after = "…" * (first > 0), "…" * (after < len(line))
    text = cut_before + "".join(cells[first:after]) + cut_after
    at = edges[start] - edges[first] + len(cut_before)
    pointed = edges[min(end, after)] - edges[start]
    return Excerpt(number, text, at, max(pointed, 1))


def width(text: str) -> int:
    """Return the number of terminal cells of a text without control characters."""
    return sum(_cells(character) for character in text)


def _cells(character: str) -> int:
    if character.isascii():
        return 1
    if unicodedata.category(character) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _cell_text(character: str, at: int) -> str:
    """Return the displayed text of a character at a cell."""
    if character == "\t":
        return " " * (_TAB - at % _TAB)
    return display.in_line(character)
