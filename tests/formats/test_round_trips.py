from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from covalt_git.formats import cjson, cognipeer, conversion, documents
from covalt_git.formats.mcp_clients import mcp_configs
from covalt_git.formats.model import Format
from covalt_git.formats.table import FORMATS
from covalt_git.formats.toolset_yaml import FORMAT as TOOLSET
from covalt_git.formats.toolset_yaml import folder_document
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
KEYWORDS: dict[str, Any] = {
    "type": st.sampled_from(["string", "integer", "object", ["string", "null"]]),
    "description": TEXT,
    "enum": st.sampled_from([["a"], [1], ["", "b"]]),
    "format": st.sampled_from(["date", "date-time"]),
    "const": st.just("a"),
    "minimum": st.integers(0, 9),
    "exclusiveMinimum": st.integers(0, 9),
    "default": VALUES,
    "$ref": st.sampled_from(["#/$defs/a", "#/properties/b", "#", "#/nothing"]),
}
INNER = st.recursive(
    st.fixed_dictionaries({}, optional=KEYWORDS),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
            "items": inner | st.booleans(),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "additionalProperties": inner | st.booleans(),
        },
    ),
    max_leaves=6,
)
INPUT_SCHEMAS = st.tuples(INNER, INNER).map(lambda pair: {**pair[0], "$defs": {"a": pair[1]}})
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


def as_tools() -> st.SearchStrategy[Any]:
    """Results of ``tools/list``."""
    hints = objects({}, {"readOnlyHint": st.booleans(), "destructiveHint": st.booleans()})
    optional = {"title": TEXT, "description": TEXT, "annotations": hints, "outputSchema": SCHEMAS}
    tool = objects({"name": NAMES, "inputSchema": INPUT_SCHEMAS}, optional)
    return objects({"tools": unique(tool, "name")}, {})


@given(as_tools())
def test_definitions_come_back_as_they_were(document: Any) -> None:
    laws.check_identity(laws.as_json(document), conversion.find_format("mcp-tools"))


VARIABLES = st.sampled_from(
    [
        "${TOKEN}",
        "Bearer ${env:A_B}",
        "${input:my-key}",
        "{env:K}",
        "$KEY",
        "5$",
        "${",
        "${A:-b}",
        "x",
    ]
)
HOSTS = {host.name: host for host in mcp_configs.HOSTS}


@st.composite
def host_configs(draw: st.DrawFn, host: mcp_configs.Host) -> Any:
    texts = VARIABLES | TEXT
    named = st.dictionaries(st.sampled_from(["Accept", "LANG", "A-b"]), texts, max_size=2)
    common: dict[str, Any] = {host.off[0]: st.booleans()} if host.off else {}
    common |= {"type": st.sampled_from([*host.types, "other"])} if host.types else {}
    if host.env_names:
        common |= {host.env_names[0]: st.just(["HOME", "TZ"]), host.env_names[1]: st.just("TOKEN")}
    command = st.lists(texts, min_size=1, max_size=3) if host.lists_command else texts
    started = objects(
        {"command": command},
        {"args": st.lists(texts, max_size=3), host.env: named, "cwd": texts, **common},
    )
    far = [objects({key: URLS}, {host.headers: named, **common}) for key in host.urls]
    servers = draw(st.dictionaries(NAMES, st.one_of(started, *far), max_size=3))
    value: Any = servers
    for key in reversed(host.path):
        value = {**draw(unknown({key: None})), key: value}
    return value


@pytest.mark.parametrize("name", HOSTS)
@given(data=st.data())
def test_a_config_of_a_host_comes_back_as_it_was(name: str, data: st.DataObject) -> None:
    host = HOSTS[name]
    source = conversion.find_format(name)
    value = data.draw(host_configs(host))
    if host.kind == "toml":
        assume(not has_null(value))
        text = documents.toml_text(value)
        assert tomllib.loads(text) == value
        laws.check_identity(text.encode(), source, "config.toml")
    else:
        laws.check_identity(laws.as_json(value), source)


def has_null(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(has_null, value.values() if isinstance(value, dict) else value))
    return value is None


@pytest.mark.parametrize(("source", "path"), EVERY, ids=lambda one: getattr(one, "name", str(one)))
def test_each_document_comes_back_as_it_was(source: Format, path: Path) -> None:
    laws.check_identity(path.read_bytes(), source, path.name)
    laws.check_all_targets(path.read_bytes(), source, path.name)


READ_ONLY = [one for one in FORMATS if one.read and not one.write]


@pytest.mark.parametrize("source", READ_ONLY, ids=lambda one: one.name)
def test_documents_that_are_only_read_make_valid_toolsets(source: Format) -> None:
    for path in laws.documents_of(source.name):
        laws.check_all_targets(path.read_bytes(), source, path.name)
        stored = laws.converted(path.read_bytes(), source, TOOLSET, path.name)
        folder = folder_document("t", stored.files)
        again = conversion.convert(folder, TOOLSET, TOOLSET)

        assert again.files == stored.files
        assert again.lost == ()
        assert stored.lost
        assert len(stored.consumed) > 5


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


REAL_DOCUMENTS = [
    ("cognipeer", "cognipeer/ExampleTool.json", 1),
    ("mcp-tools", "mcp/tools-list/*.json", 4),
    ("mcp-tools", "mcp/conformance/fixture.tools.json", 1),
    ("claude-plugin", "manifests/claude-plugins/*.mcp.json", 4),
    ("mcpb", "manifests/mcpb/*.manifest.json", 2),
    ("claude-code", "manifests/claude-plugins/*fakechat.mcp.json", 1),
]


@pytest.mark.parametrize(("name", "pattern", "least"), REAL_DOCUMENTS)
def test_real_documents_come_back_as_they_were(name: str, pattern: str, least: int) -> None:
    skipped = ("prompts", "resources", "fakechat" if name == "claude-plugin" else "plugin.json")
    paths = [
        one for one in sorted(REAL.glob(pattern)) if not any(word in one.name for word in skipped)
    ]
    if not paths:
        pytest.skip("the documents are not on this machine")
    for path in paths:
        laws.check_identity(path.read_bytes(), conversion.find_format(name), path.name)
        laws.check_all_targets(path.read_bytes(), conversion.find_format(name), path.name)
    assert len(paths) >= least


def test_tools_of_databases_are_reported() -> None:
    source = conversion.find_format("genai-toolbox")
    for path in REAL.glob("manifests/genai-toolbox/*.tools.yaml"):
        done = laws.reading(path.read_bytes(), source, path.name)
        tools = done.document.value["tools"]

        assert {loc[1] for loc in done.imported.lost if loc[0] == "tools"} == tools.keys()


@given(st.one_of(CJSON, COGNIPEER))
def test_written_cjson_matches_its_published_schema(document: Any) -> None:
    path = REAL / "cjson" / "cjson-toolsets-0.1.0-SNAPSHOT.schema.json"
    if not path.exists():
        pytest.skip("the schema is not on this machine")
    published = json.loads(path.read_text(encoding="utf-8"))
    source = cjson.FORMAT if "schema" in document else cognipeer.FORMAT
    (text,) = laws.converted(laws.as_json(document), source, cjson.FORMAT).files.values()

    assert json_schema.value_problems(published, json.loads(text)) == []
