"""A schema that is told as no looser accepts nothing that the old one refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from covalt_git.authority.json_schemas import judge_schemas
from covalt_git.json_schema import schema_problems, value_problems

VALUES: list[Any] = [
    None, True, 0, 1, 2, 5, 2.5, -1, "", "a", "ab", "abcd", [], [1], ["a"], [1, 1], [1, 2, 3], {},
    {"a": 1}, {"a": "x"}, {"b": "a"}, {"a": 1, "b": "ab"}, {"a": [1]}, {"c": None}, {"a": {"a": 1}},
]  # fmt: skip

small = st.integers(0, 3)
plain: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["string", "integer", "number", "null", "boolean", ["string", "null"]]),
        "enum": st.lists(st.sampled_from(["a", "ab", 1, 2, None]), min_size=1, max_size=3, unique=True),
        "minimum": small,
        "maximum": small,
        "exclusiveMaximum": small,
        "minLength": small,
        "maxLength": small,
        "pattern": st.sampled_from(["^a", "b$"]),
        "description": st.just("words"),
    },
)  # fmt: skip


def grown(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    arrays = st.fixed_dictionaries(
        {"type": st.just("array")},
        optional={
            "items": inner,
            "minItems": small,
            "maxItems": small,
            "uniqueItems": st.booleans(),
            "contains": inner,
            "minContains": small,
        },
    )
    objects = st.fixed_dictionaries(
        {"type": st.just("object")},
        optional={
            "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "required": st.lists(st.sampled_from("ab"), max_size=2, unique=True),
            "additionalProperties": st.booleans() | inner,
            "maxProperties": small,
        },
    )
    unions = st.fixed_dictionaries({}, optional={
        "anyOf": st.lists(inner, min_size=1, max_size=2),
        "allOf": st.lists(inner, min_size=1, max_size=2),
        "not": inner,
    })  # fmt: skip
    return arrays | objects | unions


schemas = st.recursive(plain, grown, max_leaves=4)


def accepts(schema: dict[str, Any], value: Any) -> bool:
    return value_problems(schema, value) == []


@settings(max_examples=200, deadline=None)
@given(schemas, schemas)
@example({"type": "string", "maxLength": 2}, {"type": ["string", "null"], "maxLength": 2})
@example({"properties": {"a": {"enum": [1]}}}, {"properties": {}})
def test_what_is_told_as_no_looser_accepts_no_more(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    assume(not schema_problems(old) and not schema_problems(new))
    told = {one.verdict for one in judge_schemas(old, new)}
    verdicts = [(accepts(old, value), accepts(new, value)) for value in VALUES]

    if any(now and not before for before, now in verdicts):
        assert "widening" in told


@settings(max_examples=200, deadline=None)
@given(schemas)
def test_a_schema_is_as_loose_as_itself(schema: dict[str, Any]) -> None:
    assert judge_schemas(schema, schema) == []


@settings(max_examples=150, deadline=None)
@given(schemas, schemas)
def test_the_other_way_round_what_loosens_tightens(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    there, back = judge_schemas(old, new), judge_schemas(new, old)

    assume(all(one.certain for one in (*there, *back)))
    for verdict, opposite in (("widening", "narrowing"), ("narrowing", "widening")):
        assert any(one.verdict == verdict for one in there) == any(
            one.verdict == opposite for one in back
        )


NODE = {
    "type": "object",
    "properties": {"next": {"$ref": "#/$defs/node"}},
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        pytest.param({"type": "string"}, {"anyOf": [{"type": "string"}, {"type": "null"}]}, {"widening"}, id="optional"),
        pytest.param({"$defs": {"s": {"maxLength": 1}}, "$ref": "#/$defs/s"}, {"maxLength": 1}, set(), id="inlined"),
        pytest.param({"$defs": {"s": {"maxLength": 1}}, "items": {"$ref": "#/$defs/s"}}, {"$defs": {"s": {"maxLength": 9}}, "items": {"$ref": "#/$defs/s"}}, {"widening"}, id="a-definition"),
        pytest.param({"$defs": {"node": NODE}, "$ref": "#/$defs/node"}, {"$defs": {"node": NODE | {"additionalProperties": True}}, "$ref": "#/$defs/node"}, {"widening"}, id="recursive"),
        pytest.param({"maximum": 5}, {"exclusiveMaximum": 5}, {"narrowing"}, id="exclusive"),
        pytest.param({"const": 1}, {"enum": [1, 2]}, {"widening"}, id="const"),
        pytest.param({"type": "string", "maxLength": 3}, {"type": "integer"}, {"widening", "narrowing"}, id="another-type"),
        pytest.param({"oneOf": [{"type": "null"}]}, {"oneOf": [{"type": "null"}, {"type": "string"}]}, {"widening"}, id="one-of"),
        pytest.param({"properties": {"a": {"not": {"maxLength": 3}}}}, {"properties": {"a": {"not": {"maxLength": 2}}}}, {"widening"}, id="not"),
        pytest.param({"contains": {}}, {}, {"widening"}, id="contains-anything"),
        pytest.param({"contains": {"const": 1}}, {"contains": {"const": 1}, "minContains": 0}, {"widening"}, id="contains-none"),
        pytest.param({"contains": {"const": 1}, "minContains": 2}, {"contains": {"const": 1}}, {"widening"}, id="contains-one"),
        pytest.param({"items": {}}, {}, set(), id="items-of-any-kind"),
        pytest.param({"enum": ["a"]}, {"type": "string", "enum": ["a"]}, set(), id="types-of-an-enumeration"),
    ],
)  # fmt: skip
def test_schemas(old: dict[str, Any], new: dict[str, Any], told: set[str]) -> None:
    assert {one.verdict for one in judge_schemas(old, new)} == told
