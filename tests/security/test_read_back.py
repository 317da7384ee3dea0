"""Every file that covalt-git writes is read back by the same rules, whatever characters its texts have."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from covalt_git.errors import CovaltError
from covalt_git.formats import conversion, documents, recognition
from covalt_git.formats.table import TOOLSET
from covalt_git.json_values.canonical_json import NotJsonError
from covalt_git.manifests.state_files import read_lock, read_state, write_lock, write_state
from covalt_git.models.sources.tool_lock import ToolLock, locked_tool
from covalt_git.models.toolset_state import LocalOverride, ToolsetState
from covalt_git.toolsets.toolset import read_toolset
from tests.examples import examples
from tests.unicode_texts import TEXTS, VALUES

QUIET = [HealthCheck.function_scoped_fixture]


@settings(max_examples=examples(300), deadline=None, suppress_health_check=QUIET)
@given(TEXTS, VALUES)
def test_a_state_is_read_back_or_not_written(tmp_path: Path, text: str, value: Any) -> None:
    file = tmp_path / "state.yaml"
    file.write_text("enabled: true\n", encoding="utf-8")
    try:
        override = LocalOverride(name_override=text, renderer="html", renderer_config={text: value})
        state = ToolsetState(source_type="url", source_ref=text, overrides={"x": override})
    except ValidationError:
        return
    try:
        write_state(file, state)
    except (CovaltError, NotJsonError):
        state = ToolsetState(enabled=True)  # as before
    reading = read_state(file, "state.yaml")
    assert (reading.value, reading.problems) == (state, ())


@settings(max_examples=examples(300), deadline=None, suppress_health_check=QUIET)
@given(TEXTS, TEXTS, VALUES)
def test_a_lock_is_read_back(tmp_path: Path, name: str, text: str, value: Any) -> None:
    schema = {"type": "object", "properties": {text: {"description": text, "default": value}}}
    definition = {"name": name, "description": text, "inputSchema": schema, "x": value}
    try:
        tools = {"x": locked_tool(definition)}
        lock = ToolLock(namespace="n", toolset_id="t", kind="mcp", reference=text, tools=tools)
    except (CovaltError, ValidationError):
        return
    write_lock(tmp_path / "lock.yaml", lock)
    reading = read_lock(tmp_path / "lock.yaml", "lock.yaml")
    assert (reading.value, reading.problems) == (lock, ())


@pytest.mark.parametrize("character", ["\u00ad", "\u202e", "\u3164", "\U000e0041"])
def test_a_conversion_says_which_text_validate_refuses(character: str) -> None:
    servers = {"a": {"command": "c", "args": ["x", f"b{character}"]}}
    document = documents.parse(json.dumps({"mcpServers": servers}).encode(), "input.json")
    done = conversion.convert(document, recognition.find_format("claude-desktop"), TOOLSET)
    (note,) = done.notes
    assert note.pointer == "/mcp_servers/0/args/1"
    assert "validate refuses" in note.message


@settings(max_examples=examples(300), deadline=None, suppress_health_check=QUIET)
@given(TEXTS, TEXTS, VALUES, st.sampled_from(["", "v"]))
def test_a_converted_toolset_is_valid_or_its_texts_are_named(
    root: Path, text: str, name: str, value: Any, more: str
) -> None:
    server = {"command": f"c{text}", "args": [text, name], "env": {"A": text}, "x": value}
    given_document = {"mcpServers": {name + more: server}}
    try:
        document = documents.parse(json.dumps(given_document).encode(), "input.json")
        done = conversion.convert(document, recognition.find_format("claude-desktop"), TOOLSET)
    except CovaltError:
        return
    manifest = done.files["toolset.yaml"]
    toolset_id = next(
        line.removeprefix("id: ")
        for line in manifest.decode().splitlines()
        if line.startswith("id: ")
    ).strip('"')
    folder = root / "toolsets" / toolset_id
    folder.mkdir(parents=True)
    (folder / "toolset.yaml").write_bytes(manifest)
    toolset = read_toolset(root, toolset_id)
    shutil.rmtree(folder)
    errors = [one.message for one in toolset.problems if one.severity == "error"]
    noted = [one for one in done.notes if "validate refuses" in one.message]
    assert not errors or noted, (errors, manifest)
