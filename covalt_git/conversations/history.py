"""Layout of the graph of a chat's history, newest first, in lanes.

A lane is a column of the graph.  A line of commits stays in one lane from its newest to its oldest commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable


class GraphRow(NamedTuple):
    """One commit in the graph; lanes count from 0 at the left.

    Attributes:
        id: the commit.
        lane: the lane of its dot.
        above: the lanes that lead to the dot from the row above.
        through: the lanes that lead past the dot.
        below: the lanes that lead from the dot to the row below.
    """

    id: str
    lane: int
    above: tuple[int, ...]
    through: tuple[int, ...]
    below: tuple[int, ...]

    @property
    def width(self) -> int:
        """The number of lanes that the row needs."""
        return 1 + max((self.lane, *self.above, *self.through, *self.below))


def layout(
    history: Iterable[tuple[str, tuple[str, ...]]], *, trunk: str | None = None
) -> list[GraphRow]:
    """Return the rows of a history: the id of each commit and those of its parents, which come after it.

    The first lane is for the commit ``trunk``, such as the head of the active branch, and its first parents.
    Each page of a long history is laid out from the newest commit on.
    """
    waiting: list[str | None] = [trunk]  # for each lane, its next commit
    has_begun = trunk is None  # the first lane is empty until the trunk begins
    rows = []
    for commit, parents in history:
        coming = [lane for lane, oid in enumerate(waiting) if oid == commit]
        above = tuple(lane for lane in coming if lane > 0 or has_begun)
        lane = _lane_of(commit, waiting)
        for ended in coming:
            waiting[ended] = None
        through = tuple(
            passed
            for passed, oid in enumerate(waiting)
            if oid is not None and (passed > 0 or has_begun)
        )
        below: list[int] = []
        for parent in dict.fromkeys(parents):  # the first in the same lane, others in any lane
            chosen = _lane_of(parent, waiting) if below else lane
            waiting[chosen] = parent
            below.append(chosen)
        has_begun = has_begun or lane == 0 or 0 in below
        rows.append(GraphRow(commit, lane, above, through, tuple(below)))
    return rows


def _lane_of(commit: str, waiting: list[str | None]) -> int:
    """Return the first lane that leads to a commit, else a free one."""
    content = commit if commit in waiting else None
    if content not in waiting:
        waiting.append(None)
    return waiting.index(content)
