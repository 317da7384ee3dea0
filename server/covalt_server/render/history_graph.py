"""Graph of a chat's history: a row for each commit, a lane for each line of development.

The list next to it has the same information as text.  Each row draws its part of the graph in its own height, and
the lines of adjacent rows connect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.conversations.history import GraphRow

ROW_HEIGHT = 44
"""Minimum height of a row in CSS pixels, the same as in graph.css."""

COLOURS = 8
MOST_WIDE = 6
"""Number of lanes up to which the graph gets wider; more lanes are drawn closer together."""

_DOT_Y = 20
_RADIUS = 4.5
_STEP = 14


def lanes_of(rows: Iterable[GraphRow]) -> int:
    return max((row.width for row in rows), default=1)


def svg(row: GraphRow, lanes: int, *, kind: str = "") -> Markup:
    """Return one row's part of a graph with this number of lanes.

    Put it next to the row, in an element with the classes ``graph`` and ``lanes-N``, where N is ``lanes``
    but at most ``MOST_WIDE``.  ``kind`` is a class of the dot, such as ``hollow``.
    """
    step = min(_STEP, _STEP * MOST_WIDE / lanes)
    columns = [f"{(lane + 0.5) * step:g}" for lane in range(lanes)]
    here = columns[row.lane]
    drawn = [_line(columns[lane], "0", "100%", lane) for lane in row.through]
    for lane in row.above:
        if lane == row.lane:
            drawn.append(_line(here, "0", str(_DOT_Y), lane))
        else:
            drawn.append(_curve(columns[lane], 0, here, _DOT_Y, lane))
    for lane in row.below:
        if lane == row.lane:
            drawn.append(_line(here, str(_DOT_Y), "100%", lane))
        else:
            drawn.append(_curve(here, _DOT_Y, columns[lane], ROW_HEIGHT, lane))
            drawn.append(_line(columns[lane], str(ROW_HEIGHT), "100%", lane))
    classes = f"{_colour(row.lane)} {escape(kind)}".strip()
    drawn.append(f'<circle cx="{here}" cy="{_DOT_Y}" r="{_RADIUS}" class="{classes}"/>')
    width = min(lanes, MOST_WIDE) * _STEP
    return Markup(f'<svg width="{width}" aria-hidden="true">{"".join(drawn)}</svg>')  # noqa: S704 - of numbers, and a class that is escaped


def _line(x: str, top: str, bottom: str, lane: int) -> str:
    return f'<line x1="{x}" y1="{top}" x2="{x}" y2="{bottom}" class="{_colour(lane)}"/>'


def _curve(x: str, top: int, to_x: str, bottom: int, lane: int) -> str:
    middle = (top + bottom) // 2
    way = f"M{x} {top}C{x} {middle} {to_x} {middle} {to_x} {bottom}"
    return f'<path d="{way}" class="{_colour(lane)}"/>'


def _colour(lane: int) -> str:
    return f"lane-{lane % COLOURS}"
