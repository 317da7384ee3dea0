"""Rows of toolsets: those of the last valid manifest, the problems of now, and every change noticed."""

import json
import os
import shutil
from pathlib import Path

import pytest

from covalt_git.json_values import JsonObject
from covalt_git.toolsets.builtin_tools import BUILTINS
from covalt_git.toolsets.new_project import SAMPLES
from covalt_git.toolsets.toolset import read_toolset
from tests.examples import rest
from tests.index.rows import open_index, synced
from tests.toolsets.projects import HEAD, HELLO, MANIFEST, put, put_hello

UNKNOWN_KEY = MANIFEST + "colour: red\n"


def list_toolsets(root: Path) -> list[JsonObject]:
    with open_index(root) as index:
        index.sync_toolsets()
        return index.toolsets()


# Valid and broken toolsets


@pytest.mark.parametrize(
    "broken",
    [
        "tools: [",
        rest(""),
        UNKNOWN_KEY,
        rest(MANIFEST.replace("tools.hello", "tools.gone")),
        rest(MANIFEST.replace("id: hello", "id: other")),
    ],
    ids=["no-yaml", "empty", "unknown-key", "no-module", "another-id"],
)
def test_a_broken_toolset_keeps_its_last_valid_rows(root: Path, broken: str) -> None:
    shutil.copytree(HELLO, root / "toolsets" / "hello")
    before = synced(root)
    put(root, "hello/toolset.yaml", broken)

    after = synced(root)

    readings = {row[0]: row for row in after.pop("toolset_readings")}
    del before["toolset_readings"]
    assert json.loads(readings["hello"][3])
    assert {name: row[2] for name, row in readings.items()} == {
        **dict.fromkeys(SAMPLES, 1),
        "hello": 0,
    }
    assert after == before


# Tools, files, overrides, servers


def test_tools_are_the_effective_tools_in_order_of_their_ids(root: Path) -> None:
    put_hello(root, UNKNOWN_KEY)
    with open_index(root) as index:
        index.sync_toolsets()
        tools = index.tools()
        rows = {row["id"]: row for row in index.toolsets()}

        wanted = [tool for name in SAMPLES for tool in read_toolset(root, name).tools]
        wanted += BUILTINS.values()
        assert tools == sorted(wanted, key=lambda tool: tool.tool_id)
        assert [index.tool(tool.tool_id) for tool in tools] == tools
        assert index.tool("hello:nothing") is None
        assert [index.toolset_row(name) for name in rows] == list(rows.values())
        assert index.toolset_row("nothing") is None
        for name in rows:
            assert index.tools(name) == [one for one in tools if one.toolset_id == name]
            assert index.problems(name) == list(read_toolset(root, name).problems)
    assert list(rows) == ["app-builder", "data-lab", "hello", "text-kit"]
    assert (rows["hello"]["errors"], rows["hello"]["warnings"], rows["hello"]["tools"]) == (1, 0, 0)
    assert (rows["data-lab"]["errors"], rows["data-lab"]["tools"]) == (0, 4)


def test_servers_are_listed_and_their_references_are_not_resolved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "s3cret")
    put_hello(
        tmp_path,
        f"{HEAD}\nmcp_servers:\n"
        "- {id: web, command: npx, args: [-y, web], env: {K: '${API_KEY}'}, cwd: .}\n"
        "- {id: far, url: 'https://a.b/', transport: sse, headers: {X: '${API_KEY}'}, enabled: false,"
        " requires_confirmation: false}\n",
    )

    with open_index(tmp_path) as index:
        index.sync_toolsets()
        far, web = index.mcp_servers()
    assert (far["server_type"], far["enabled"], far["url"]) == ("sse", False, "https://a.b/")
    assert (far["headers"], far["requires_confirmation"]) == ({"X": "${API_KEY}"}, False)
    assert (web["server_type"], web["enabled"], web["cwd"]) == ("stdio", True, ".")
    assert (web["command"], web["args"]) == ("npx", ["-y", "web"])
    assert (web["env"], web["requires_confirmation"]) == ({"K": "${API_KEY}"}, True)
    assert b"s3cret" not in (tmp_path / "data" / "index.db").read_bytes()


@pytest.mark.requirement("covalt-1.1.enabled", "covalt-1.5.enabled")
def test_disabling_a_toolset_disables_its_tools_and_servers(root: Path) -> None:
    put_hello(root, f"{MANIFEST}mcp_servers: [{{id: web, command: npx}}]\n")
    synced(root)
    put(root, "state/hello.yaml", "enabled: false\n")

    after = synced(root)

    enabled = {row[0]: row[4] for row in after["toolsets"]}
    assert enabled == {**dict.fromkeys(SAMPLES, 1), "hello": 0}
    assert {row[6] for row in after["tools"] if row[1] == "hello"} == {0}
    with open_index(root) as index:
        assert [(row["id"], row["enabled"]) for row in index.mcp_servers()] == [("web", False)]


# Changes


def test_changes_of_the_same_size_within_one_clock_tick_are_noticed(tmp_path: Path) -> None:
    toolset = put_hello(tmp_path)
    (toolset / "assets").mkdir()
    list_toolsets(tmp_path)
    status = (toolset / "toolset.yaml").stat()

    for number in range(8):
        put(tmp_path, "hello/toolset.yaml", MANIFEST.replace("name: Hello", f"name: H{number}"))
        os.utime(toolset / "toolset.yaml", ns=(status.st_atime_ns, status.st_mtime_ns))
        file = toolset / f"assets/{number % 3}.txt"
        file.unlink() if file.exists() else file.write_text("")
        with open_index(tmp_path) as index:
            index.sync_toolsets()
            assert [row["name"] for row in index.toolsets()] == [f"H{number}"]
            paths = {row["path"] for row in index.toolset_files("hello")}
        assert (f"assets/{number % 3}.txt" in paths) == file.exists()
