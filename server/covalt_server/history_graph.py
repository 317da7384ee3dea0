"""A chat's history as a picture: a row for every manifest, a lane for every line of work.

The list beside the picture says everything, so that nobody has to see it.  Each row draws its own
part, as high as its text happens to be, and the lines meet where rows touch.  Lanes never move: a
line stays in its lane from the newest manifest of it to the one that it began at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from collections.abc import Iterable

ROW_HEIGHT = 44
"""The least height of a row in CSS pixels; graph.css says the same."""

COLOURS = 8
MOST_WIDE = 6
"""How many lanes a picture grows with; more of them only lie closer together."""

_DOT_Y = 20
_RADIUS = 4.5
_STEP = 14


class Manifest(Protocol):
    """As much of a manifest as a picture needs."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def parents(self) -> tuple[str, ...]:
        """The ids of those it was made from, the state it goes on from first."""


@dataclass(frozen=True, slots=True)
class GraphRow:
    """One manifest in the picture; lanes count from 0 at the left.

    Attributes:
        id: the manifest.
        lane: where its dot is.
        above: the lanes that come down to the dot from the row above.
        through: the lanes that pass by.
        below: the lanes that go on from the dot to the row below.
    """

    id: str
    lane: int
    above: tuple[int, ...]
    through: tuple[int, ...]
    below: tuple[int, ...]

    @property
    def width(self) -> int:
        """How many lanes it needs."""
        return 1 + max((self.lane, *self.above, *self.through, *self.below))


def layout(history: Iterable[Manifest], *, trunk: str | None = None) -> list[GraphRow]:
    """Return the rows of a history, which has no manifest before one that was made from it.

    The first lane is kept for the manifest ``trunk`` and what it came from, such as the active
    branch.  A picture that goes on from page to page is made from the newest row every time.
    """
    waiting: list[str | None] = [trunk]  # by lane, the manifest that its line comes down to
    has_begun = trunk is None  # until then there is nothing to draw in the first lane
    rows = []
    for manifest in history:
        coming = [lane for lane, oid in enumerate(waiting) if oid == manifest.id]
        above = tuple(lane for lane in coming if lane > 0 or has_begun)
        lane = coming[0] if coming else _free_lane(waiting)
        for one in coming:
            waiting[one] = None
        through = tuple(
            one for one, oid in enumerate(waiting) if oid is not None and (one > 0 or has_begun)
        )
        below = _continue(waiting, lane, tuple(dict.fromkeys(manifest.parents)))
        has_begun = has_begun or lane == 0 or 0 in below
        rows.append(GraphRow(manifest.id, lane, above, through, below))
    return rows


def _continue(waiting: list[str | None], lane: int, parents: tuple[str, ...]) -> tuple[int, ...]:
    """Let lines go on to the parents: to the first in the same lane, to others where they may."""
    below = []
    for position, parent in enumerate(parents):
        if position == 0:
            chosen = lane
        elif parent in waiting:
            chosen = waiting.index(parent)
        else:
            chosen = _free_lane(waiting)
        waiting[chosen] = parent
        below.append(chosen)
    return tuple(below)


def _free_lane(waiting: list[str | None]) -> int:
    if None not in waiting:
        waiting.append(None)
    return waiting.index(None)


def lanes_of(rows: Iterable[GraphRow]) -> int:
    """Return how many lanes the rows of a picture need together."""
    return max((row.width for row in rows), default=1)


def svg(row: GraphRow, lanes: int, *, kind: str = "") -> Markup:
    """Return the part of one row in a picture that many lanes wide.

    It belongs beside the row, in an element of the classes ``graph`` and ``lanes-N``, N being
    ``lanes`` but at most ``MOST_WIDE``.  ``kind`` is a class of the dot, such as ``hollow``.
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
    look = f"{_colour(row.lane)} {escape(kind)}".strip()
    drawn.append(f'<circle cx="{here}" cy="{_DOT_Y}" r="{_RADIUS}" class="{look}"/>')
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
