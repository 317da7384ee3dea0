"""Disk usage of a chat's store by path and by commit, its warnings, and its limit."""

from typing import Any

import pytest

from covalt_git.workspaces import disk_usage
from covalt_git.workspaces.disk_usage import MIB, DiskUsage, ignore_line
from tests.api_client import Api, configure, refused
from tests.mcp_client import add_toolset

MANIFEST = """\
id: builder
name: Builder
version: "1"
tools:
  - {id: build, entrypoint: "tools.builder:build"}
  - {id: look, entrypoint: "tools.builder:look", annotations: {read_only: true}}
"""
CODE = """\
import random
from pathlib import Path


def build(workspace: Path, kib: int, seed: int) -> int:
    (workspace / "out" / "obj").mkdir(parents=True, exist_ok=True)
    content = random.Random(seed).randbytes(kib << 10)
    return (workspace / "out" / "obj" / "a.bin").write_bytes(content)


def look(workspace: Path) -> int:
    return len(list(workspace.rglob("*")))
"""


@pytest.fixture
def builder(api: Api) -> Api:
    add_toolset(api.root, "builder", MANIFEST, CODE)
    return api


def usage(api: Api, **options: Any) -> Any:
    return api.get("get_disk_usage", chat_id="c1", **options)


def test_each_version_of_a_file_is_counted_for_its_path_and_its_call(builder: Api) -> None:
    first = builder.call("builder:build", kib=300, seed=1)
    second = builder.call("builder:build", kib=500, seed=2)
    builder.call("builder:build", kib=300, seed=1)  # the content of the first call again
    builder.write("notes.txt", "notes")

    found = usage(builder)

    sizes = {one["path"]: one["size"] for one in found["paths"]}
    assert 800 << 10 <= sizes["out/obj/a.bin"] < 802 << 10
    assert sizes["out/"] == sizes["out/obj/"] == sizes["out/obj/a.bin"]
    assert sizes["notes.txt"] < 1000
    assert [one["path"] for one in found["paths"]][-1] == "notes.txt"
    commits = {one["manifest_id"]: one for one in found["commits"]}
    assert 500 << 10 <= commits[second["post_manifest_id"]]["size"] < 501 << 10
    assert 300 << 10 <= commits[first["post_manifest_id"]]["size"] < 301 << 10
    assert commits[second["post_manifest_id"]]["call"]["tool_id"] == "builder:build"
    assert len(commits) == 3
    assert sizes["out/"] + sizes["notes.txt"] < found["size"] < 900 << 10
    assert (found["warning"], found["large_folders"]) == ("", [])


def test_loose_objects_and_repacked_ones_have_sizes_too(builder: Api) -> None:
    builder.call("builder:build", kib=300, seed=1)
    before = usage(builder)
    builder.post("collect_garbage", chat_id="c1", now=True)

    after = usage(builder, limit=1)

    assert [one["path"] for one in after["paths"]] == ["out/"]
    assert after["paths"][0]["size"] == before["paths"][0]["size"]


def test_a_role_that_may_not_see_the_tool_sees_only_the_size_of_its_call(builder: Api) -> None:
    builder.call("builder:build", kib=10, seed=1)
    configure(builder.root, "roles: {some: {allow: ['data-lab.**']}}\ndefault_role: some\n")

    (commit,) = usage(Api.of(builder.root, "some"))["commits"]

    assert (commit["title"], commit["call"]) == ("a tool call", None)


@pytest.mark.parametrize(
    ("paths", "wanted"),
    [
        ({"out/": 70, "out/a": 70}, ["out/"]),
        ({"a/": 90, "a/out/": 80, "a/src/": 10}, ["a/out/"]),
        ({"out/": 63}, []),
        ({"out/": 70, "docs/": 240, "docs/b/": 60}, ["docs/"]),
        ({"big.bin": 300}, []),
    ],
)
def test_a_folder_with_a_quarter_of_the_store_and_64_mib_is_large(
    paths: dict[str, int], wanted: list[str]
) -> None:
    size = 300 if "docs/" in paths else 100

    found = DiskUsage(size * MIB, {path: size * MIB for path, size in paths.items()}, {})

    assert [*found.large_folders()] == wanted


@pytest.mark.parametrize(
    ("ignore", "folder", "line"),
    [
        ((), "a/out/", "ignore: [out/]"),
        (("x/", "*.b"), "out/", 'ignore: [x/, "*.b", out/]'),
        ((), "a, b/", 'ignore: ["a, b/"]'),
    ],
)
def test_the_line_to_add_ignores_the_folder(
    ignore: tuple[str, ...], folder: str, line: str
) -> None:
    assert ignore_line(ignore, folder) == line


def test_a_large_store_is_reported_after_a_call_and_in_the_status(
    builder: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert builder.call("builder:build", kib=300, seed=1)["store_warning"] == ""
    monkeypatch.setattr(disk_usage, "LARGE_STORE", 200 << 10)

    warning = builder.call("builder:look")["store_warning"]

    assert "covalt-git chat du c1" in warning
    assert builder.get("get_chat", chat_id="c1")["status"]["store_warning"] == warning
    assert usage(builder)["warning"] == warning


def test_a_full_store_refuses_tools_that_write_and_nothing_else(builder: Api) -> None:
    config = "version: 1\nworkspace: {max_store_mb: 1, durability: fast}\n"
    (builder.root / "covalt.yaml").write_text(config, encoding="utf-8")

    # The call that exceeds the limit is committed.
    assert builder.call("builder:build", kib=1500, seed=1)["status"] == "success"
    request = {"chat_id": "c1", "tool_id": "builder:build", "args": {"kib": 1, "seed": 2}}
    full = refused(builder.tell("call_tool", **request), 507, "limit_store")

    assert "max_store_mb" in full["error_description"]
    assert builder.call("builder:look")["status"] == "success"
    assert builder.call("workspace:write_file", path="a", content="b")["status"] == "success"
    builder.post("create_branch", chat_id="c1", name="idea")
    builder.post("switch_branch", chat_id="c1", branch="idea")
    builder.post("restore_workspace", chat_id="c1", manifest="HEAD~1")
    assert builder.upload(("b.txt", b"b")).status_code == 200
    assert builder.ask("export_chat", chat_id="c1").status_code == 200
    builder.post("collect_garbage", chat_id="c1", now=True)
    builder.post("delete_chat", chat_id="c1")
