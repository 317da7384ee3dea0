"""Conditions on arguments: each notation of a number, names with dots, null, and arguments of any size."""

from random import Random
from typing import Any

import pytest

from covalt_git.access import decide_call
from covalt_git.json_values import canonical_json, json_schema
from covalt_git.models.project_config import ProjectConfig
from covalt_git.models.tool import Tool
from tests.counted_work import work_of


def tool(schema: dict[str, Any] | None = None, kind: str = "http") -> Tool:
    facts = {"tool_id": "a:x", "toolset_id": "a", "name": "x", "kind": kind}
    return Tool.model_validate(facts | {"input_schema": schema or {}})


def effect(
    condition: Any, args: dict[str, Any], called: Tool, *, path: str = "p", effect: str = "deny"
) -> str:
    rule = {"pattern": "**", "effect": effect, "when": {"args": {path: condition}}}
    config = ProjectConfig.model_validate({"version": 1, "rules": [rule]})
    asking = called.model_copy(update={"confirmation": ("toolset",)})
    return decide_call(config.rules, [asking], args).effect


INTEGER = tool({"properties": {"p": {"type": "integer"}}})
_LONG = "1" + "0" * 450


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ({"min": 1000}, _LONG),
        ({"min": 1000}, "1" + "0" * 50_000),
        ({"max": -1}, f"-{_LONG}"),
        ({"min": 9007199254740991, "max": 9007199254740991.0}, "9007199254740991"),
        ({"min": 1.0e21, "max": 1.0e21}, "1000000000000000000000"),
        (1.0e21, "1000000000000000000000"),
        ({"in": [5, 1.0e21]}, "1000000000000000000000"),
        ({"in": ["1000000000000000000000"]}, 1.0e21),
        ({"in": ["1e+2*"]}, "1000000000000000000000"),
        ({"in": [[1.0e21]]}, ["1000000000000000000000"]),
        ({"not": {"max": 1000}}, _LONG),
        ({"min": 5}, "1e99999999999999999999"),
        (1, "1.0"),
    ],
)
def test_no_notation_of_a_number_avoids_a_rule_that_limits(condition: Any, value: Any) -> None:
    assert effect(condition, {"p": value}, tool()) == "deny"
    assert effect(condition, {"p": value}, tool(), effect="allow") == "ask" or "not" in condition


@pytest.mark.parametrize("value", ["nan", "1_000", "01000", _LONG + "x", True])
def test_a_text_that_is_no_number_is_not_compared_as_one(value: Any) -> None:
    assert effect(1000, {"p": value}, tool()) == "ask"


def test_a_call_is_not_freer_with_another_notation_of_an_integer() -> None:
    random = Random(3)
    denied = 0
    for _ in range(300):
        digits = random.choice((17, 22, 40, 300))
        number = float(random.choice("123456789") + "0" * random.randrange(16, digits))
        condition: dict[str, Any] = {
            "min": random.choice((5, 1.0e16, 1.0e21, number)),
            "max": random.choice((1.0e21, number, 1.0e300)),
        }
        if condition["min"] > condition["max"] or random.random() < 0.5:
            wild = f"{str(int(number))[: random.randrange(4)]}*"
            condition = {"in": [random.choice((number, str(int(number)), repr(number), wild, 5))]}
        text = str(int(number))
        sent = json_schema.with_integers(INTEGER.input_schema, {"p": text})["p"]
        assert sent == number or float(sent) == number
        exact = canonical_json.loads(canonical_json.dumps(number))
        if int(exact) == sent:
            of_number, of_text = (effect(condition, {"p": one}, INTEGER) for one in (number, text))
            assert of_number == of_text, (condition, number)
            denied += of_number == "deny"
            other = {"not": condition}
            if effect(other, {"p": number}, INTEGER) == "deny":
                assert effect(other, {"p": text}, INTEGER) == "deny"
    assert 50 < denied < 300


def test_a_path_also_means_a_name_with_dots() -> None:
    dotted = tool({"properties": {"a.b": {"type": "string"}, "c": {"type": "object"}}})

    assert effect("x", {"a.b": "x"}, dotted, path="a.b") == "deny"
    assert effect("x", {"a": {"b": "x"}}, dotted, path="a.b") == "deny"
    assert effect("x", {"c": {"a.b": ["x"]}}, dotted, path="c.a.b") == "deny"
    assert effect("x", {"a.b": "y"}, dotted, path="a.b") == "ask"
    assert effect({"exists": False}, {"a.b": "x"}, dotted, path="a.b") == "ask"
    assert effect({"exists": False}, {"c": {}}, dotted, path="a.b") == "deny"
    assert effect("x", {"a.b": "x"}, dotted, path="a.b", effect="allow") == "allow"
    both = {"a.b": "x", "a": {"b": "y"}}
    assert effect("x", both, dotted, path="a.b", effect="allow") == "ask"
    assert effect("x", both, dotted, path="a.b") == "deny"


def test_a_name_with_dots_that_no_schema_has_does_not_replace_an_argument() -> None:
    nested = tool({"properties": {"a": {"properties": {"b": {"type": "string"}}}}})

    assert effect({"exists": False}, {"a.b": "x"}, nested, path="a.b") == "deny"
    assert effect("x", {"a.b": "x", "a": {"b": "y"}}, nested, path="a.b", effect="allow") == "ask"


def test_null_counts_as_a_missing_argument_for_a_rule_that_limits() -> None:
    assert effect({"exists": False}, {"p": None}, tool()) == "deny"
    assert effect({"exists": True}, {"p": None}, tool()) == "deny"
    assert effect({"exists": True}, {"p": None}, tool(), effect="allow") == "ask"
    assert effect({"exists": False}, {"p": None}, tool(), effect="allow") == "ask"


@pytest.mark.parametrize("kind", ["http", "python"])
def test_each_value_of_a_call_is_compared_with_all_patterns_at_once(kind: str) -> None:
    called = tool({"properties": {"p": {"items": {"type": "string"}, "type": "array"}}}, kind)
    args = {"p": [f"item/{number}" for number in range(1000)]}

    def work(patterns: int) -> int:
        condition = {"in": [f"blocked{number}*" for number in range(patterns)]}
        return work_of(lambda: effect(condition, args, called))

    assert work(100) < 1.2 * work(1)
