"""Search mode: an agent finds, reads and calls tools through three tools."""

import re
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.examples import rest
from tests.mcp_client import call, commits, talk, text, tool_names


def test_search_mode_lists_the_meta_tools_and_scripts(shared: Path) -> None:
    own = ["call_tool", "read_result", "read_tool", "resume", "search_tools"]

    async def listed(client: Client) -> int:
        result = await client.list_tools()
        return sum(len(tool.model_dump_json(exclude_none=True)) for tool in result.tools)

    assert talk(shared, tool_names, mode="search") == [*own, "workspace.run_script"]
    assert talk(shared, tool_names, mode="search", role="reader") == own
    assert talk(shared, listed, mode="search") <= 2800
    assert {*own} & {*talk(shared, tool_names)} == {"read_result", "resume"}


@pytest.mark.requirement("toolshed-search_tools", "toolshed-read_tool")
@pytest.mark.parametrize(
    ("style", "name"), [("dots", "demo.write"), rest("underscore", "demo_write")]
)
def test_a_tool_is_found_read_and_called(shared: Path, style: str, name: str) -> None:
    async def say(client: Client) -> Any:
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

    result = talk(shared, say, style=style, mode="search")

    assert result.structured_content == {"written": "a.txt"}
    assert commits(shared, result.meta["covalt-git/chat"])[0].title == "demo:write success"


@pytest.mark.parametrize("meta_tool", ["read_tool", "call_tool"])
def test_hidden_disabled_and_missing_tools_get_one_answer(shared: Path, meta_tool: str) -> None:
    for name in ("demo.write", "demo.missing", "demo.off", "resume"):
        answer = call(shared, meta_tool, {"name": name}, role="reader", mode="search")
        assert text(answer).startswith(f"unknown_tool: unknown tool {name!r}")
        # Suggestions name visible tools only, such as demo.read for the hidden demo.write.
        assert set(re.findall("'(.*?)'", text(answer))) <= {name, "demo.read"}


def test_a_search_finds_visible_enabled_tools_of_toolsets_and_built_in_ones(shared: Path) -> None:
    query = {"query": "read write file fail count begin restore", "limit": 50}
    found = {}
    for role in (None, "reader"):
        result = call(shared, "search_tools", query, role=role, mode="search")
        found[role] = {tool["name"] for tool in result.structured_content["tools"]}

    assert {"demo.write", "workspace.restore"} <= found[None]
    assert "demo.off" not in found[None]
    assert found["reader"] == {"demo.read", "workspace.list_files", "workspace.read_file"}
