"""The part of a schema beside the message about a refused value."""

import json
from typing import Any

import pytest

from covalt_git.json_values.schema_rules import with_rule

ROOT: dict[str, Any] = {
    "$defs": {
        "Currency": {"title": "Currency", "enum": ["eur", "usd"], "type": "string"},
        "Money": {
            "type": "object",
            "properties": {"currency": {"$ref": "#/$defs/Currency"}},
            "additionalProperties": False,
        },
        "Long": {"type": "string", "pattern": "a" * 400},
    }
}


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        ({"$ref": "#/$defs/Currency"}, {"enum": ["eur", "usd"], "type": "string"}),
        (
            {"$ref": "#/$defs/Currency", "description": "Of the sum."},
            {"enum": ["eur", "usd"], "type": "string"},
        ),
        ({"type": "integer", "title": "N", "minimum": 1}, {"type": "integer", "minimum": 1}),
        (
            {"type": "array", "items": {"$ref": "#/$defs/Money"}},
            {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"currency": {"type": "string"}},
                    "additionalProperties": False,
                },
            },
        ),
        ({"const": {"$ref": "#/$defs/Money"}}, {"const": {"$ref": "#/$defs/Money"}}),
    ],
)
def test_references_are_replaced_by_what_they_lead_to(part: Any, shown: Any) -> None:
    message, _, rule = with_rule("is wrong", part, ROOT).partition(" (schema: ")

    assert message == "is wrong"
    assert json.loads(rule.removesuffix(")")) == shown


@pytest.mark.parametrize(
    "part",
    [
        {},
        {"type": "integer"},
        {"$ref": "#/$defs/Money"},
        {"$ref": "#/$defs/Money", "description": "The sum."},
        {"$ref": "#/$defs/Missing"},
        {"anyOf": [{"$ref": "#/$defs/Money"}, {"type": "null"}]},
    ],
)
def test_what_would_say_nothing_is_left_out(part: Any) -> None:
    assert with_rule("is wrong", part, ROOT) == "is wrong"


def test_a_long_rule_is_shortened() -> None:
    assert len(with_rule("", {"$ref": "#/$defs/Long"}, ROOT)) < 220
