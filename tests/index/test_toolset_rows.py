"""Rows of toolsets: those of the last valid manifest, the problems of now, and every change noticed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.index.toolset_signatures import is_unchanged, signature_of
from covalt_git.toolsets.new_project import SAMPLES
from covalt_git.toolsets.state_store import set_enabled
from covalt_git.toolsets.toolset import read_toolset
from tests.index.rows import open_index, synced
from tests.toolsets.projects import HEAD, HELLO, MANIFEST, put_hello

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.json_values import JsonObject

UNKNOWN_KEY = MANIFEST + "colour: red\n"


def list_toolsets(root: Path) -> list[JsonObject]:
    with open_index(root) as index:
        index.sync_toolsets()
        return index.toolsets()


def put_manifest(root: Path, text: str) -> None:
    (root / "toolsets" / "hello" / "toolset.yaml").write_text(text)


def put_state(root: Path, text: str, toolset_id: str = "hello") -> None:
    (root / "toolsets" / "state").mkdir(exist_ok=True)
    (root / "toolsets" / "state" / f"{toolset_id}.yaml").write_text(text)


# Valid and broken toolsets


@pytest.mark.parametrize(
    "broken",
    [
        "tools: [",
        "",
        UNKNOWN_KEY,
        MANIFEST.replace("tools.hello", "tools.gone"),
        MANIFEST.replace("id: hello", "id: other"),
    ],
    ids=["no-yaml", "empty", "unknown-key", "no-module", "another-id"],
)
def test_a_broken_toolset_keeps_its_last_valid_rows(root: Path, broken: str) -> None:
    shutil.copytree(HELLO, root / "toolsets" / "hello")
    before = synced(root)
    put_manifest(root, broken)

    after = synced(root)

    readings = {row[0]: row for row in after.pop("toolset_readings")}
    del before["toolset_readings"]
    assert json.loads(readings["hello"][3])
    assert {name: row[2] for name, row in readings.items()} == {
        **dict.fromkeys(SAMPLES, 1),
        "hello": 0,
    }
    assert after == before


@pytest.mark.parametrize("before", [MANIFEST, ""], ids=["valid-before", "never-valid"])
def test_a_broken_toolset_is_listed_as_its_state_file_says(tmp_path: Path, before: str) -> None:
    put_hello(tmp_path, before)
    list_toolsets(tmp_path)
    put_manifest(tmp_path, "")

    assert [row["enabled"] for row in list_toolsets(tmp_path)] == [1]
    set_enabled(tmp_path, "hello", enabled=False)
    assert [row["enabled"] for row in list_toolsets(tmp_path)] == [0]


def test_problems_are_listed_until_they_are_fixed(tmp_path: Path) -> None:
    put_hello(tmp_path, MANIFEST)
    renamed = MANIFEST.replace("id: greet", "id: greet\n    name: Wave")

    with open_index(tmp_path) as index:
        seen = []
        for text in (MANIFEST, UNKNOWN_KEY, renamed):
            put_manifest(tmp_path, text)
            index.sync()
            assert index.problems() == list(read_toolset(tmp_path, "hello").problems)
            (row,) = index.toolsets()
            tool = index.tool("hello:greet")
            seen.append((row["sound"], row["tools"], tool and tool.name))

    assert seen == [(True, 1, "Greet"), (False, 1, "Greet"), (True, 1, "Wave")]


def test_tool_names_of_a_broken_toolset_are_those_of_its_manifest_now(root: Path) -> None:
    put_hello(root)
    renamed = MANIFEST.replace("id: greet", "id: wave")
    with open_index(root) as index:
        names = []
        for text in (MANIFEST, renamed + "colour: red\n", renamed.replace("tools.hello", "gone")):
            put_manifest(root, text)
            index.sync_toolsets()
            names.append(index.toolset_tools()["hello"])

        assert names == [["hello:greet"], None, ["hello:wave"]]
        assert [tool.tool_id for tool in index.tools("hello")] == ["hello:greet"]
        assert list(index.toolset_tools()) == ["app-builder", "data-lab", "hello", "text-kit"]


# Tools, files, overrides, servers


def test_tools_are_the_effective_tools_in_order_of_their_ids(root: Path) -> None:
    put_hello(root, UNKNOWN_KEY)
    with open_index(root) as index:
        index.sync_toolsets()
        tools = index.tools()
        rows = {row["id"]: row for row in index.toolsets()}

        wanted = [tool for name in SAMPLES for tool in read_toolset(root, name).tools]
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


def test_files_are_listed_with_their_paths_in_the_project(root: Path) -> None:
    with open_index(root) as index:
        index.sync_toolsets()
        files = index.toolset_files("app-builder")

    assert [file["path"] for file in files] == ["tools/files.py", "tools/shell.py", "toolset.yaml"]
    for file in files:
        assert file["stored_path"] == f"toolsets/app-builder/{file['path']}"
        assert (root / file["stored_path"]).stat().st_size == file["size"]


def overrides(root: Path) -> dict[str, dict[str, Any]]:
    names = (
        *("id", "toolset_id", "tool_id", "renderer", "renderer_config", "name_override"),
        *("description_override", "requires_confirmation", "enabled"),
    )
    found = [dict(zip(names, row, strict=True)) for row in synced(root)["tool_overrides"]]
    return {
        row["id"]: {key: value for key, value in row.items() if value is not None} for row in found
    }


def test_an_override_has_a_stable_id_and_its_own_renderer(tmp_path: Path) -> None:
    shown = f"{MANIFEST}    renderer: {{type: code, file: $args.name}}\n"
    servers = "mcp_servers: [{id: web, command: npx}]\n"
    put_hello(
        tmp_path,
        f"{shown}{servers}tool_overrides:\n"
        "- {tool_id: 'hello:greet', name_override: Hi}\n- {tool_id: 'web:find', enabled: false}\n",
    )
    put_state(tmp_path, "overrides: {greet: {requires_confirmation: true}}\n")
    greet = {
        "id": "hello/greet",
        "toolset_id": "hello",
        "tool_id": "hello:greet",
        "requires_confirmation": 1,
    }
    code = {"renderer": "code", "renderer_config": '{"file":"$args.name"}', "name_override": "Hi"}
    web = {"id": "hello/web:find", "toolset_id": "hello", "tool_id": "web:find", "enabled": 0}

    assert overrides(tmp_path) == {"hello/greet": greet | code, "hello/web:find": web}
    put_manifest(tmp_path, f"{shown}tool_overrides: [{{tool_id: greet, renderer: document}}]\n")
    assert overrides(tmp_path)["hello/greet"] == greet | {"renderer": "document"}


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

    far, web = synced(tmp_path)["toolset_mcp_servers"]
    assert far[:5] == ("far", "hello", "sse", 0, None)
    assert far[5:] == ("[]", None, "https://a.b/", '{"X":"${API_KEY}"}', "{}", 0, None)
    assert web[:5] == ("web", "hello", "stdio", 1, "npx")
    assert web[5:] == ('["-y","web"]', ".", None, "{}", '{"K":"${API_KEY}"}', 1, None)
    with open_index(tmp_path) as index:
        one, two = index.mcp_servers("hello")
        assert (index.mcp_servers(), index.mcp_servers("other")) == ([one, two], [])
    assert (one["id"], one["enabled"], one["headers"]) == ("far", False, {"X": "${API_KEY}"})
    assert (two["id"], two["enabled"], two["args"]) == ("web", True, ["-y", "web"])
    assert b"s3cret" not in (tmp_path / "data" / "index.db").read_bytes()


def test_disabling_a_toolset_disables_its_tools_and_servers(root: Path) -> None:
    put_hello(root, f"{MANIFEST}mcp_servers: [{{id: web, command: npx}}]\n")
    synced(root)
    put_state(root, "enabled: false\n")

    after = synced(root)

    enabled = {row[0]: row[4] for row in after["toolsets"]}
    assert enabled == {**dict.fromkeys(SAMPLES, 1), "hello": 0}
    assert {row[6] for row in after["tools"] if row[1] == "hello"} == {0}
    with open_index(root) as index:
        assert [(row["id"], row["enabled"]) for row in index.mcp_servers()] == [("web", False)]


def test_a_deleted_toolset_leaves_no_row(root: Path) -> None:
    synced(root)
    shutil.rmtree(root / "toolsets" / "data-lab")

    assert not any("data-lab" in row for rows in synced(root).values() for row in rows)


# Changes


def test_changes_of_the_same_size_within_one_clock_tick_are_noticed(tmp_path: Path) -> None:
    toolset = put_hello(tmp_path)
    (toolset / "assets").mkdir()
    list_toolsets(tmp_path)
    status = (toolset / "toolset.yaml").stat()

    for number in range(8):
        put_manifest(tmp_path, MANIFEST.replace("name: Hello", f"name: H{number}"))
        os.utime(toolset / "toolset.yaml", ns=(status.st_atime_ns, status.st_mtime_ns))
        file = toolset / f"assets/{number % 3}.txt"
        file.unlink() if file.exists() else file.write_text("")
        with open_index(tmp_path) as index:
            index.sync_toolsets()
            assert [row["name"] for row in index.toolsets()] == [f"H{number}"]
            paths = {row["path"] for row in index.toolset_files("hello")}
        assert (f"assets/{number % 3}.txt" in paths) == file.exists()


def swap_names(toolset: Path) -> None:
    """Let two files of equal size and time exchange their names."""
    (toolset / "a.txt").rename(toolset / "c.txt")
    (toolset / "b.txt").rename(toolset / "a.txt")
    (toolset / "c.txt").rename(toolset / "b.txt")


CHANGES: dict[str, Callable[[Path], object]] = {
    "new-file": lambda toolset: (toolset / "new.txt").write_text("1"),
    "new-file-in-a-folder": lambda toolset: (toolset / "deep/er/new.txt").write_text("1"),
    "deleted-folder": lambda toolset: (toolset / "deep/er").rmdir(),
    "renamed-folder": lambda toolset: (toolset / "deep").rename(toolset / "other"),
    "mode": lambda toolset: (toolset / "a.txt").chmod(0o755),
    "moved-file": lambda toolset: (toolset / "a.txt").rename(toolset / "deep/a"),
    "link": lambda toolset: (toolset / "deep/er/x").symlink_to("/"),
    "swapped-names": swap_names,
    "state-file": lambda toolset: put_state(toolset.parent.parent, "enabled: false\n"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_of_a_toolset_changes_its_signature(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    toolset = put_hello(tmp_path)
    (toolset / "deep" / "er").mkdir(parents=True)
    for name in ("a.txt", "b.txt"):
        (toolset / name).write_text(name)
        os.utime(toolset / name, ns=(0, 0))
    cache = toolset / "tools" / "__pycache__"
    cache.mkdir()
    folder = os.open(toolset.parent, os.O_RDONLY)
    try:
        before = signature_of(toolset.parent, "hello")
        (cache / "hello.cpython-311.pyc").write_bytes(b"1")
        assert is_unchanged(folder, before)  # Python's cache is not part of a toolset
        change(toolset)
        assert not is_unchanged(folder, before)
        assert is_unchanged(folder, signature_of(toolset.parent, "hello"))
    finally:
        os.close(folder)


def make_the_state_a_pipe(toolset: Path) -> None:
    (toolset.parent / "state").mkdir()
    os.mkfifo(toolset.parent / "state" / "hello.yaml")


INVALID: dict[str, Callable[[Path], object]] = {
    "linked-folder": lambda toolset: (toolset / "link").symlink_to("tools"),
    "git-folder": lambda toolset: (toolset / ".git").mkdir(),
    "pipe": lambda toolset: os.mkfifo(toolset / "pipe"),
    "removed": lambda toolset: (toolset / "tools" / "hello.py").unlink(),
    "moved": lambda toolset: (toolset / "tools").rename(toolset / "lib"),
    "state-folder": lambda toolset: (toolset.parent / "state" / "hello.yaml").mkdir(parents=True),
    "state-pipe": make_the_state_a_pipe,
}


@pytest.mark.parametrize("change", INVALID.values(), ids=INVALID)
def test_a_path_that_is_not_a_regular_file_breaks_the_toolset(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    toolset = put_hello(tmp_path)
    assert list_toolsets(tmp_path)[0]["sound"]

    change(toolset)

    assert [row["sound"] for row in list_toolsets(tmp_path)] == [False]
    with open_index(tmp_path) as index:
        assert index.problems() == list(read_toolset(tmp_path, "hello").problems)


def test_names_that_are_not_utf_8_do_not_stop_the_index(tmp_path: Path) -> None:
    toolset = put_hello(tmp_path)
    try:
        os.mkdir(os.fsencode(toolset) + b"/caf\xe9")  # noqa: PTH102 - a name in bytes
    except OSError:
        pytest.skip("the file system has UTF-8 names only")
    os.mkdir(os.fsencode(toolset.parent) + b"/caf\xe9")  # noqa: PTH102 - a name in bytes

    assert [(row["id"], row["sound"]) for row in list_toolsets(tmp_path)] == [("hello", False)]
