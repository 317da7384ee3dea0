"""What the index keeps of toolsets: the rows of the last sound reading, and what is wrong now."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.index.toolset_signatures import is_unchanged, signature_of
from covalt_git.toolsets.new_project import SAMPLES
from covalt_git.toolsets.state_store import set_enabled
from covalt_git.toolsets.toolset import read_toolset
from tests.index.rows import anew, dump, open_index, synced
from tests.toolsets.projects import HEAD, HELLO, MANIFEST, put_hello

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.json_values import JsonObject


def rows_of(root: Path, toolset_id: str) -> dict[str, list[Any]]:
    return {
        name: [row for row in rows if toolset_id in row]
        for name, rows in synced(root).items()
        if name in {"toolsets", "tools", "toolset_files", "tool_overrides", "toolset_mcp_servers"}
    }


def list_toolsets(root: Path) -> list[JsonObject]:
    with open_index(root) as index:
        index.sync_toolsets()
        return index.toolsets()


def put_manifest(root: Path, text: str) -> None:
    (root / "toolsets" / "hello" / "toolset.yaml").write_text(text)


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param("tools: [", id="no-yaml"),
        pytest.param("", id="empty"),
        pytest.param(MANIFEST + "colour: red\n", id="unknown-key"),
        pytest.param(MANIFEST.replace("tools.hello", "tools.gone"), id="no-module"),
        pytest.param(MANIFEST.replace("id: hello", "id: other"), id="another-id"),
    ],
)
def test_a_broken_toolset_keeps_its_last_good_rows(root: Path, broken: str) -> None:
    shutil.copytree(HELLO, root / "toolsets" / "hello")
    before = synced(root)
    put_manifest(root, broken)

    after = synced(root)

    del before["toolset_readings"]
    (problems,) = [json.loads(row[3]) for row in after["toolset_readings"] if row[0] == "hello"]
    assert problems
    assert {row[0]: row[2] for row in after.pop("toolset_readings")} == {
        "app-builder": 1,
        "data-lab": 1,
        "hello": 0,
        "text-kit": 1,
    }
    assert after == before


@pytest.mark.parametrize("before", [MANIFEST, ""], ids=["sound-before", "never-sound"])
def test_a_broken_toolset_is_listed_as_on_or_off_as_it_is_now(tmp_path: Path, before: str) -> None:
    put_hello(tmp_path, before)
    list_toolsets(tmp_path)
    put_manifest(tmp_path, "")

    assert [row["enabled"] for row in list_toolsets(tmp_path)] == [1]
    set_enabled(tmp_path, "hello", enabled=False)
    assert [row["enabled"] for row in list_toolsets(tmp_path)] == [0]


def test_problems_are_listed_and_gone_when_mended(tmp_path: Path) -> None:
    put_hello(tmp_path, MANIFEST + "colour: red\n")

    with open_index(tmp_path) as index:
        index.sync()
        told = index.problems()
        assert told == list(read_toolset(tmp_path, "hello").problems)
        assert [(row["id"], row["sound"], row["name"]) for row in index.toolsets()] == [
            ("hello", False, None)
        ]
        put_manifest(tmp_path, MANIFEST)
        index.sync()

        assert index.problems() == []
        assert [(row["id"], row["sound"], row["tools"]) for row in index.toolsets()] == [
            ("hello", True, 1)
        ]


def test_a_toolset_that_is_gone_leaves_no_row(root: Path) -> None:
    synced(root)
    shutil.rmtree(root / "toolsets" / "data-lab")

    assert not any("data-lab" in row for rows in synced(root).values() for row in rows)


def test_tools_come_back_as_they_are_in_force(root: Path) -> None:
    synced(root)

    with open_index(root) as index:
        tools = index.tools()

    wanted = [tool for name in SAMPLES for tool in read_toolset(root, name).tools]
    assert tools == sorted(wanted, key=lambda tool: tool.tool_id)


def test_files_are_listed_with_their_place_in_the_project(root: Path) -> None:
    synced(root)

    with open_index(root) as index:
        files = index.toolset_files("app-builder")

    assert [file["path"] for file in files] == ["tools/files.py", "tools/shell.py", "toolset.yaml"]
    for file in files:
        assert file["stored_path"] == f"toolsets/app-builder/{file['path']}"
        assert (root / file["stored_path"]).stat().st_size == file["size"]


def test_one_toolset_is_asked_for_by_its_id(root: Path) -> None:
    put_hello(root, MANIFEST + "colour: red\n")

    with open_index(root) as index:
        index.sync_toolsets()
        rows = {row["id"]: row for row in index.toolsets()}
        assert {name: index.toolset_row(name) for name in rows} == rows
        assert index.toolset_row("nothing") is None
        for name in rows:
            assert index.tools(name) == [one for one in index.tools() if one.toolset_id == name]
            assert index.problems(name) == list(read_toolset(root, name).problems)
        for tool in index.tools():
            assert index.tool(tool.tool_id) == tool
        assert index.tool("hello:nothing") is None

    assert (rows["hello"]["errors"], rows["hello"]["warnings"], rows["hello"]["tools"]) == (1, 0, 0)
    assert (rows["data-lab"]["errors"], rows["data-lab"]["tools"]) == (0, 4)


def test_tools_of_a_broken_toolset_are_named_as_its_files_name_them_now(root: Path) -> None:
    put_hello(root)
    with open_index(root) as index:
        index.sync_toolsets()
        assert index.toolset_tools()["hello"] == ["hello:greet"]
        put_manifest(root, MANIFEST.replace("id: greet", "id: wave") + "colour: red\n")
        index.sync_toolsets()
        assert index.toolset_tools()["hello"] is None
        put_manifest(root, MANIFEST.replace("id: greet", "id: wave").replace("tools.hello", "gone"))
        index.sync_toolsets()

        assert index.toolset_tools()["hello"] == ["hello:wave"]
        assert [tool.tool_id for tool in index.tools("hello")] == ["hello:greet"]
        assert list(index.toolset_tools()) == [*("app-builder", "data-lab", "hello", "text-kit")]


def test_a_tool_that_changed_is_another_one(root: Path) -> None:
    put_hello(root)
    with open_index(root) as index:
        index.sync_toolsets()
        before = index.tool("hello:greet")
        assert before is not None
        assert index.tool("hello:greet") == before
        put_manifest(root, MANIFEST.replace("id: greet", "id: greet\n    name: Wave"))

        index.sync_toolsets()

        after = index.tool("hello:greet")
        assert after is not None
        assert (before.name, after.name) != (after.name, before.name)


# --- overrides and servers -------------------------------------------------------------------------


def overrides(root: Path) -> dict[str, dict[str, Any]]:
    names = (
        *("id", "toolset_id", "tool_id", "renderer", "renderer_config", "name_override"),
        *("description_override", "requires_confirmation", "enabled"),
    )
    found = [dict(zip(names, row, strict=True)) for row in synced(root)["tool_overrides"]]
    return {
        row["id"]: {key: value for key, value in row.items() if value is not None} for row in found
    }


def test_overrides_are_rows_with_ids_that_stay(tmp_path: Path) -> None:
    servers = "mcp_servers: [{id: web, command: npx}]\n"
    put_hello(
        tmp_path,
        f"{MANIFEST}    renderer: {{type: code, file: $args.name}}\n{servers}tool_overrides:\n"
        "- {tool_id: 'hello:greet', name_override: Hi}\n- {tool_id: 'web:find', enabled: false}\n",
    )
    (tmp_path / "toolsets" / "state").mkdir()
    (tmp_path / "toolsets" / "state" / "hello.yaml").write_text(
        "overrides: {greet: {requires_confirmation: true}}\n"
    )

    assert overrides(tmp_path) == {
        "hello/greet": {
            "id": "hello/greet",
            "toolset_id": "hello",
            "tool_id": "hello:greet",
            "renderer": "code",
            "renderer_config": '{"file":"$args.name"}',
            "name_override": "Hi",
            "requires_confirmation": 1,
        },
        "hello/web:find": {
            "id": "hello/web:find",
            "toolset_id": "hello",
            "tool_id": "web:find",
            "enabled": 0,
        },
    }


def test_an_override_s_renderer_comes_without_the_old_configuration(tmp_path: Path) -> None:
    put_hello(
        tmp_path,
        f"{MANIFEST}    renderer: {{type: code, file: $args.name}}\n"
        "tool_overrides: [{tool_id: greet, renderer: document}]\n",
    )

    row = overrides(tmp_path)["hello/greet"]

    shown = read_toolset(tmp_path, "hello").tools[0].renderer
    assert shown is not None
    assert (row["renderer"], row.get("renderer_config")) == ("document", None)
    assert (shown.type, shown.config) == ("document", {})


def test_servers_are_rows_and_references_stay_references(
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
        assert index.mcp_servers() == [one, two]
        assert index.mcp_servers("other") == []
    assert (one["id"], one["enabled"], one["headers"]) == ("far", False, {"X": "${API_KEY}"})
    assert (two["id"], two["enabled"], two["args"]) == ("web", True, ["-y", "web"])
    assert b"s3cret" not in (tmp_path / "data" / "index.db").read_bytes()


def test_servers_of_a_disabled_toolset_are_disabled(tmp_path: Path) -> None:
    put_hello(tmp_path, f"{HEAD}\nmcp_servers: [{{id: web, command: npx}}]\n")
    set_enabled(tmp_path, "hello", enabled=False)

    with open_index(tmp_path) as index:
        index.sync_toolsets()
        assert [(row["id"], row["enabled"]) for row in index.mcp_servers()] == [("web", False)]


# --- noticing changes ------------------------------------------------------------------------------


def test_changes_within_one_tick_of_the_clock_are_noticed(tmp_path: Path) -> None:
    put_hello(tmp_path)

    for number in range(30):
        put_manifest(tmp_path, MANIFEST.replace("name: Hello", f"name: H{number % 10}"))
        (row,) = list_toolsets(tmp_path)

        assert row["name"] == f"H{number % 10}"


def test_a_change_that_keeps_size_and_time_of_change_is_noticed(tmp_path: Path) -> None:
    toolset = put_hello(tmp_path)
    list_toolsets(tmp_path)
    status = (toolset / "toolset.yaml").stat()

    put_manifest(tmp_path, MANIFEST.replace("name: Hello", "name: Holla"))
    os.utime(toolset / "toolset.yaml", ns=(status.st_atime_ns, status.st_mtime_ns))

    assert list_toolsets(tmp_path)[0]["name"] == "Holla"


def test_files_that_come_within_one_tick_of_the_clock_are_noticed(tmp_path: Path) -> None:
    toolset = put_hello(tmp_path)
    (toolset / "assets").mkdir()

    for number in range(20):
        name = f"assets/{number % 5}.txt"
        (toolset / name).unlink() if (toolset / name).exists() else (toolset / name).write_text("")
        with open_index(tmp_path) as index:
            index.sync_toolsets()
            found = {row["path"] for row in index.toolset_files("hello")}

        assert (name in found) == (toolset / name).exists()


def test_looking_again_writes_nothing(root: Path) -> None:
    with open_index(root) as index:
        index.sync_toolsets()
        before = index.connection.total_changes

        index.sync_toolsets()

        assert before > 0
        assert index.connection.total_changes == before


def swap(toolset: Path) -> None:
    """Let two files of one size and time change their names."""
    (toolset / "a.txt").rename(toolset / "c.txt")
    (toolset / "b.txt").rename(toolset / "a.txt")
    (toolset / "c.txt").rename(toolset / "b.txt")


def update_state(toolset: Path) -> None:
    (toolset.parent / "state").mkdir()
    (toolset.parent / "state" / "hello.yaml").write_text("enabled: false\n")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda toolset: (toolset / "new.txt").write_text("1"), id="new-file"),
        pytest.param(lambda toolset: (toolset / "deep/er/new.txt").write_text("1"), id="deep-file"),
        pytest.param(lambda toolset: (toolset / "deep/er").rmdir(), id="folder-gone"),
        pytest.param(lambda toolset: (toolset / "deep").rename(toolset / "other"), id="renamed"),
        pytest.param(lambda toolset: (toolset / "a.txt").chmod(0o755), id="mode"),
        pytest.param(lambda toolset: (toolset / "a.txt").rename(toolset / "deep/a"), id="moved"),
        pytest.param(lambda toolset: (toolset / "deep/er/x").symlink_to("/"), id="link"),
        pytest.param(swap, id="names-swapped"),
        pytest.param(update_state, id="state-file"),
    ],
)
def test_every_kind_of_change_gives_another_signature(tmp_path: Path, change: Any) -> None:
    toolset = put_hello(tmp_path)
    (toolset / "deep" / "er").mkdir(parents=True)
    for name in ("a.txt", "b.txt"):
        (toolset / name).write_text(name)
        os.utime(toolset / name, ns=(0, 0))
    folder = os.open(toolset.parent, os.O_RDONLY)
    try:
        before = signature_of(toolset.parent, "hello")
        assert is_unchanged(folder, before)

        change(toolset)

        assert not is_unchanged(folder, before)
        assert is_unchanged(folder, signature_of(toolset.parent, "hello"))
    finally:
        os.close(folder)


def test_what_python_leaves_behind_is_looked_at_once(tmp_path: Path) -> None:
    toolset = put_hello(tmp_path)
    cache = toolset / "tools" / "__pycache__"
    cache.mkdir()
    seen = signature_of(toolset.parent, "hello")
    folder = os.open(toolset.parent, os.O_RDONLY)

    (cache / "hello.cpython-311.pyc").write_bytes(b"1")

    assert is_unchanged(folder, seen)
    assert b"__pycache__" not in seen.paths
    os.close(folder)


def make_state_a_folder(toolset: Path) -> None:
    (toolset.parent / "state" / "hello.yaml").mkdir(parents=True)


def make_state_a_pipe(toolset: Path) -> None:
    (toolset.parent / "state").mkdir()
    os.mkfifo(toolset.parent / "state" / "hello.yaml")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda toolset: (toolset / "link").symlink_to("tools"), id="linked-folder"),
        pytest.param(lambda toolset: (toolset / ".git").mkdir(), id="empty-folder-of-git"),
        pytest.param(lambda toolset: os.mkfifo(toolset / "pipe"), id="pipe"),
        pytest.param(lambda toolset: (toolset / "tools" / "hello.py").unlink(), id="removed"),
        pytest.param(lambda toolset: shutil.move(toolset / "tools", toolset / "lib"), id="moved"),
        pytest.param(make_state_a_folder, id="state-is-a-folder"),
        pytest.param(make_state_a_pipe, id="state-is-a-pipe"),
    ],
)
def test_what_is_no_plain_file_is_noticed_without_waiting(tmp_path: Path, change: Any) -> None:
    toolset = put_hello(tmp_path)
    assert list_toolsets(tmp_path)[0]["sound"]

    change(toolset)

    (row,) = list_toolsets(tmp_path)
    assert not row["sound"]
    with open_index(tmp_path) as index:
        assert index.problems() == list(read_toolset(tmp_path, "hello").problems)


def test_an_executable_bit_is_part_of_the_digest_and_noticed(tmp_path: Path) -> None:
    toolset = put_hello(tmp_path)
    before = list_toolsets(tmp_path)[0]["digest"]

    (toolset / "tools" / "hello.py").chmod(0o755)

    after = list_toolsets(tmp_path)[0]["digest"]
    assert after != before
    assert after == read_toolset(tmp_path, "hello").digest


def test_names_that_are_no_text_do_not_stop_the_index(tmp_path: Path) -> None:
    toolset = put_hello(tmp_path)
    try:
        os.mkdir(os.fsencode(toolset) + b"/caf\xe9")  # noqa: PTH102 - a name in bytes
    except OSError:
        pytest.skip("the file system has UTF-8 names only")
    os.mkdir(os.fsencode(toolset.parent) + b"/caf\xe9")  # noqa: PTH102 - a name in bytes

    assert [(row["id"], row["sound"]) for row in list_toolsets(tmp_path)] == [("hello", False)]


def test_switching_off_is_noticed_in_every_row_it_concerns(root: Path, tmp_path: Path) -> None:
    synced(root)
    (root / "toolsets" / "state").mkdir(exist_ok=True)
    (root / "toolsets" / "state" / "data-lab.yaml").write_text("enabled: false\n")

    after = synced(root)

    assert {row[0]: row[4] for row in after["toolsets"]} == {
        **dict.fromkeys(SAMPLES, 1),
        "data-lab": 0,
    }
    assert {row[6] for row in after["tools"] if row[1] == "data-lab"} == {0}
    assert after == anew(root, tmp_path / "anew.db")
    assert dump(tmp_path / "anew.db") == after
