"""Which differences between a schema that was read and one that ran count."""

from typing import Any

import pytest

from covalt_git.authority.schema_meaning import judge_meaning


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


@pytest.mark.parametrize(
    ("read", "ran"),
    [
        ({"enum": ["a"]}, {"const": "a"}),
        ({"type": "string"}, {"title": "Name", "type": "string", "description": "x"}),
        ({"type": "string", "format": "decimal"}, {"type": "string"}),
        ({"type": "string", "format": "complex"}, {"type": "string"}),
        ({"type": "integer", "format": "byte-size"}, {"type": "integer"}),
        ({"minimum": 1, "type": "integer"}, {"type": "integer", "minimum": 1}),
        ({"anyOf": [{"enum": [1]}, {"type": "null"}]}, {"anyOf": [{"const": 1}, {"type": "null"}]}),
        ({"items": {"enum": ["a"]}}, {"items": {"const": "a"}}),
    ],
)
def test_other_words_are_no_difference(read: dict[str, Any], ran: dict[str, Any]) -> None:
    assert judge_meaning(of(value=read), of(value=ran)) == []


def test_words_in_definitions_are_no_difference() -> None:
    read = {**of(value={"$ref": "#/$defs/A"}), "$defs": {"A": {"enum": ["a"]}}}
    ran = {**of(value={"$ref": "#/$defs/B"}), "$defs": {"B": {"const": "a", "title": "B"}}}

    assert judge_meaning(read, ran) == []


@pytest.mark.parametrize(
    ("read", "ran", "verdict"),
    [
        ({}, {"type": "string"}, "narrowing"),
        ({"type": "string", "format": "date"}, {"type": "string"}, "widening"),
        ({"type": "integer"}, {"type": "integer", "minimum": 1}, "narrowing"),
        ({"enum": ["a"]}, {"const": "b"}, "widening"),
        ({"enum": ["a", "b"]}, {"enum": ["a"]}, "narrowing"),
        ({"enum": ["a", "b"]}, {"const": "a"}, "narrowing"),
        ({"default": 1, "type": "integer"}, {"default": 1, "type": "number"}, "widening"),
    ],
)
def test_other_values_are_a_difference(
    read: dict[str, Any], ran: dict[str, Any], verdict: str
) -> None:
    assert {one.verdict for one in judge_meaning(of(value=read), of(value=ran))} >= {verdict}


@pytest.mark.parametrize("name", ["enum", "const", "format", "title"])
def test_an_argument_with_the_name_of_a_keyword_is_compared(name: str) -> None:
    read, ran = of(**{name: {"type": "string"}}), of(**{name: {"type": "integer"}})

    assert judge_meaning(read, ran)


def test_a_default_that_looks_like_a_schema_is_not_changed() -> None:
    schema = of(value={"type": "object", "const": {"enum": ["a"], "format": "decimal"}})
    other = of(value={"type": "object", "const": {"const": "a"}})

    assert judge_meaning(schema, other)
