"""Projections of answers, and their check against the schema of the answers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.json_values import json_schema
from covalt_git.json_values.field_projection import (
    path_problem,
    project,
    projected_schema,
    schema_problem,
)
from tests.compilers.schema_values import values

ANSWER = {"items": [{"id": 1, "title": "a", "owner": {"name": "x", "id": 2}}], "next": "p2"}
LIST = {
    "type": "object",
    "properties": {"items": {"type": "array", "items": {"$ref": "#/$defs/Issue"}}, "any": {}},
}
ISSUE = {
    "type": "object",
    "properties": {"id": {}, "parent": {"anyOf": [{"$ref": "#/$defs/Issue"}, {"type": "null"}]}},
}


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ((), ANSWER),
        (("items[].id",), {"items": [{"id": 1}]}),
        (("items[].owner.name", "next"), {"items": [{"owner": {"name": "x"}}], "next": "p2"}),
        (("items", "items[].id"), {"items": ANSWER["items"]}),
        (("missing",), {}),
        (("[].id",), ANSWER),  # another shape is returned whole
        (("next.id",), {"next": "p2"}),
    ],
)
def test_projections(paths: tuple[str, ...], expected: Any) -> None:
    assert project(ANSWER, paths) == expected


@pytest.mark.parametrize("path", ["items[].id", "items[].parent.parent.id", "any.thing[].else"])
def test_paths_that_answers_have(path: str) -> None:
    assert path_problem(path) is None
    assert schema_problem(path, LIST, {"Issue": ISSUE}) is None


@pytest.mark.parametrize("path", ["items[].idd", "item", "items.id", "items[].parent.no", "[].id"])
def test_paths_that_answers_do_not_have(path: str) -> None:
    assert schema_problem(path, LIST, {"Issue": ISSUE})


@pytest.mark.parametrize("path", ["", ".", "a..b", "a[0]", "a[", "$.a" * 40])
def test_texts_that_are_no_paths(path: str) -> None:
    assert path_problem(path)


OWNED: dict[str, Any] = {
    "type": "object",
    "minProperties": 2,
    "allOf": [{"$ref": "#/$defs/Issue"}],
    "oneOf": [
        {"required": ["owner"], "properties": {"owner": {"$ref": "#/$defs/Owner"}}},
        {"type": ["object", "null"], "properties": {"team": {"type": "string", "const": "a"}}},
    ],
    "required": ["id", "size"],
    "properties": {"size": {"type": "integer"}, "tags": {"type": "array", "uniqueItems": True}},
}
DEFINITIONS: dict[str, Any] = {
    "Issue": {"type": "object", "properties": {"id": {"type": "integer"}}},
    "Owner": {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": ["string", "null"]},
            "pets": {"type": "array", "items": {"$ref": "#/$defs/Owner"}, "minItems": 1},
        },
        "additionalProperties": False,
    },
}


def test_the_schema_of_a_projection_has_its_parts_only() -> None:
    pets = {"type": "array", "items": {"$ref": "#/$defs/Owner"}}
    schema = {"type": "object", "title": "An owner"} | {
        "required": ["pets", "name"],
        "properties": {"pets": pets},
    }

    assert projected_schema(schema, ["pets[].name"], DEFINITIONS) == {
        "type": "object",
        "title": "An owner",
        "required": ["pets"],
        "properties": {
            "pets": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["name"],
                    "properties": {"name": {"type": ["string", "null"]}},
                },
            }
        },
    }


@given(
    values(OWNED, DEFINITIONS),
    st.lists(
        st.sampled_from(
            [
                "id",
                "size",
                "owner.name",
                "owner.pets[].name",
                "team",
                "tags[].x",
                "owner[]",
                "[].id",
            ]
        ),
        min_size=1,
    ),
)
def test_each_projection_matches_its_schema_and_so_does_the_whole(
    value: Any, paths: list[str]
) -> None:
    schema = projected_schema(OWNED, paths, DEFINITIONS)
    assert schema is not None
    whole = schema | {"$defs": DEFINITIONS}
    assert json_schema.schema_problems(whole) == []
    if json_schema.value_problems(OWNED | {"$defs": DEFINITIONS}, value):
        return
    assert json_schema.value_problems(whole, value) == []
    assert json_schema.value_problems(whole, project(value, paths)) == []


def test_references_that_multiply_or_lead_back_have_no_endless_schema() -> None:
    many: dict[str, Any] = {
        f"D{n}": {"allOf": [{"$ref": f"#/$defs/D{n + 1}"}] * 2} for n in range(40)
    }
    circle: dict[str, Any] = {"A": {"allOf": [{"$ref": "#/$defs/A"}]}}

    assert projected_schema({"$ref": "#/$defs/D0"}, ["a"], many) is None
    assert projected_schema({"$ref": "#/$defs/A"}, ["a"], circle) == {"allOf": [{}]}
