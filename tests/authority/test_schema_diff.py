"""A schema without a wider difference accepts no value that the old one refused."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.authority.schema_diff import judge_schemas
from covalt_git.json_values.json_schema import schema_problems, value_problems
from tests.examples import examples

VALUES: list[Any] = [
    *(None, True, 0, 1, 2, 5, 2.5, -1, "", "a", "ab", "abcd", [], [1], ["a"], [1, 1], [1, 2, 3]),
    *([[1]], {}, {"a": 1}, {"a": "x"}, {"b": "a"}, {"a": 1, "b": "ab"}, {"a": [1]}, {"c": None}),
    *({"a": {"a": 1}}, {"a": "abcd", "b": 5}, {"a": 5, "b": 5, "c": 5}, {"ab": "a"}),
    *(["abcd", 5], ["a", "abcd"]),
]
CASES = yaml.load(Path(__file__).with_name("schema_diff.yaml").read_text(), yaml.CSafeLoader)

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
    """Return a schema, and the same with a few small changes: which is narrower most often."""
    old = draw(schemas)
    new = deepcopy(old)
    for _ in range(draw(st.integers(1, 3))):
        inside, key = draw(st.sampled_from(list(places(new))))
        inside[key] = draw(st.sampled_from(CHANGES))(inside[key])
    return old, new


def accepts(schema: dict[str, Any], value: Any) -> bool:
    return value_problems(schema, value) == []


def check_growth_is_reported(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Fail if a value is newly accepted and no difference is reported as widening."""
    if schema_problems(old) or schema_problems(new):
        return
    if all(one.verdict != "widening" for one in judge_schemas(old, new)):
        assert [one for one in VALUES if accepts(new, one) and not accepts(old, one)] == []


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_differences_are_reported_as_what_they_are(case: dict[str, Any]) -> None:
    old, new = case["old"], case["new"]

    assert sorted({one.verdict for one in judge_schemas(old, new)}) == case["reported"]
    check_growth_is_reported(old, new)


@given(edited() | st.tuples(schemas, schemas))
def test_schemas_without_reported_growth_accept_nothing_more(
    pair: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    check_growth_is_reported(*pair)


@settings(max_examples=examples(50))
@given(schemas)
def test_the_order_of_keys_is_no_difference(schema: dict[str, Any]) -> None:
    assert judge_schemas(schema, dict(reversed(schema.items()))) == []
