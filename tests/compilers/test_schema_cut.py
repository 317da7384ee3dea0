"""The listed schema of a tool is small, and allows whatever the whole schema allows."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.compilers.schema_cut import MAX_INPUT, cut_schema
from covalt_git.json_values import json_schema
from tests.examples import examples

NAMES = st.sampled_from(["a", "b", "c"])
LEAVES: st.SearchStrategy[Any] = st.sampled_from(
    [
        *({"type": kind} for kind in ("string", "integer", "object", "array", "null")),
        *({"enum": ["x", 1]}, {"const": 1}, {"minLength": 2}, {"required": ["a"]}, {"maxItems": 1}),
        *(
            {"$ref": "#/$defs/A"},
            {"$ref": "#/$defs/B"},
            {},
            True,
            False,
            {"description": "d" * 300},
        ),
    ]
)


def composed(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    some = st.lists(inner, min_size=1, max_size=2)
    named = st.dictionaries(NAMES, inner, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "properties": named,
            "additionalProperties": inner,
            "items": inner,
            "prefixItems": some,
            "contains": inner,
            "maxContains": st.just(1),
            "not": inner,
            "oneOf": some,
            "anyOf": some,
            "allOf": some,
            "if": inner,
            "then": inner,
            "unevaluatedProperties": st.just(False),
            "dependentSchemas": named,
            "description": st.just("e" * 200),
        },
    )


SCHEMAS = st.recursive(LEAVES, composed, max_leaves=8)
VALUES = st.recursive(
    st.sampled_from(["x", "xyz", 1, 2, None]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=examples(500), deadline=None)
@given(st.fixed_dictionaries({"A": SCHEMAS, "B": SCHEMAS}), SCHEMAS, st.integers(20, 700), VALUES)
def test_a_cut_schema_allows_each_allowed_value(
    definitions: dict[str, Any], schema: Any, limit: int, value: Any
) -> None:
    definitions = {
        name: part if isinstance(part, dict) else ({} if part else {"not": {}})
        for name, part in definitions.items()
    }
    whole = {"properties": {"v": schema}, "type": "object"}
    cut = cut_schema(whole, definitions, limit)

    assert len(json.dumps(cut)) <= limit
    if not json_schema.value_problems(whole | {"$defs": definitions}, {"v": value}):
        assert json_schema.value_problems(cut, {"v": value}) == []


def test_a_small_schema_is_whole_with_the_definitions_that_it_reaches() -> None:
    tree = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Tree"}}}
    schema = {"type": "object", "properties": {"tree": {"$ref": "#/$defs/Tree"}}}

    cut = cut_schema(schema, {"Tree": tree, "Other": {}}, MAX_INPUT)

    assert cut == schema | {"$defs": {"Tree": tree}}


@pytest.mark.parametrize("texts", [10, 100, 5000])
def test_the_names_of_arguments_stay_as_long_as_they_fit(texts: int) -> None:
    deep: dict[str, Any] = {"type": "string", "description": "x" * texts}
    for level in range(20):
        deep = {"type": "object", "properties": {f"k{level}{n}": deep for n in range(2)}}
        if len(json.dumps(deep)) > 200_000:
            break
    schema = {
        "type": "object",
        "properties": {f"argument{n}": deep for n in range(20)},
        "required": ["argument1"],
    }

    cut = cut_schema(schema, {}, MAX_INPUT)

    assert list(cut["properties"]) == list(schema["properties"])
    assert cut["required"] == ["argument1"]
    assert MAX_INPUT / 20 < len(json.dumps(cut)) <= MAX_INPUT


def test_a_value_of_an_alternative_is_allowed_where_the_cut_alternatives_overlap() -> None:
    kinds = [
        {
            "type": "object",
            "required": ["kind"],
            "properties": {"kind": {"const": {"name": name * 200}}},
        }
        for name in "abc"
    ]
    whole = {"type": "object", "properties": {"item": {"oneOf": kinds}}}
    value = {"item": {"kind": {"name": "a" * 200}}}

    cut = cut_schema(whole, {}, 500)

    assert not json_schema.value_problems(whole, value)
    assert not json_schema.value_problems(cut, value)
    assert json_schema.value_problems(cut | {"properties": {"item": {"type": "string"}}}, value)
