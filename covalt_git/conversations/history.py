"""Layout of the graph of a chat's history, newest first: a lane for every line of work.

A line stays in its lane from its newest commit to the one that it began at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable


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
