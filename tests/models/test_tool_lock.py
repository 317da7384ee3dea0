"""Entries of locks: they hold whole definitions, digest every field, and give each tool a name of its own."""

import copy
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.models.sources.tool_lock import BadDefinitionError, LockedTool, locked_tool
from covalt_git.names import is_tool_name, local_names
from tests.tables import tables

DEFINITION: dict[str, Any] = {
    "name": "search.web",
    "title": "Search",
    "description": "Search the web.",
    "inputSchema": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]},
    "outputSchema": {"type": "object"},
    "annotations": {"title": "Web", "readOnlyHint": True, "openWorldHint": True},
    "icons": [{"src": "https://example.com/a.png", "mimeType": "image/png"}],
    "execution": {"taskSupport": "forbidden"},
    "_meta": {"ui": {"resourceUri": "ui://search/a.html"}},
}


MUTATIONS: dict[str, tuple[list[str | int], Any]] = {
    name: (place, value) for name, place, value in tables(__file__)["changes"]
}
"""Each field of a definition once: its place and another value."""


def mutated(place: Sequence[str | int], value: Any) -> dict[str, Any]:
    definition = copy.deepcopy(DEFINITION)
    at: Any = definition
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    return definition


def test_entry_holds_the_whole_definition_and_comes_back() -> None:
    tool = locked_tool(DEFINITION)

    assert tool.definition == DEFINITION
    assert tool.digest_matches
    assert (tool.upstream, tool.title, tool.annotations.read_only) == ("search.web", "Search", True)
    written = tool.model_dump(mode="json", exclude_defaults=True)
    assert LockedTool.model_validate(written) == tool


@pytest.mark.parametrize("name", MUTATIONS)
def test_change_of_any_field_changes_the_digest(name: str) -> None:
    assert locked_tool(mutated(*MUTATIONS[name])).digest != locked_tool(DEFINITION).digest


def test_order_of_keys_and_empty_fields_do_not_change_the_digest() -> None:
    again = dict(reversed(DEFINITION.items()))
    empty: dict[str, Any] = {
        "name": "a",
        "inputSchema": {},
        "description": "",
        "annotations": {},
        "icons": None,
    }

    assert locked_tool(again).digest == locked_tool(DEFINITION).digest
    assert locked_tool(empty).digest == locked_tool({"name": "a", "inputSchema": {}}).digest


@pytest.mark.parametrize("key", ["description", "inputSchema", "name"])
def test_known_keys_cannot_be_hidden_among_unknown_ones(key: str) -> None:
    tool = locked_tool(DEFINITION)
    hidden = tool.model_copy(update={"description": "", "more": tool.more | {key: DEFINITION[key]}})

    assert not hidden.digest_matches


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (2**63 - 1, 2.0**63),
        (-(2**63), -(2.0**63)),
        (2**53, 2.0**53),
        (-(2**53), -(2.0**53)),
        (2**53 - 1, 2**53 - 1),
    ],
)
def test_integers_beyond_2_53_are_doubles(value: int, kept: float) -> None:
    schema = {"type": "integer", "maximum": value}
    tool = locked_tool({"name": "a", "inputSchema": schema})

    assert tool.input_schema == {"type": "integer", "maximum": kept}
    assert type(tool.input_schema["maximum"]) is type(kept)
    assert tool.digest_matches


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        ({"name": "a"}, "the tool 'a' is invalid: input_schema: field required"),
        ({"inputSchema": {}}, "upstream"),
        ({"name": "a", "inputSchema": []}, "input_schema"),
        ({"name": "a", "inputSchema": {}, "annotations": "safe"}, "annotations .* not an object"),
        ({"name": "a", "inputSchema": {"x": float("nan")}}, "nan is not a JSON number"),
        ({"name": "a", "inputSchema": {"x": "\ud800"}}, "an unpaired surrogate"),
    ],
)
def test_invalid_definition_is_refused(definition: dict[str, Any], message: str) -> None:
    with pytest.raises(BadDefinitionError, match=message):
        locked_tool(definition)


@given(
    st.lists(st.text(max_size=90) | st.sampled_from(["a", "A", "a b", "a_b", "a..b"]), unique=True)
)
def test_local_names_are_valid_unique_and_independent_of_other_tools(names: list[str]) -> None:
    found = local_names(names)

    assert set(found) == set(names)
    assert all(map(is_tool_name, found.values()))
    assert len(set(found.values())) == len(names)
    assert all(found[name] == name for name in names if is_tool_name(name))
    assert found == {name: local_names([name])[name] for name in names}
