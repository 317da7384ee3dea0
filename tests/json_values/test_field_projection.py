"""Projections of answers, and their check against the schema of the answers."""

from typing import Any

import pytest

from covalt_git.json_values.field_projection import path_problem, project, schema_problem

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
