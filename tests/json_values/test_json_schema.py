"""JSON Schema as tools are checked by it: the standard's own vectors, and nothing fetched."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.json_values.json_schema import BadSchemaError, schema_problems, value_problems
from covalt_git.json_values.pointer import json_path
from tests.connection_audit import Connections
from tests.examples import examples
from tests.tables import tables

TABLES = tables(__file__)


VECTORS = Path(__file__).parents[2].parent / "shared" / "data" / "json-schema" / "draft2020-12"


@pytest.mark.skipif(not VECTORS.exists(), reason="the vectors are not next to this checkout")
@pytest.mark.parametrize("file", sorted(VECTORS.glob("*.json")), ids=lambda file: file.stem)
def test_vectors_of_the_standard_agree(file: Path) -> None:
    for group in json.loads(file.read_text(encoding="utf-8")):
        assert schema_problems(group["schema"]) == []
        for test in group["tests"]:
            valid = value_problems(group["schema"], test["data"]) == []
            assert valid is test["valid"], (group["description"], test["description"])


# --- nothing is fetched ---------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["$ref", "$dynamicRef", "$schema"])
def test_no_url_is_requested(place: str) -> None:
    url = "http://127.0.0.1:1/a.json"
    schema = {"type": "object", "properties": {"a": {place: f"{url}#/b"}}}

    with Connections() as begun:
        found = schema_problems(schema)
        if place != "$schema":
            assert [where for where, _ in found] == [("properties", "a", place)]
            with pytest.raises(BadSchemaError, match="is outside of this schema"):
                value_problems(schema, {"a": 1})

    assert begun == []


def test_references_lead_into_the_schema_only_and_no_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.json").write_text('{"type": "string"}')
    monkeypatch.chdir(tmp_path)
    inner = {"$defs": {"a": {"$id": "a.json", "type": "string"}}}

    for ref in ((tmp_path / "a.json").as_uri(), "a.json", "./a.json"):
        ((place, message),) = schema_problems({"anyOf": [{}, {"$ref": ref}]})
        assert place == ("anyOf", 1, "$ref")
        assert message.endswith("is outside of this schema, and is not fetched")
        assert schema_problems({"items": [], "$ref": ref}) != []
    assert schema_problems({"$id": "https://example.com/b", "$ref": "a.json", **inner}) == []


# --- bounds ---------------------------------------------------------------------------------------


@pytest.mark.rest
@pytest.mark.parametrize(
    "pattern", ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "^([a-zA-Z]+)*$", "(.*)*b", "^(.*?,){200}$"]
)
def test_pattern_is_matched_in_linear_time(pattern: str) -> None:
    start = time.process_time()

    assert value_problems({"pattern": pattern}, "a" * 40_000 + "!")
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    "pattern",
    ["^(((a{1,1000}){1,1000}){1,1000})$", "(?=a)", r"(a)\1", "(a", "[", "a{2,1}", "(?<!a)"],
)
def test_pattern_without_a_bound_is_refused(pattern: str) -> None:
    ((place, message),) = schema_problems({"properties": {"a": {"pattern": pattern}}})

    assert place == ("properties", "a", "pattern")
    assert message.startswith("the pattern ")
    assert message.endswith(
        "is invalid, or uses lookaround or backreferences, which are not supported"
    )


def nested(depth: int, key: str) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {key: value}
    return value


@pytest.mark.parametrize("depth", [60, 300, 900])
def test_deep_schemas_and_values_are_a_problem_and_no_crash(depth: int) -> None:
    told = schema_problems(nested(depth, "items")) + value_problems({}, nested(depth, "a"))

    assert {message for _, message in told} <= {"nested too deeply"}
    assert bool(told) == (depth > 60)


def test_a_schema_that_refers_to_itself_ends() -> None:
    loop = {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}
    tree = {"properties": {"next": {"$ref": "#"}}, "additionalProperties": False}

    assert schema_problems(loop) == []
    assert value_problems(loop, 1) == []
    assert value_problems(tree, {"next": {"next": {"nxt": 1}}}) == [
        (("next", "next"), "'nxt' is unknown, did you mean 'next'?")
    ]


@pytest.mark.parametrize("bound", [2**53, -(2**53), 2**64])
def test_number_beyond_2_53_is_a_problem_of_the_schema(bound: int) -> None:
    ((_, message),) = schema_problems({"maximum": bound})

    assert message.startswith(f"$.maximum: {bound} ")
    with pytest.raises(BadSchemaError):
        value_problems({"maximum": bound}, 1)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYWORDS = (
    *("type", "properties", "required", "items", "enum", "const", "anyOf", "oneOf", "allOf", "not"),
    *("$ref", "$defs", "pattern", "minimum", "maxLength", "additionalProperties", "prefixItems"),
    *("if", "then", "format", "$id", "$anchor", "$schema", "patternProperties", "uniqueItems"),
)
schemas = st.recursive(
    st.sampled_from(
        [{}, True, False, "string", "#", "#/$defs/a", "(a", 3, ["a"], {"type": "string"}]
    ),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
    ),
    max_leaves=8,
).filter(lambda schema: isinstance(schema, dict))


@given(schema=schemas, value=json_values)
@settings(max_examples=examples(150))
def test_any_schema_is_used_or_refused(schema: Any, value: Any) -> None:
    if schema_problems(schema):
        for place, message in schema_problems(schema):
            assert message
            assert all(isinstance(part, str | int) for part in place)
        return

    for _, message in value_problems(schema, value):
        assert message
        assert "\ue000" not in message


# --- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("schema", "place", "message"), TABLES["problem_of_a_schema"])
def test_problem_of_a_schema(schema: Any, place: list[str | int], message: str) -> None:
    assert schema_problems(schema) == [(tuple(place), message)]


@pytest.mark.parametrize(("schema", "value", "message"), TABLES["problem_of_a_value"])
def test_problem_of_a_value(schema: Any, value: Any, message: str) -> None:
    assert value_problems(schema, value) == [((), message)]


@pytest.mark.requirement("cjson-tools.argsSchema", "toolshed-tool")
def test_all_problems_are_reported_at_once_with_their_places() -> None:
    schema = {
        "properties": {"a": {"type": "string"}, "rows": {"items": {"type": "integer"}}},
        "required": ["b"],
    }

    found = value_problems(schema, {"a": 1, "rows": [1, "x", None]})

    assert sorted((json_path(place), message) for place, message in found) == [
        ("$", "'b' is missing"),
        ("$.a", "must be a text, not an integer"),
        ("$.rows[1]", "must be an integer, not a text"),
        ("$.rows[2]", "must be an integer, not null"),
    ]


def test_problems_of_a_nullable_value_are_those_of_its_type() -> None:
    rows = {"items": {"required": ["a"], "properties": {"a": {"type": "integer"}}}}
    schema = {"properties": {"rows": {"anyOf": [{"type": "array", **rows}, {"type": "null"}]}}}

    assert value_problems(schema, {"rows": [{}, {"a": "x"}]}) == [
        (("rows", 0), "'a' is missing"),
        (("rows", 1, "a"), "must be an integer, not a text"),
    ]
