"""Schemas that ``toolset.schemas.yaml`` stores, which count as declared."""

from pathlib import Path

import pytest

from covalt_git.authority.snapshots import read_files
from covalt_git.checks.stored_schemas import sources_digest
from covalt_git.errors import CovaltError
from covalt_git.json_values import JsonObject
from covalt_git.manifests.stored_schemas import SCHEMAS, write_stored_schemas
from covalt_git.models.stored_schemas import StoredSchema
from covalt_git.models.tool import Tool
from covalt_git.toolsets.toolset import read_toolset
from tests.toolsets.projects import put_hello

MANIFEST = """\
id: hello
name: Hello
version: "1"
tools:
  - {id: greet, entrypoint: "hello:greet"}
  - id: declared
    entrypoint: "hello:greet"
    input_schema: {type: object, properties: {name: {type: string}, loud: {type: boolean}}}
"""
STORED = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 9}}}
RESULT = {"type": "object", "properties": {"text": {"type": "string"}}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = put_hello(tmp_path, MANIFEST)
    entry = current(found, input_schema=STORED, output_schema=RESULT)
    write_stored_schemas(found, {"greet": entry, "declared": entry})
    return found


def current(folder: Path, **schemas: JsonObject) -> StoredSchema:
    """Return an entry that was made from the source texts that the toolset has now."""
    toolset = read_toolset(folder.parents[1], "hello")
    digest = sources_digest(toolset.sources["greet"], toolset.files)
    return StoredSchema(sources_digest=digest, **schemas)


def tool_of(folder: Path, name: str) -> Tool:
    tool = read_toolset(folder.parents[1], "hello").tool(f"hello:{name}")
    assert tool is not None
    return tool


def test_a_stored_schema_counts_as_declared(folder: Path) -> None:
    tool = tool_of(folder, "greet")

    assert (tool.input_schema, tool.output_schema) == (STORED, RESULT)
    assert tool.schema_is_declared
    assert tool.function_schema is not None
    assert "loud" in tool.function_schema["properties"]


def test_a_stored_schema_of_other_source_texts_is_not_used(folder: Path) -> None:
    source = folder / "tools/hello.py"
    source.write_text(source.read_text() + "\n# changed\n")

    tool = tool_of(folder, "greet")

    assert not tool.schema_is_declared
    assert "loud" in tool.input_schema["properties"]
    assert tool.output_schema != RESULT
    codes = [one.code for one in read_toolset(folder.parents[1], "hello").problems]
    assert codes.count("CG321") == 2


def test_the_manifest_has_precedence(folder: Path) -> None:
    tool = tool_of(folder, "declared")

    assert list(tool.input_schema["properties"]) == ["name", "loud"]
    assert tool.output_schema == RESULT


def test_the_file_is_part_of_the_digest(folder: Path) -> None:
    before = tool_of(folder, "greet").toolset_digest

    write_stored_schemas(folder, {})

    assert not (folder / SCHEMAS).exists()
    assert tool_of(folder, "greet").toolset_digest != before
    assert not tool_of(folder, "greet").schema_is_declared


def test_the_first_line_says_how_the_file_is_made(folder: Path) -> None:
    first = (folder / SCHEMAS).read_text(encoding="utf-8").partition("\n")[0]

    assert first.startswith("# ")
    assert "covalt-git tool describe" in first
    assert "Do not edit" in first


def test_arguments_keep_their_order(folder: Path) -> None:
    properties = {"zeta": {"type": "string"}, "alpha": {"type": "string"}}
    schema = {"type": "object", "properties": properties, "required": ["zeta", "alpha"]}
    write_stored_schemas(folder, {"greet": current(folder, input_schema=schema)})

    assert list(tool_of(folder, "greet").input_schema["properties"]) == ["zeta", "alpha"]


def test_a_schema_that_yaml_cannot_represent_is_not_written(folder: Path) -> None:
    before = (folder / SCHEMAS).read_bytes()
    schema = {"type": "object", "description": "\ud800"}

    with pytest.raises(CovaltError):
        write_stored_schemas(folder, {"greet": current(folder, input_schema=schema)})

    assert (folder / SCHEMAS).read_bytes() == before


def test_a_broken_file_makes_the_toolset_unsound(folder: Path) -> None:
    (folder / SCHEMAS).write_text("version: 1\ntools: [", encoding="utf-8")

    toolset = read_toolset(folder.parents[1], "hello")

    assert not toolset.sound
    assert not toolset.tools[0].schema_is_declared


def test_an_argument_of_the_stored_schema_only_is_reported_in_its_file(folder: Path) -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string"}, "size": {}}}
    write_stored_schemas(folder, {"greet": current(folder, input_schema=schema)})

    problems = read_toolset(folder.parents[1], "hello").problems

    places = [one.path for one in problems if one.code == "CG303"]
    assert places == ["toolsets/hello/toolset.schemas.yaml"]


def test_authority_diff_names_the_place_of_a_stored_schema(folder: Path) -> None:
    parts = read_files(folder.parents[1]).parts(None).values()
    facts = [fact for part in parts for fact in part.facts]

    places = {fact.subject: fact.place for fact in facts if fact.kind == "schema"}
    stored, declared = places["hello:greet"], places["hello:declared"]

    assert (stored.path, stored.line) == ("toolsets/hello/toolset.schemas.yaml", 20)
    assert (declared.path, declared.line) == ("toolsets/hello/toolset.yaml", 8)
