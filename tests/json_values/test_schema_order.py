"""Order of the keys of a value by the properties of its schema."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.json_values.schema_order import in_order
from tests.examples import examples

ROW: dict[str, Any] = {
    "properties": {"name": {}, "at": {"properties": {"y": {}, "x": {}}}, "amount": {}}
}

VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=8,
)
SCHEMAS = st.recursive(
    st.sampled_from([True, {"$ref": "#"}, {"$ref": "#/none"}, {"properties": 1}, {"anyOf": {}}]),
    lambda inner: (
        st.fixed_dictionaries({"properties": st.dictionaries(st.sampled_from("cba"), inner)})
        | st.fixed_dictionaries({"items": inner, "additionalProperties": inner})
        | st.fixed_dictionaries({"oneOf": st.lists(inner, max_size=2)})
    ),
    max_leaves=6,
)


def keys(value: Any, schema: Any) -> str:
    return json.dumps(in_order(value, schema), separators=(",", ":"))


def test_keys_have_the_order_of_the_properties_and_others_follow() -> None:
    value = {"amount": 1, "at": {"x": 1, "y": 2, "z": 3}, "extra": 4, "name": "a"}

    assert keys(value, ROW) == '{"name":"a","at":{"y":2,"x":1,"z":3},"amount":1,"extra":4}'


def test_items_references_and_unions_are_followed() -> None:
    value = [{"b": 1, "c": {"amount": 1, "name": ""}}, None]
    union = {"anyOf": [{"$ref": "#/$defs/row"}, {"type": "null"}]}
    schema = {
        "items": {"allOf": [{"properties": {"c": union}}, {"properties": {"b": {}, "c": {}}}]},
        "$defs": {"row": ROW},
    }

    assert keys(value, schema) == '[{"c":{"name":"","amount":1},"b":1},null]'


def test_a_schema_that_refers_to_itself_ends() -> None:
    value: Any = {"a": 1, "z": 2}
    for _ in range(200):
        value = {"a": 1, "z": value}
    schema = {
        "$ref": "#/$defs/x",
        "$defs": {"x": {"$ref": "#", "properties": {"z": {"$ref": "#"}}}},
    }

    assert keys(value, schema).startswith('{"z":{"z":')


@settings(max_examples=examples(50))
@given(value=VALUES, schema=SCHEMAS)
def test_the_value_stays_equal(value: Any, schema: Any) -> None:
    assert in_order(value, schema) == value
