"""What hosts call the tools."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.gateway.tool_names import STYLES, Style, names, path_of
from covalt_git.names import ToolId

NAMESPACES = st.from_regex(r"[a-c](?:[-_][a-c]){0,2}", fullmatch=True)
TOOL_NAMES = st.from_regex(r"[a-c](?:[-_.][a-c]){0,2}", fullmatch=True)
IDS = st.sets(st.builds(ToolId, NAMESPACES, TOOL_NAMES).map(str), max_size=30)


def test_a_path_is_the_id_with_a_dot() -> None:
    assert names(["app-builder:write_file"], "dots") == {
        "app-builder.write_file": "app-builder:write_file"
    }


def test_two_paths_that_would_be_one_name_are_told_apart() -> None:
    found = names(["a:b_c", "a_b:c"], "underscore")

    assert list(found.values()) == ["a:b_c", "a_b:c"]
    assert all(re.fullmatch(r"a_b_c_[0-9a-f]{12}", name) for name in found)


def test_a_name_that_is_taken_is_no_tools() -> None:
    assert "call_tool" not in names(["call:tool"], "underscore", taken={"call_tool"})


@pytest.mark.parametrize("style", STYLES)
@given(IDS)
def test_no_two_tools_have_one_name(style: Style, ids: set[str]) -> None:
    found = names(sorted(ids), style)

    assert sorted(found.values()) == sorted(ids)


@given(IDS, st.text("ab", min_size=1, max_size=60))
def test_names_without_dots_are_ones_that_every_host_takes(ids: set[str], long: str) -> None:
    found = names(sorted({*ids, f"{'a' * 40}:{long}"}), "underscore")

    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in found)


@given(IDS)
def test_a_path_names_the_tool_whose_path_it_is(ids: set[str]) -> None:
    assert {path: path_of(path) for path in names(ids, "dots")} == names(ids, "dots")


@pytest.mark.parametrize("text", ["", "a", "a:b", "A.b", "a..b", "a.b\n"])
def test_nothing_else_names_a_tool(text: str) -> None:
    assert path_of(text) is None
