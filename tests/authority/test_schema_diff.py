"""A schema without a wider difference accepts no value that the old one refused."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from covalt_git.authority.schema_diff import judge_schemas
from covalt_git.json_values.json_schema import schema_problems, value_problems
from tests.examples import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VALUES: list[Any] = [
    None, True, 0, 1, 2, 5, 2.5, -1, "", "a", "ab", "abcd", [], [1], ["a"], [1, 1], [1, 2, 3], [[1]], {},
    {"a": 1}, {"a": "x"}, {"b": "a"}, {"a": 1, "b": "ab"}, {"a": [1]}, {"c": None}, {"a": {"a": 1}},
    {"a": "abcd", "b": 5}, {"a": 5, "b": 5, "c": 5}, {"ab": "a"}, ["abcd", 5], ["a", "abcd"],
]  # fmt: skip

small = st.integers(0, 3)
plain: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["string", "integer", "number", "null", "boolean", ["string", "null"]]),
        "enum": st.lists(st.sampled_from(["a", "ab", 1, 2, None]), min_size=1, max_size=3, unique=True),
        "const": st.sampled_from(["a", 1, True]),
        "minimum": small,
        "maximum": small,
        "exclusiveMaximum": small,
        "multipleOf": st.integers(1, 3),
        "minLength": small,
        "maxLength": small,
        "pattern": st.sampled_from(["^a", "b$"]),
        "description": st.sampled_from(["words", "others"]),
    },
)  # fmt: skip
references = st.sampled_from(
    [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b", "maxLength": 2}, {"$ref": "#"}, {"$ref": "#b"}]
)


def grown(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    named = st.dictionaries(st.sampled_from(["a", "b", "ab"]), inner, max_size=2)
    listed = st.lists(inner, min_size=1, max_size=2)
    arrays = st.fixed_dictionaries({}, optional={
        "items": inner | st.booleans(), "prefixItems": listed, "contains": inner,
        "minContains": small, "minItems": small, "maxItems": small, "uniqueItems": st.booleans(),
        "unevaluatedItems": inner | st.booleans(),
    })  # fmt: skip
    objects = st.fixed_dictionaries({}, optional={
        "properties": named, "additionalProperties": inner | st.booleans(), "propertyNames": inner,
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), inner, max_size=2),
        "required": st.lists(st.sampled_from("ab"), max_size=2, unique=True),
        "maxProperties": small, "dependentSchemas": named, "unevaluatedProperties": inner | st.booleans(),
    })  # fmt: skip
    unions = st.fixed_dictionaries({}, optional={
        "anyOf": listed, "allOf": listed, "oneOf": listed, "not": inner, "if": inner, "then": inner,
        "else": inner,
    })  # fmt: skip
    return arrays | objects | unions | objects


schemas = st.builds(
    lambda schema, one, other: {**schema, "$defs": {"a": one, "b": {**other, "$anchor": "b"}}},
    st.recursive(plain | references, grown, max_leaves=5),
    plain | references,
    plain,
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each place of a value: what it is in, and its key or index."""
    for key, inner in list(value.items()) if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(inner, dict | list):
            yield from places(inner)


CHANGES: list[Callable[[Any], Any]] = [
    lambda value: value + 1 if type(value) is int else value,
    lambda value: value - 1 if type(value) is int and value else value,
    lambda value: value[1:] if isinstance(value, list) and len(value) > 1 else value,
    lambda value: [*value, "b"] if isinstance(value, list) and "a" in value else value,
    lambda value: {**value, "maxLength": 1} if isinstance(value, dict) else value,
    lambda value: {**value, "maxProperties": 1} if isinstance(value, dict) else value,
    lambda value: {**value, "additionalProperties": False} if isinstance(value, dict) else value,
    lambda value: {**value, "items": {"type": "string"}} if isinstance(value, dict) else value,
    lambda value: {**value, "a": {"type": "string"}} if isinstance(value, dict) else value,
    lambda value: dict(list(value.items())[1:]) if isinstance(value, dict) else value,
    lambda value: not value if isinstance(value, bool) else value,
]


@st.composite
def edited(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a schema, and the same with a few small changes: those are told as narrower most often."""
    old = draw(schemas)
    new = deepcopy(old)
    for _ in range(draw(st.integers(1, 3))):
        inside, key = draw(st.sampled_from(list(places(new))))
        inside[key] = draw(st.sampled_from(CHANGES))(inside[key])
    return old, new


def accepts(schema: dict[str, Any], value: Any) -> bool:
    return value_problems(schema, value) == []


def check_that_growth_is_told(old: dict[str, Any], new: dict[str, Any]) -> None:
    assume(not schema_problems(old) and not schema_problems(new))
    if all(one.verdict != "widening" for one in judge_schemas(old, new)):
        assert [one for one in VALUES if accepts(new, one) and not accepts(old, one)] == []


@settings(max_examples=examples(400), deadline=None)
@given(edited())
@example(({"not": {"maxLength": 3}}, {"not": {"maxLength": 1}}))
@example(
    (
        {"oneOf": [{"maxLength": 1}, {"maxLength": 3}]},
        {"oneOf": [{"maxLength": 0}, {"maxLength": 3}]},
    )
)
@example(({"if": {"maxLength": 3}, "then": False}, {"if": {"maxLength": 1}, "then": False}))
@example(
    (
        {"allOf": [{}], "unevaluatedProperties": False},
        {"allOf": [{"additionalProperties": {"maxLength": 9}}], "unevaluatedProperties": False},
    )
)
@example(
    ({"contains": {"maximum": 3}, "maxContains": 1}, {"contains": {"maximum": 1}, "maxContains": 1})
)
@example(({"properties": {"a": {"enum": [1]}}}, {"properties": {}}))
@example(
    (
        {
            "properties": {"a": {"enum": [1]}},
            "patternProperties": {"a": {}},
            "additionalProperties": False,
        },
        {"patternProperties": {"a": {}}, "additionalProperties": False},
    )
)
@example(({"prefixItems": [{}, False]}, {"prefixItems": [{}]}))
@example(({"minimum": 3}, {"minimum": 1}))
@example(
    (
        {"$defs": {"s": {"$anchor": "s", "maxLength": 1}}, "$ref": "#s"},
        {"$defs": {"s": {"$anchor": "s", "maxLength": 9}}, "$ref": "#s"},
    )
)
@example(
    (
        {"$defs": {"s": {"$dynamicAnchor": "s", "maxLength": 1}}, "$dynamicRef": "#s"},
        {"$defs": {"s": {"$dynamicAnchor": "s", "maxLength": 9}}, "$dynamicRef": "#s"},
    )
)
@example(
    (
        {
            "$ref": "#/$defs/a",
            "$defs": {
                "a": {"$id": "x:a", "$ref": "#/$defs/b", "$defs": {"b": {"maxLength": 1}}},
                "b": {},
            },
        },
        {
            "$ref": "#/$defs/a",
            "$defs": {
                "a": {"$id": "x:a", "$ref": "#/$defs/b", "$defs": {"b": {"maxLength": 9}}},
                "b": {},
            },
        },
    )
)
@example(
    (
        {
            "properties": {"a": {"$ref": "#/$defs/s"}, "b": {"not": {"$ref": "#/$defs/s"}}},
            "$defs": {"s": {"maxLength": 3}},
        },
        {
            "properties": {"a": {"$ref": "#/$defs/s"}, "b": {"not": {"$ref": "#/$defs/s"}}},
            "$defs": {"s": {"maxLength": 1}},
        },
    )
)
def test_what_is_told_as_narrower_accepts_nothing_more(
    pair: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    check_that_growth_is_told(*pair)


@settings(max_examples=examples(200), deadline=None)
@given(schemas, schemas)
def test_two_schemas_without_growth_accept_nothing_more(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    check_that_growth_is_told(old, new)


@settings(max_examples=examples(100), deadline=None)
@given(schemas)
def test_a_schema_does_not_differ_from_itself_in_another_order(schema: dict[str, Any]) -> None:
    assert judge_schemas(schema, dict(reversed(schema.items()))) == []


NODE = {
    "type": "object",
    "properties": {"next": {"$ref": "#/$defs/node"}},
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        pytest.param({"enum": ["a", "b"]}, {"enum": ["a"]}, {"narrowing"}, id="value-removed"),
        pytest.param({"enum": ["a"]}, {"enum": ["b", "a"]}, {"widening"}, id="value-added"),
        pytest.param({"enum": [1]}, {"enum": [True]}, {"widening", "narrowing"}, id="true-is-not-1"),
        pytest.param({"enum": ["a", "b"]}, {"enum": ["b", "a"]}, set(), id="values-in-another-order"),
        pytest.param({"required": ["a"]}, {"required": ["a", "b"]}, {"narrowing"}, id="key-required"),
        pytest.param({"required": ["a"]}, {}, {"widening"}, id="key-not-required"),
        pytest.param({"type": "number"}, {"type": "integer"}, {"narrowing"}, id="only-integers"),
        pytest.param({"minLength": 1, "title": "A"}, {"minLength": 2, "title": "B"}, {"narrowing"}, id="bound"),
        pytest.param({"items": {"maxLength": 2}, "x": 1}, {"items": {"maxLength": 1}, "x": 1}, {"narrowing"}, id="items"),
        pytest.param({"enum": ["a", "b"], "maxLength": 1}, {"enum": ["a"], "maxLength": 2}, {"widening", "narrowing"}, id="beside-another-change"),
        pytest.param({"properties": {"title": {"type": "string"}}}, {"properties": {}}, {"widening"}, id="property-named-as-a-note"),
        pytest.param({"title": "A", "default": 1, "examples": [1], "deprecated": True, "$comment": "x"}, {"description": "B"}, set(), id="notes"),
        pytest.param({"items": {"not": {"title": "A"}}}, {"items": {"not": {"title": "B"}}}, set(), id="notes-within-not"),
        pytest.param({"type": "string"}, {"anyOf": [{"type": "string"}, {"type": "null"}]}, {"widening"}, id="optional"),
        pytest.param({"anyOf": [{"additionalProperties": True}, {}]}, {"anyOf": [{"additionalProperties": False}, {}]}, {"narrowing"}, id="one-branch"),
        pytest.param({"$defs": {"s": {"maxLength": 1}}, "$ref": "#/$defs/s"}, {"maxLength": 1}, set(), id="inlined"),
        pytest.param({"$defs": {"s": {"maxLength": 1}}, "items": {"$ref": "#/$defs/s"}}, {"$defs": {"s": {"maxLength": 9}}, "items": {"$ref": "#/$defs/s"}}, {"widening"}, id="a-definition"),
        pytest.param({"$defs": {"node": NODE}, "$ref": "#/$defs/node"}, {"$defs": {"node": NODE | {"additionalProperties": True}}, "$ref": "#/$defs/node"}, {"widening"}, id="recursive"),
        pytest.param({"$defs": {"node": NODE}, "$ref": "#/$defs/node"}, {"$defs": {"node": NODE | {"maxProperties": 1}}, "$ref": "#/$defs/node"}, {"narrowing"}, id="recursive-and-tighter"),
        pytest.param({"$ref": "x.json", "maximum": 2}, {"$ref": "x.json", "maximum": 1}, {"widening", "narrowing"}, id="outside"),
        pytest.param({"const": 1}, {"enum": [1, 2]}, {"widening", "narrowing"}, id="const"),
        pytest.param({"contains": {"const": 1}, "minContains": 2}, {"contains": {"const": 1}}, {"widening"}, id="contains"),
        pytest.param({"items": {}}, {}, set(), id="items-of-any-kind"),
        pytest.param({}, {"patternProperties": {"a": False}}, {"widening"}, id="never-plainly-narrower"),
    ],
)  # fmt: skip
def test_schemas(old: dict[str, Any], new: dict[str, Any], told: set[str]) -> None:
    assert {one.verdict for one in judge_schemas(old, new)} == told


def test_references_that_double_on_each_level_are_compared_once() -> None:
    def levels(most: int) -> dict[str, Any]:
        level = {
            f"l{at}": {"properties": {key: {"$ref": f"#/$defs/l{at + 1}"} for key in "ab"}}
            for at in range(18)
        }
        return {"$ref": "#/$defs/l0", "$defs": {**level, "l18": {"maxLength": most}}}

    assert len(judge_schemas(levels(1), levels(2))) == 1
