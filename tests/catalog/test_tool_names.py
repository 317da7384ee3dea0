"""Names by which hosts call tools."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.catalog.tool_names import RESERVED, STYLES, names, path_of
from covalt_git.gateway import meta_tools
from covalt_git.names import ToolId
from tests.examples import examples

NAMESPACES = st.sampled_from(["a", "b", "a-b", "a_b", "a" * 40])
NAMES = st.sampled_from(["a", "b", "a-b", "a_b", "a.b", "b_a", "b" * 60])
IDS = st.sets(st.builds(ToolId, NAMESPACES, NAMES).map(str))


@settings(max_examples=examples(50))
@given(IDS)
def test_every_tool_has_one_name_that_hosts_accept(ids: set[str]) -> None:
    for style in STYLES:
        found = names(sorted(ids), style)
        assert sorted(found.values()) == sorted(ids)
        if style == "dots":
            assert {path: path_of(path) for path in found} == found
        else:
            assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in found)


def test_no_tool_gets_the_name_of_a_meta_tool() -> None:
    assert "call_tool" not in names(["call:tool"], "underscore", reserved={"call_tool"})
    assert meta_tools.NAMES == RESERVED


def test_the_tool_that_had_a_name_first_keeps_it() -> None:
    ids = ["a:get.user", "a:get_user", "a:other"]

    found = names(ids, "underscore", first=lambda tool_id: tool_id == "a:get_user")

    assert found["a_get_user"] == "a:get_user"
    assert found["a_other"] == "a:other"
    assert len(found) == 3
    assert "a_get_user" not in names(ids, "underscore")
    assert "a_get_user" not in names(ids, "underscore", first=lambda _: True)


@pytest.mark.parametrize("text", ["", "a", "a:b", "A.b", "a..b", "a.b\n"])
def test_what_is_no_path_names_no_tool(text: str) -> None:
    assert path_of(text) is None
