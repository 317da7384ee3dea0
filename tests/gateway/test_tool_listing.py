"""Pages of what is listed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import MCPError

from covalt_git.gateway.tool_listing import page

KEYS = st.sets(st.text(max_size=5), max_size=30).map(sorted)


@given(KEYS, st.integers(1, 7))
def test_the_pages_together_are_the_whole(keys: list[str], size: int) -> None:
    told, cursor = [], None
    while True:
        where, cursor = page(keys, cursor, size)
        assert len(keys[where]) <= size
        told += keys[where]
        if cursor is None:
            break

    assert told == keys


def test_what_goes_meanwhile_moves_nothing_else() -> None:
    _, cursor = page(["a", "b", "c", "d"], None, 2)

    where, _ = page(["a", "c", "d"], cursor, 2)

    assert ["a", "c", "d"][where] == ["c", "d"]


@pytest.mark.parametrize("cursor", ["?", "ä", "YQ", "//79"])
def test_a_cursor_that_is_none_is_refused(cursor: str) -> None:
    with pytest.raises(MCPError, match="cursor"):
        page(["a"], cursor)
