"""Text graph of a chat's history: a dot for each commit, a line for each parent."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from covalt_git.conversations.history import GraphRow

_PLAIN = str.maketrans("│─├┤┼┬┴╭╮╰╯", "|-+++++++++")


def graph_rows(row: GraphRow) -> tuple[list[str], str]:
    """Return the graph's prefixes of a commit's lines: a list that ends with the title's line, and the prefix of details.

    The title's prefix has the dot; prefixes before it show other lanes that join the commit.
    """
    onward = set(row.through) | set(row.below)
    lines = [_dots(row), _crossing(row, row.below, "╭╮┬", onward)]
    if set(row.above) - {row.lane}:
        lines.insert(0, _crossing(row, row.above, "╰╯┴", set(row.through) | set(row.above)))
    *first, last = (_encodable(line) for line in lines)
    return first, last


def _dots(row: GraphRow) -> str:
    passing = set(row.through)
    marks = ("*" if lane == row.lane else "│" if lane in passing else " " for lane in _lanes(row))
    return " ".join(marks).rstrip()


def _crossing(row: GraphRow, turning: tuple[int, ...], corners: str, upright: set[int]) -> str:
    """Return a line in which the ``turning`` lanes join the commit's own lane, or leave it.

    ``corners`` are the characters at the left end, at the right end, and between; a lane that also
    continues (``upright``) is a fork.
    """
    others = set(turning) - {row.lane}
    left, right = min({row.lane, *others}), max({row.lane, *others})
    text = ""
    for lane in _lanes(row):
        if lane in others and lane in row.through:
            mark = "├" if lane == left else "┤" if lane == right else "┼"
        elif lane in others:
            mark = corners[0 if lane == left else 1 if lane == right else 2]
        elif lane == row.lane and others:
            mark = "┼" if left < lane < right else "├" if lane == left else "┤"
        elif lane in upright:
            mark = "│"
        else:
            mark = "─" if left < lane < right else " "
        text += mark + ("─" if left <= lane < right else " ")
    return text.rstrip()


def _lanes(row: GraphRow) -> range:
    return range(row.width)


def _encodable(line: str) -> str:
    """Return a line in the encoding of this terminal."""
    try:
        line.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return line.translate(_PLAIN)
    return line
