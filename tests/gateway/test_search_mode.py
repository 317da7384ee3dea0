"""Thousands of tools behind three: finding one, reading about it, calling it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError

from covalt_git.project import Project
from tests.mcp_client import eras, make_project, talk, text


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("gateway") / "project")


def called(root: Path, name: str, args: dict[str, Any], **how: Any) -> Any:
    async def said(client: Client) -> Any:
        return await client.call_tool(name, args)

    return talk(root, said, **{"mode": "search", **how})


async def names(client: Client) -> list[str]:
    return [tool.name for tool in (await client.list_tools()).tools]


@eras
def test_the_modes_list_the_tools_or_the_search(root: Path, era: str) -> None:
    own = ["call_tool", "read_tool", "resume", "search_tools"]
    assert talk(root, names, era=era, mode="search") == own
    assert talk(root, names, era=era)[0] == "resume"


@eras
@pytest.mark.parametrize(
    ("style", "name"),
    [("dots", "demo.write"), ("underscore", "demo_write")],
)
def test_a_tool_is_found_read_and_called(root: Path, era: str, style: str, name: str) -> None:
    async def said(client: Client) -> Any:
        found = await client.call_tool("search_tools", {"query": "write a file", "limit": 3})
        assert found.structured_content["tools"][0] == {
            "name": name,
            "title": "Write",
            "description": "Write a file.",
        }
        about = await client.call_tool("read_tool", {"name": name})
        assert about.structured_content["inputSchema"]["required"] == ["path", "content"]
        args = {"path": "a.txt", "content": "hi"}
        return await client.call_tool("call_tool", {"name": name, "arguments": args})

    result = talk(root, said, era=era, style=style, mode="search")

    assert result.structured_content == {"written": "a.txt"}
    with Project.open(root).chats.open(result.meta["covalt-git/chat"]) as chat:
        assert chat.manifest(chat.head() or "").title == "demo:write success"


@eras
@pytest.mark.parametrize("asks", ["read_tool", "call_tool"])
def test_a_hidden_tool_is_answered_as_one_that_never_was(root: Path, era: str, asks: str) -> None:
    answers = [
        text(called(root, asks, {"name": name}, era=era, role="reader")).replace(name, "...")
        for name in ("demo.write", "demo.nothing", "demo.off", "resume")
    ]

    assert answers == ["unknown_tool: unknown tool '...'"] * 4


def test_no_search_tells_of_hidden_or_disabled_tools(root: Path) -> None:
    query = {"query": "read write file fail count begin tell", "limit": 50}
    told = {}
    for role in (None, "reader"):
        found = called(root, "search_tools", query, role=role).structured_content["tools"]
        told[role] = {tool["name"] for tool in found}

    assert "demo.write" in told[None]
    assert "demo.off" not in told[None]
    assert told["reader"] == {"demo.read", "workspace.list_files", "workspace.read_file"}


def test_in_search_mode_tools_are_called_by_call_tool_alone(root: Path) -> None:
    async def said(client: Client) -> None:
        with pytest.raises(MCPError, match="unknown tool 'demo\\.steps'"):
            await client.call_tool("demo.steps", {})

    talk(root, said, mode="search")


def test_wrong_arguments_of_the_search_are_told(root: Path) -> None:
    result = called(root, "search_tools", {"limit": 0, "words": "x"})

    assert result.structured_content["error"] == "invalid_arguments"
    assert len(result.structured_content["problems"]) == 3
