import copy
import functools
import json
import operator
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from covalt_git.errors import CovaltError
from covalt_git.formats import conversion, documents, recognition
from covalt_git.formats.model import Format
from covalt_git.formats.table import FORMATS, TOOLSET
from covalt_git.formats.toolset_yaml import folder_document
from covalt_git.json_values import json_schema
from tests.examples import examples, one_in
from tests.formats import laws
from tests.toolsets.test_reading_touches_nothing import started, watched

CJSON = recognition.find_format("cjson")

EVERY = [
    pytest.param(one, path, marks=pytest.mark.rest if number else ())
    for one in laws.BOTH_WAYS
    for number, path in enumerate(laws.documents_of(one.name))
]
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
ODD: list[Any] = [
    None,
    True,
    5,
    "",
    [],
    {},
    ["x"],
    [{"name": "x"}],
    "${",
    "5$",
    "a/b",
    [[]],
    {"": ""},
]
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


def as_tools() -> st.SearchStrategy[Any]:
    """Results of ``tools/list``."""
    hints = st.fixed_dictionaries({}, optional={"readOnlyHint": st.booleans(), "title": TEXT})
    optional: dict[str, Any] = {
        "title": TEXT,
        "description": TEXT,
        "annotations": hints,
        "_meta": VALUES,
    }
    required: dict[str, Any] = {"name": NAMES, "inputSchema": INPUT_SCHEMAS}
    tool = st.fixed_dictionaries(required, optional=optional)
    tools = st.lists(tool, max_size=4, unique_by=lambda one: one["name"])
    return st.fixed_dictionaries({"tools": tools})


def parts(value: Any, loc: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield every part of a value with its place."""
    yield loc, value
    inner = value.items() if isinstance(value, dict) else ()
    for key, one in enumerate(value) if isinstance(value, list) else inner:
        yield from parts(one, (*loc, key))


@st.composite
def edited(draw: st.DrawFn, source: Format) -> Any:
    """A document of a format, after some edits of a fixture."""
    paths = laws.documents_of(source.name)
    known = [documents.parse(path.read_bytes(), path.name).value for path in paths]
    value = copy.deepcopy(draw(st.sampled_from(known)))
    for _ in range(draw(st.integers(0, 3))):
        if not value:
            break
        loc, part = draw(st.sampled_from([one for one in parts(value) if one[0]]))
        owner = functools.reduce(operator.getitem, loc[:-1], value)
        others = [one for each in known for at, one in parts(each) if at[-1:] == loc[-1:]]
        edit = draw(st.sampled_from(["remove", "add", "replace"]))
        if edit == "remove":
            del owner[loc[-1]]
        elif edit == "add" and isinstance(part, dict):
            owner[loc[-1]] = {draw(TEXT): draw(VALUES), **part}
        else:
            odd = TEXT if isinstance(part, str) else st.sampled_from(ODD)
            owner[loc[-1]] = copy.deepcopy(draw(st.sampled_from(others or ODD) | odd))
    return value


def content_of(value: Any, source: Format) -> bytes:
    if source.kind != "toml":
        return laws.as_json(value)
    assume(all(one is not None for _, one in parts(value)))
    text = documents.toml_text(value)
    assert tomllib.loads(text) == value
    return text.encode()


def accepted(
    check: Callable[[bytes, Format, str], None], data: st.DataObject, source: Format
) -> None:
    """Check a law on an edited document, unless it or its toolset is invalid."""
    content = content_of(data.draw(edited(source)), source)
    path = f"input.{source.kind}"
    try:
        laws.reading(content, source, path)
        check(content, source, path)
    except CovaltError as error:
        assume(not error.problems)
        raise


@pytest.mark.parametrize("source", one_in(3, laws.BOTH_WAYS), ids=lambda one: one.name)
@settings(max_examples=examples(8))
@given(data=st.data())
def test_an_edited_document_comes_back_as_it_was(source: Format, data: st.DataObject) -> None:
    accepted(laws.check_identity, data, source)


@pytest.mark.parametrize("name", ["cjson", "cognipeer", "vscode", "codex", "genai-toolbox"])
@settings(max_examples=examples(8))
@given(data=st.data())
def test_every_value_is_consumed_carried_or_lost(name: str, data: st.DataObject) -> None:
    accepted(laws.check_all_targets, data, recognition.find_format(name))


@pytest.mark.parametrize(("source", "path"), EVERY, ids=lambda one: getattr(one, "name", str(one)))
def test_each_document_comes_back_and_nothing_is_run_or_connected(
    source: Format, path: Path
) -> None:
    with watched() as events:
        laws.check_identity(path.read_bytes(), source, path.name)
        laws.check_all_targets(path.read_bytes(), source, path.name)

    assert started(events) == []


READ_ONLY = [one for one in FORMATS if one.read and not one.write]


@pytest.mark.parametrize(
    "source",
    [
        # The registry's documents are many.
        pytest.param(
            one, id=one.name, marks=pytest.mark.rest if one.name == "mcp-server-json" else ()
        )
        for one in READ_ONLY
    ],
)
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


REAL_DOCUMENTS = [
    ("cognipeer", "cognipeer/ExampleTool.json", 1),
    pytest.param("mcp-tools", "mcp/tools-list/*.json", 4, marks=pytest.mark.rest),
    pytest.param("mcp-tools", "mcp/conformance/fixture.tools.json", 1, marks=pytest.mark.rest),
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
        laws.check_identity(path.read_bytes(), recognition.find_format(name), path.name)
        laws.check_all_targets(path.read_bytes(), recognition.find_format(name), path.name)
    assert len(paths) >= least


def test_tools_of_databases_are_reported() -> None:
    source = recognition.find_format("genai-toolbox")
    for path in REAL.glob("manifests/genai-toolbox/*.tools.yaml"):
        done = laws.reading(path.read_bytes(), source, path.name)
        tools = done.document.value["tools"]

        assert {loc[1] for loc in done.imported.lost if loc[0] == "tools"} == tools.keys()


@pytest.mark.parametrize("name", ["cjson", "cognipeer"])
@settings(max_examples=examples(30))
@given(data=st.data())
def test_written_cjson_matches_its_published_schema(name: str, data: st.DataObject) -> None:
    path = REAL / "cjson" / "cjson-toolsets-0.1.0-SNAPSHOT.schema.json"
    if not path.exists():
        pytest.skip("the schema is not on this machine")
    published = json.loads(path.read_text(encoding="utf-8"))

    def check(content: bytes, source: Format, path: str) -> None:
        (text,) = laws.converted(content, source, CJSON, path).files.values()
        assert json_schema.value_problems(published, json.loads(text)) == []

    accepted(check, data, recognition.find_format(name))
