"""Messages about unions are about the branch that the value was meant for."""

from typing import Any

import pytest

from covalt_git.json_values import json_schema

CAT = {"properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}}, "required": ["kind"]}
DOG = {"properties": {"kind": {"enum": ["dog", "wolf"]}, "size": {"type": "integer"}}}
TAGGED = {
    "$defs": {"Cat": CAT, "Dog": DOG, "Pet": {"oneOf": [{"$ref": "#/$defs/Cat"}, DOG]}},
    "type": "array",
    "items": {"$ref": "#/$defs/Pet"},
}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"kind": "cat", "lives": "x"}, ((0, "lives"), "must be an integer, not a text")),
        ({"kind": "wolf", "size": None}, ((0, "size"), "must be an integer, not null")),
        ({"kind": "bird"}, ((0,), '\'kind\' must be one of "cat", "dog", "wolf", not "bird"')),
    ],
)
def test_a_tag_chooses_the_branch(value: Any, problem: Any) -> None:
    assert json_schema.value_problems(TAGGED, [value]) == [problem]


def test_a_missing_tag_is_named_once() -> None:
    schema = {"oneOf": [CAT, DOG | {"required": ["kind"]}], "required": ["kind"]}

    assert json_schema.value_problems(schema, {}) == [((), "'kind' is missing")]


@pytest.mark.parametrize("value", [1, "cat", ["cat"], None])
def test_what_is_no_object_has_no_tag(value: Any) -> None:
    schema = {"anyOf": [CAT | {"type": "object"}, DOG | {"type": "object"}]}

    (problem,) = json_schema.value_problems(schema, value)
    assert problem[1].startswith("must be an object")


def test_a_property_with_the_same_value_in_two_branches_is_no_tag() -> None:
    same = CAT | {"required": ["claws"]}

    (problem,) = json_schema.value_problems({"anyOf": [CAT, same]}, {"kind": "cat", "lives": "x"})
    assert problem[1].endswith(
        "matches none of the alternatives: lives must be an integer, not a text; 'claws' is missing"
    )


def test_true_is_not_the_tag_1() -> None:
    branches = [
        {"properties": {"v": {"const": value}, "x": {"type": kind}}}
        for value, kind in ((1, "string"), (True, "integer"))
    ]

    problems = json_schema.value_problems({"oneOf": branches}, {"v": True, "x": "a"})
    assert problems == [(("x",), "must be an integer, not a text")]


def test_the_type_chooses_the_branch() -> None:
    schema = {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "string"}}]}

    assert json_schema.value_problems(schema, ["a", 1]) == [
        ((1,), "must be a text, not an integer")
    ]
