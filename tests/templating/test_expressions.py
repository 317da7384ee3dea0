"""Expressions: their values, texts without one, and errors."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.templating.expressions import Expression, Values, expressions, interpolate
from tests.tables import tables

TABLES = tables(__file__)

ARGS = {"path": "a.py", "my-key": "hyphenated", "größe": 4, "nested": {"key": {"deep": True}}}
RETURNED = {
    "port": 8080,
    "host": "localhost:3000",
    "items": [{"name": "first"}, "second", [1, 2]],
    "none": None,
    "yes": True,
    "ratio": 0.5,
    "dict": {"a": 1, "ü": "ö"},
    "0": "a key, not an index",
    "price": "$args.path costs $5",
    "braces": "${return.port} $$",
}
VALUES = Values(args=ARGS, returned=RETURNED, chat_id="chat-1")


def resolve(value: Any) -> Any:
    resolved, unresolved = interpolate(value, VALUES)
    assert unresolved == ()
    return resolved


@pytest.mark.requirement(
    "covalt-5.2.args_name",
    "covalt-5.2.args",
    "covalt-5.2.return_path",
    "covalt-5.2.return",
    "covalt-5.2.chat_id",
)
@pytest.mark.parametrize(("text", "value"), TABLES["text_that_is_one_expression_becomes_its_value"])
def test_text_that_is_one_expression_becomes_its_value(text: str, value: object) -> None:
    assert resolve(text) == value
    assert type(resolve(text)) is type(value)


@pytest.mark.parametrize(("text", "result"), TABLES["expressions_in_a_longer_text_become_text"])
def test_expressions_in_a_longer_text_become_text(text: str, result: str) -> None:
    assert resolve(text) == result


@pytest.mark.parametrize(("text", "result"), TABLES["every_other_dollar_stays"])
def test_every_other_dollar_stays(text: str, result: str) -> None:
    assert resolve(text) == result
    assert list(expressions(text)) == []


@pytest.mark.parametrize(("text", "message"), TABLES["unresolved_expression_stays_and_is_reported"])
def test_unresolved_expression_stays_and_is_reported(text: str, message: str) -> None:
    assert interpolate(text, VALUES) == (text, (message,))


def test_data_is_never_searched_for_expressions() -> None:
    assert resolve("$return.price") == "$args.path costs $5"
    assert resolve("<$return.price>") == "<$args.path costs $5>"
    assert resolve("$return.braces|$return.port") == "${return.port} $$|8080"


def test_expressions_are_listed_in_order_with_their_parts() -> None:
    config = {
        "file": "$workspace/${args.my-key}.txt",
        "data": ["$return.items.0", {"n": "$$args $5 $chat_id.html"}],
        "$args.key": 5,
    }

    assert list(expressions(config)) == [
        Expression("workspace", (), "$workspace"),
        Expression("args", ("my-key",), "${args.my-key}"),
        Expression("return", ("items", "0"), "$return.items.0"),
        Expression("chat_id", (), "$chat_id"),
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
FRAGMENTS = st.sampled_from(
    ["$", "$$", "${", "}", ".", "-", "/", "args", "return", "chat_id", "workspace", "0", "a", "x y"]
)
TEXTS = st.lists(FRAGMENTS | st.text(max_size=3), max_size=12).map("".join)
CONFIGS = st.recursive(
    TEXTS, lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner), max_leaves=5
)


@given(config=CONFIGS, args=st.dictionaries(st.text(), JSON), returned=JSON)
def test_interpolate_never_raises(config: Any, args: dict[str, Any], returned: Any) -> None:
    _, unresolved = interpolate(config, Values(args, returned, "c"))

    assert len(unresolved) <= len(list(expressions(config)))


@given(data=TEXTS, before=TEXTS, after=TEXTS)
def test_data_is_inserted_unchanged(data: str, before: str, after: str) -> None:
    plain = [text.replace("$", "") for text in (before, after)]
    values = Values({"a": data}, None, "c")

    assert interpolate("$args.a", values) == (data, ())
    assert interpolate(f"{plain[0]}${{args.a}}{plain[1]}", values) == (
        f"{plain[0]}{data}{plain[1]}",
        (),
    )


@given(text=st.text())
def test_doubling_every_dollar_keeps_any_text(text: str) -> None:
    assert interpolate(text.replace("$", "$$"), VALUES) == (text, ())
