from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.formats import cjson, cognipeer
from covalt_git.formats.model import Format
from covalt_git.json_values import json_schema
from tests.formats import laws

EVERY = [(one, path) for one in laws.BOTH_WAYS for path in laws.documents_of(one.name)]
REAL = laws.REPOSITORY.parent / "shared/data"

TEXT = st.text(
    st.characters(
        categories=["L", "N", "P", "S", "Zs"], exclude_characters="\u115f\u1160\u3164\uffa0"
    ),
    max_size=12,
)
"""Texts without the hidden characters that a toolset cannot have."""
NAMES = st.one_of(st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,8}", fullmatch=True), TEXT.filter(bool))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9999, 9999) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
FLAGS = {"enabled": st.booleans(), "requiresApproval": st.booleans()}
URLS = st.sampled_from(
    ["https://api.example.com", "https://a.example/v1/", "http://localhost:8080/x/{id}"]
)


def unknown(known: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Keys that no program knows."""
    return st.dictionaries(TEXT.filter(lambda key: key not in known), VALUES, max_size=2)


def objects(
    required: dict[str, Any], optional: dict[str, Any]
) -> st.SearchStrategy[dict[str, Any]]:
    known = {**required, **optional}
    parts = st.tuples(unknown(known), st.fixed_dictionaries(required, optional=optional))
    return parts.map(lambda pair: {**pair[0], **pair[1]})


def unique(items: st.SearchStrategy[Any], key: str) -> st.SearchStrategy[list[Any]]:
    return st.lists(items, max_size=4, unique_by=lambda one: one[key])


SCHEMAS = st.sampled_from(
    [
        {"type": "object", "properties": {"a": {"type": "string"}}},
        {
            "type": "object",
            "properties": {"required": {"type": "integer"}},
            "required": ["required"],
        },
        {"type": "strange"},
        {},
    ]
)
CJSON_TOOLS = objects(
    {"name": NAMES},
    {
        "summary": TEXT,
        "argsSchema": SCHEMAS,
        "examples": st.lists(st.dictionaries(TEXT, VALUES, max_size=2), max_size=2),
        "extensions": st.dictionaries(TEXT, VALUES, max_size=2),
        **FLAGS,
    },
)
SERVERS = st.one_of(
    objects(
        {"command": NAMES},
        {
            "args": st.lists(TEXT, max_size=3),
            "env": st.dictionaries(st.just("LANG"), TEXT),
            "cwd": TEXT,
        },
    ),
    objects({"url": URLS}, {"transport": st.sampled_from(["http", "sse", "other"])}),
    st.dictionaries(TEXT, VALUES, max_size=3),
)
CJSON_TOOLSETS = objects(
    {"id": NAMES, "kind": st.sampled_from(["builtin", "mcp", "uri"])},
    {
        "version": TEXT,
        "server": SERVERS,
        "headers": st.dictionaries(st.sampled_from(["Accept", "X-Client"]), TEXT, max_size=2),
        "extensions": st.dictionaries(TEXT, VALUES, max_size=2),
        "toolsetDefaults": objects({}, FLAGS),
        "tools": unique(CJSON_TOOLS, "name"),
    },
)
CJSON = objects(
    {
        "schema": st.just(
            "https://schema.cjson.dev/0/toolsets/cjson-toolsets-0.1.0-SNAPSHOT.schema.json"
        )
    },
    {"mediaType": TEXT, "toolsets": unique(CJSON_TOOLSETS, "id")},
)


def properties(depth: int) -> st.SearchStrategy[dict[str, Any]]:
    optional: dict[str, Any] = {
        "description": TEXT,
        "required": st.booleans(),
        "enum": st.just(["a"]),
    }
    if depth:
        optional["properties"] = properties(depth - 1)
        optional["items"] = objects({"type": st.just("string")}, {"required": st.booleans()})
    item = objects({"type": st.sampled_from(["string", "object"])}, optional)
    return st.dictionaries(st.sampled_from(["id", "body", "required", "q", "ü"]), item, max_size=3)


ACTIONS = objects(
    {
        "name": NAMES,
        "api": objects(
            {"url": URLS, "method": st.sampled_from(["GET", "POST", "put", "DELETE"])},
            {
                "headers": st.dictionaries(
                    st.sampled_from(["Accept", "X-Key"]),
                    st.sampled_from(["<KEY>", "a$b", "$args.x"]),
                )
            },
        ),
    },
    {
        "description": TEXT,
        "displayName": NAMES,
        "parameters": objects({"type": st.just("object")}, {"properties": properties(2)}),
    },
)
COGNIPEER = objects({"name": NAMES, "label": NAMES, "actions": unique(ACTIONS, "name")}, {})


@pytest.mark.parametrize(("source", "path"), EVERY, ids=lambda one: getattr(one, "name", str(one)))
def test_each_document_comes_back_as_it_was(source: Format, path: Path) -> None:
    laws.check_identity(path.read_bytes(), source, path.name)
    laws.check_all_targets(path.read_bytes(), source, path.name)


@given(CJSON)
def test_cjson_comes_back_as_it_was(document: Any) -> None:
    laws.check_identity(laws.as_json(document), cjson.FORMAT)


@given(COGNIPEER)
def test_cognipeer_comes_back_as_it_was(document: Any) -> None:
    laws.check_identity(laws.as_json(document), cognipeer.FORMAT)


@given(st.one_of(CJSON, COGNIPEER))
def test_every_value_is_consumed_carried_or_lost(document: Any) -> None:
    source = cjson.FORMAT if "schema" in document else cognipeer.FORMAT
    laws.check_all_targets(laws.as_json(document), source)


def test_the_example_of_cognipeer_comes_back_as_it_was() -> None:
    path = REAL / "cognipeer" / "ExampleTool.json"
    if not path.exists():
        pytest.skip("the document is not on this machine")
    laws.check_identity(path.read_bytes(), cognipeer.FORMAT)


@given(st.one_of(CJSON, COGNIPEER))
def test_written_cjson_matches_its_published_schema(document: Any) -> None:
    path = REAL / "cjson" / "cjson-toolsets-0.1.0-SNAPSHOT.schema.json"
    if not path.exists():
        pytest.skip("the schema is not on this machine")
    published = json.loads(path.read_text(encoding="utf-8"))
    source = cjson.FORMAT if "schema" in document else cognipeer.FORMAT
    (text,) = laws.converted(laws.as_json(document), source, cjson.FORMAT).files.values()

    assert json_schema.value_problems(published, json.loads(text)) == []
