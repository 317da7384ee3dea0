"""The graph of a history: every line leads from a manifest to one of its parents."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.conversations.history import GraphRow, layout
from covalt_server.render.history_graph import lanes_of
from tests.examples import examples


class Line(NamedTuple):
    id: str
    parents: tuple[str, ...]


@st.composite
def histories(draw: st.DrawFn) -> list[Line]:
    """Draw histories in which a manifest has any older parents, of which some are not shown."""
    count = draw(st.integers(1, 14))
    older = st.integers(1, 6)
    return [
        Line(
            str(number),
            tuple(str(number + step) for step in draw(st.lists(older, max_size=3))),
        )
        for number in range(count)
    ]


def follow(rows: Sequence[GraphRow], child: int, parent: str) -> list[int]:
    """Return the lanes in which a line leads from a row to the one of its parent, or off the page."""
    ways = []
    for lane in rows[child].below:
        for row in rows[child + 1 :]:
            if row.id == parent and lane in row.above:
                ways.append(lane)
                break
            if lane not in row.through:
                break
        else:
            ways.append(lane)
    return ways


@settings(max_examples=examples(100))
@given(lines=histories(), data=st.data())
def test_every_parent_is_reached_and_no_two_lines_share_a_lane(
    lines: list[Line], data: st.DataObject
) -> None:
    trunk = data.draw(st.sampled_from([None, *(line.id for line in lines), "elsewhere"]))

    rows = layout(lines, trunk=trunk)

    assert [row.id for row in rows] == [line.id for line in lines]
    for at, line in enumerate(lines):
        row, parents = rows[at], tuple(dict.fromkeys(line.parents))
        assert len(row.below) == len(set(row.below)) == len(parents)
        for lane, parent in zip(row.below, parents, strict=True):
            assert lane in follow(rows, at, parent)
        assert row.lane not in row.through
        assert not set(row.above) & set(row.through)
    for upper, lower in itertools.pairwise(rows):
        assert {*upper.below, *upper.through} == {*lower.above, *lower.through}
    assert {*rows[0].above, *rows[0].through} == set()
    # A page continues the previous one, and lanes are reused.
    length = data.draw(st.integers(0, len(lines)))
    assert layout(lines[:length], trunk=trunk) == rows[:length]
    if trunk is None:
        below = max(len({row.lane, *row.below, *row.through}) for row in rows)
        above = max(len({row.lane, *row.above, *row.through}) for row in rows)
        assert lanes_of(rows) <= max(below, above)


@settings(max_examples=examples(50))
@given(lines=histories(), data=st.data())
def test_the_trunk_stays_in_the_first_lane(lines: list[Line], data: st.DataObject) -> None:
    by_id = {line.id: line for line in lines}
    trunk: str | None = data.draw(st.sampled_from(sorted(by_id)))

    rows = {row.id: row for row in layout(lines, trunk=trunk)}

    while trunk in rows:
        assert rows[trunk].lane == 0
        trunk = next(iter(by_id[trunk].parents), None)
