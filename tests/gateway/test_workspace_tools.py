"""The built-in tools: an agent reads, writes, branches and goes back in its own chat."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError

from covalt_git.project import Project
from tests.command import run
from tests.mcp_client import CONFIG, eras, make_project, talk, text

Said = Callable[[Client], Awaitable[Any]]
NAMES = [
    *("branch", "checkout", "diff", "list_files"),
    *("log", "read_file", "restore", "write_file"),
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


def asking(name: str, args: dict[str, Any]) -> Said:
    async def said(client: Client) -> Any:
        return await client.call_tool(f"workspace.{name}", args)

    return said


async def told(client: Client, tool: str, /, **args: Any) -> Any:
    result = await client.call_tool(f"workspace.{tool}", args)
    assert not result.is_error, text(result)
    return result.structured_content


@eras
def test_an_agent_writes_branches_and_goes_back(root: Path, era: str) -> None:
    async def said(client: Client) -> None:
        first = await told(client, "write_file", path="a.txt", content="one\n")
        assert first["changed"] is True
        await told(client, "branch", name="idea")
        await told(client, "checkout", branch="idea")
        await told(client, "write_file", path="a.txt", content="two\n")
        changed = await told(client, "diff", old="main", new="idea")
        assert "-one\n+two\n" in changed["changes"][0]["patch"]
        moved = await told(client, "checkout", branch="main")
        assert moved["changes"] == [{"path": "a.txt", "kind": "modified"}]
        assert (await told(client, "read_file", path="a.txt"))["content"] == "one\n"
        then = await told(client, "read_file", path="a.txt", manifest="idea")
        assert then["content"] == "two\n"
        back = await told(client, "restore", manifest="idea", paths=["a.txt"])
        assert back["branch"] == "main"
        assert (await told(client, "read_file", path="a.txt"))["content"] == "two\n"
        log = await told(client, "log", limit=2)
        assert [one["title"] for one in log["manifests"]] == [
            f"restore: a.txt of {then_id(log)[:12]}",
            "edit: a.txt",
        ]
        files = await told(client, "list_files")
        assert files["files"] == [{"path": "a.txt", "oid": then["oid"]}]

    def then_id(log: Any) -> str:
        found: str = next(one["manifest_id"] for one in log["branches"] if one["name"] == "idea")
        return found

    talk(root, said, era=era)

    with Project.open(root).chats.open("c1") as chat:
        assert [one.source for one in chat.log(chat.head())] == ["restore", "edit"]


def test_what_a_person_edits_is_seen_and_saved_first(root: Path) -> None:
    with Project.open(root).chats.new("mine") as chat:
        (chat.workspace / "b.txt").write_text("by hand\n")

    async def said(client: Client) -> None:
        assert (await told(client, "read_file", path="b.txt"))["content"] == "by hand\n"
        assert (await told(client, "diff"))["changes"][0]["kind"] == "added"
        written = await client.call_tool("workspace.write_file", {"path": "a.txt", "content": ""})
        (link,) = [one for one in written.content if one.type == "resource_link"]
        assert link.name == "a.txt"

    with Project.open(root).chats.open("mine") as chat:
        assert chat.head() is None  # so far it was only read
    talk(root, said, chat="mine")
    with Project.open(root).chats.open("mine") as chat:
        assert [one.subject for one in chat.log(chat.head())] == ["a.txt", "b.txt"]
        rows = run("chat", "log", "mine", "--json", cwd=root)
        assert rows.returncode == 0


def test_a_file_that_is_another_by_now_is_not_written_over(root: Path) -> None:
    async def said(client: Client) -> Any:
        first = await told(client, "write_file", path="a.txt", content="one")
        await told(client, "write_file", path="a.txt", content="two", base=first["oid"])
        args = {"path": "a.txt", "content": "three", "base": first["oid"]}
        refused = await client.call_tool("workspace.write_file", args)
        assert (await told(client, "read_file", path="a.txt"))["content"] == "two"
        return refused

    assert talk(root, said).structured_content["error"] == "moved"


@pytest.mark.parametrize(
    ("name", "args", "code"),
    [
        ("write_file", {"path": "../a", "content": ""}, "bad_path"),
        ("write_file", {"path": ".git/config", "content": ""}, "bad_path"),
        ("read_file", {"path": "../../../covalt.yaml"}, "unknown_file"),
        ("read_file", {"path": "a", "manifest": "nowhere"}, "invalid_request"),
        ("checkout", {"branch": "nowhere"}, "unknown_branch"),
        ("read_file", {}, "invalid_arguments"),
        ("log", {"limit": 0}, "invalid_arguments"),
    ],
)
def test_what_cannot_be_done_is_told(
    root: Path, name: str, args: dict[str, Any], code: str
) -> None:
    result = talk(root, asking(name, args))

    assert result.is_error
    assert result.structured_content["error"] == code


def test_bytes_are_no_text(root: Path) -> None:
    with Project.open(root).chats.new("mine") as chat:
        (chat.workspace / "a.bin").write_bytes(b"\0\1")

    result = talk(root, asking("read_file", {"path": "a.bin"}), chat="mine")

    assert result.structured_content["error"] == "unreadable"


@eras
def test_roles_decide_about_them_as_about_any_tool(root: Path, era: str) -> None:
    async def names(client: Client) -> list[str]:
        return [tool.name for tool in (await client.list_tools()).tools]

    assert [one for one in talk(root, names, era=era) if one.startswith("workspace.")] == [
        f"workspace.{name}" for name in NAMES
    ]
    listed = talk(root, names, era=era, role="reader")
    assert [one for one in listed if one.startswith("workspace.")] == [
        "workspace.list_files",
        "workspace.read_file",
    ]

    async def said(client: Client) -> None:
        with pytest.raises(MCPError, match="unknown tool"):
            await client.call_tool("workspace.write_file", {"path": "a", "content": ""})

    talk(root, said, era=era, role="reader")


def test_a_rule_that_wants_a_person_is_not_passed_by(root: Path) -> None:
    rule = '{pattern: "workspace.write_file", when: {args: {path: "*.env"}}}'
    (root / "covalt.yaml").write_text(f"{CONFIG}approvals: [{rule}]\n")

    refused = talk(root, asking("write_file", {"path": "a.env", "content": ""}))
    written = talk(root, asking("write_file", {"path": "a.txt", "content": ""}))

    assert refused.structured_content["error"] == "needs_person"
    assert not written.is_error


def test_no_toolset_can_have_their_namespace(root: Path) -> None:
    made = run("toolset", "new", "workspace", cwd=root)
    assert "'workspace' cannot be a toolset id: the built-in tools have that name" in made.stderr

    (root / "toolsets" / "demo").rename(root / "toolsets" / "workspace")

    checked = run("validate", cwd=root)
    assert checked.returncode == 1
    assert "CG204 the built-in tools are called 'workspace'" in checked.stdout
    assert not talk(root, asking("list_files", {})).is_error


def test_a_search_finds_them_too(root: Path) -> None:
    async def said(client: Client) -> list[str]:
        found = await client.call_tool("search_tools", {"query": "restore"})
        return [tool["name"] for tool in found.structured_content["tools"]]

    assert "workspace.restore" in talk(root, said, mode="search")
