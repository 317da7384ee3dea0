"""The built-in tools: an agent reads, writes, branches and goes back in its own chat."""

from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from covalt_git.project import Project
from tests.mcp_client import call, commits, talk, text


async def use(client: Client, tool: str, /, **args: Any) -> Any:
    """Return the result of a built-in tool that succeeds."""
    result = await client.call_tool(f"workspace.{tool}", args)
    assert not result.is_error, text(result)
    return result.structured_content


def test_an_agent_writes_branches_and_goes_back(shared: Path, chat_id: str) -> None:
    async def say(client: Client) -> None:
        await use(client, "write_file", path="a.txt", content="one\n")
        await use(client, "branch", name="idea")
        await use(client, "checkout", branch="idea")
        await use(client, "write_file", path="a.txt", content="two\n")
        changed = await use(client, "diff", old="main", new="idea")
        assert "-one\n+two\n" in changed["changes"][0]["patch"]
        await use(client, "checkout", branch="main")
        assert (await use(client, "read_file", path="a.txt"))["content"] == "one\n"
        idea = await use(client, "read_file", path="a.txt", manifest="idea")
        await use(client, "restore", manifest="idea", paths=["a.txt"])
        files = await use(client, "list_files")
        assert files["files"] == [{"path": "a.txt", "oid": idea["oid"]}]

    talk(shared, say, chat=chat_id)

    assert [one.source for one in commits(shared, chat_id)] == ["restore", "edit"]


@pytest.mark.parametrize(
    ("name", "args", "code"),
    [
        ("write_file", {"path": ".git/config", "content": ""}, "bad_path"),
        ("read_file", {"path": "a", "manifest": "nowhere"}, "invalid_request"),
        ("read_file", {"path": "bytes"}, "unreadable"),
        ("read_file", {"path": "large"}, "unreadable"),
        ("checkout", {"branch": "nowhere"}, "unknown_branch"),
    ],
)
def test_an_impossible_request_returns_its_error_code(
    shared: Path, chat_id: str, name: str, args: dict[str, Any], code: str
) -> None:
    with Project.open(shared).chats.open(chat_id) as chat:
        (chat.workspace / "bytes").write_bytes(b"\0\1")
        (chat.workspace / "large").write_text("x" * ((1 << 20) + 1))

    result = call(shared, f"workspace.{name}", args, chat=chat_id)

    assert result.is_error
    assert result.structured_content["error"] == code
