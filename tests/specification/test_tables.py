"""The tables of the specification's section 1, filled by an import, a message, an upload and three calls."""

import io
import json
import re
import sqlite3
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.api_client import Api, form_file, make_project
from tests.tables import tables

TABLES = tables(__file__)
"""Rows by requirement, which tests/specification/marks.py reads as marks of these tests."""

FILES = {
    "toolset.yaml": """\
manifest_version: "1"
id: kit
name: My Kit
version: "1.2.0"
description: Tools of a test
secrets: [MY_API_KEY]
tools:
  - id: analyze
    entrypoint: tools.analyze:run
    renderer: {type: html, artifact: artifacts/results.html, data: "$return"}
  - id: write
    entrypoint: tools.analyze:write
    name: Write Down
    description: Declared
    renderer: {type: document, file: "$args.path"}
tool_overrides:
  - tool_id: write
    renderer: code
    renderer_config: {file: "$args.path", language: auto, editable: true}
    name_override: Write It
    description_override: Writes a file
    requires_confirmation: true
    enabled: false
  - {tool_id: "search-server:search", name_override: Web Search}
mcp_servers:
  - {id: search-server, command: npx, args: [-y, my-mcp], cwd: ., env: {API_KEY: "${MY_API_KEY}"}}
  - {id: far, url: "https://far.example/mcp", transport: sse, headers: {X: "${MY_API_KEY}"}, requires_confirmation: false}
""",
    "tools/analyze.py": '''\
from covalt_toolset import tool


@tool(name="Analyze Data", description="Count the rows", requires_confirmation=True)
def run(filename: str, most: int = 3) -> dict:
    return {"rows": most}


@tool(name="Written In Python")
def write(path: str) -> dict:
    """Not this text."""
    return {"path": path}
''',
    "artifacts/results.html": "<html><head></head><body></body></html>",
    "assets/default.json": "{}",
}


class Filled(NamedTuple):
    """The index of the project, and the ids of what happened in it."""

    path: Path
    ids: dict[str, str]

    def rows(self, statement: str) -> list[sqlite3.Row]:
        with closing(sqlite3.connect(self.path)) as connection:
            connection.row_factory = sqlite3.Row
            return connection.execute(statement).fetchall()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    folder = tmp_path_factory.mktemp("filled")
    api = Api.of(make_project(folder / "project"))
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as bundle:
        for path, text in FILES.items():
            bundle.writestr(path, text)
    sent = api.send_form("import_toolset", {"file": form_file("kit.zip", archive.getvalue())})
    assert sent.status_code == 200
    for chat_id in ("another", "c1"):
        api.post("create_chat", chat_id=chat_id, title="A chat")
    assert api.upload(("notes.txt", b"one\n")).status_code == 200
    before = api.get("get_chat", chat_id="c1")["active_manifest_id"]
    message = api.post("add_message", chat_id="c1", role="user", text="hello")["message_id"]
    call = api.post(
        "call_tool",
        chat_id="c1",
        message_id=message,
        tool_id="app-builder:write_file",
        args={"path": "a.txt", "content": "hi"},
    )
    failed = api.call("app-builder:read_file", path="no.txt")
    pending = api.call("app-builder:run_command", command="ls")
    (api.workspace / "a.txt").write_text("edited", encoding="utf-8")
    api.post("save_edits", chat_id="c1")
    api.get("list_toolsets")
    chat = api.get("get_chat", chat_id="c1")
    ids = {
        "before": before,
        "message": message,
        "call": call["id"],
        "pre": call["pre_manifest_id"],
        "post": call["post_manifest_id"],
        "failed": failed["id"],
        "pending": pending["id"],
        "head": chat["active_manifest_id"],
    }
    return Filled(api.root / "data/index.db", ids)


def matches(value: object, expected: object) -> bool:
    """Return whether a value is the expected one; a text that begins with ~ is a pattern, {} is JSON."""
    if isinstance(expected, str) and expected.startswith("~"):
        return isinstance(value, str) and re.fullmatch(expected[1:], value) is not None
    if isinstance(expected, dict | list):
        return isinstance(value, str) and json.loads(value) == expected
    return value == expected


@pytest.mark.parametrize(("requirement", "cases"), TABLES["a_column_has_its_value"])
def test_a_column_has_its_value(filled: Filled, requirement: str, cases: list[Any]) -> None:
    assert cases, requirement
    for table, where, column, expected in cases:
        condition = where.format(**filled.ids)
        (row,) = filled.rows(f"SELECT {column} FROM {table} WHERE {condition}")
        wanted = expected.format(**filled.ids) if isinstance(expected, str) else expected
        assert matches(row[column], wanted), (requirement, row[column], wanted)


@pytest.mark.parametrize(("requirement", "case"), TABLES["a_column_refers_to_another_table"])
def test_a_column_refers_to_another_table(
    filled: Filled, requirement: str, case: list[str]
) -> None:
    table, column, other = case
    found = {
        (row["from"], row["table"], row["to"])
        for row in filled.rows(f"PRAGMA foreign_key_list({table})")
    }
    assert (column, other, "id") in found, requirement


@pytest.mark.parametrize(("requirement", "case"), TABLES["columns_are_unique_together"])
def test_columns_are_unique_together(
    filled: Filled, requirement: str, case: tuple[str, list[str]]
) -> None:
    table, columns = case
    keys = [
        sorted(row["name"] for row in filled.rows(f"PRAGMA index_info({index['name']})"))
        for index in filled.rows(f"PRAGMA index_list({table})")
        if index["unique"]
    ]
    assert sorted(columns) in keys, requirement


@pytest.mark.parametrize(("requirement", "case"), TABLES["other_values_are_refused"])
def test_other_values_are_refused(
    filled: Filled, requirement: str, case: tuple[str, str, list[str]]
) -> None:
    table, column, allowed = case
    (row,) = filled.rows(f"SELECT sql FROM sqlite_schema WHERE name = '{table}'")
    (values,) = re.findall(rf"{column} IN \(([^)]*)\)", row["sql"])
    assert sorted(re.findall(r"'([\w-]+)'", values)) == sorted(allowed), requirement
