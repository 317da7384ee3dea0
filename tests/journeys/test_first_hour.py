"""The first hour of four users, in the order of the README."""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import mcp_types as types
from anyio.to_thread import run_sync
from mcp import Client

from tests.journeys.terminal import Terminal
from tests.mcp_client import error_of, over_stdio, text, tool_names
from tests.uvicorn_server import talk_over_http

WRITE = {"path": "index.html", "content": "<h1>hi</h1>"}
ROLES = """\
default_role: owner
roles:
  owner: {admin: true}
  author: {allow: ["app-builder.*_file", "workspace.**"]}
"""


def replace(file: Path, old: str, new: str) -> int:
    """Replace a text of a file, and return its line."""
    before = file.read_text(encoding="utf-8")
    file.write_text(before.replace(old, new, 1), encoding="utf-8")
    return before[: before.index(old)].count("\n") + 1


def test_a_developer_writes_tools(project: Terminal) -> None:
    project.covalt("toolset", "new", "mine")
    manifest = project.folder / "toolsets/mine/toolset.yaml"
    line = replace(manifest, "entrypoint:", "entrypont:")
    assert f"toolsets/mine/toolset.yaml:{line}:5: CG201 " in project.covalt("validate", code=1)
    project.covalt("chat", "new", "--id", "c1")
    project.covalt("call", "c1", "mine:add_note", '{"text": "hi"}', code=1)

    project.covalt("validate", "--fix")
    assert project.json("tool", "test", "mine")["ok"] == 2
    project.covalt("call", "c1", "mine:add_note", '{"text": "hi"}')
    assert "mine:add_note" in project.covalt("authority", "diff", "main", code=3)

    project.covalt("toolset", "new", "clock", "--template", "mcp")
    text = (project.folder / "toolsets/clock/toolset.yaml").read_text(encoding="utf-8")
    (proposed,) = re.findall(r"covalt-git (grant add .*)", text)
    project.covalt(*proposed.split(), "--no-terminal", "test")
    (row,) = project.json("grant", "list", "clock")["grants"]
    assert row["grant"]["sandbox"] != "none"
    project.covalt("source", "refresh", "clock", "--accept", "--no-terminal", "test")
    called = project.json(
        "call", "c1", "clock:current_time", '{"utc_offset": 2}', "--no-terminal", "tested"
    )
    assert called["result"].endswith("+02:00")


def test_a_user_manages_the_work_of_an_agent(project: Terminal) -> None:
    ran = project.folder / "data/chats/c1/workspace/ran.txt"

    def decide(yes: str, no: str) -> None:
        project.covalt("approval", "deny", no, "--no-terminal", "once is enough")
        project.covalt("approval", "approve", yes, "--no-terminal", "harmless")

    async def work(client: Client) -> list[str]:
        await client.call_tool("app-builder.write_file", WRITE)
        ids = []
        for word in ("one", "two"):
            args = {"command": f"echo {word} >> ran.txt"}
            waits: Any = await client.call_tool("app-builder.run_command", args)
            ids.append(error_of(waits)["execution_id"])
        await run_sync(decide, *ids)
        results = [await client.call_tool("resume", {"execution_id": one}) for one in ids]
        return [text(one).partition(":")[0] for one in results if one.is_error]

    agent: Any = {"client_info": types.Implementation(name="claude-code", version="1")}
    assert over_stdio(project.folder, work, **agent) == ["denied"]
    assert ran.read_text(encoding="utf-8") == "one\n"

    log = project.json("chat", "log", "c1")["manifests"]
    assert {one["by"] for one in log} == {"client:claude-code"}
    project.covalt("chat", "undo", "c1")
    assert not ran.exists()
    project.covalt("chat", "redo", "c1")
    assert ran.exists()


def test_a_user_connects_an_agent(project: Terminal) -> None:
    with (project.folder / "covalt.yaml").open("a", encoding="utf-8") as config:
        config.write(ROLES)
    with project.serving("serve") as url:
        install = ("mcp", "install", "claude-code", "--http", "--print")
        entry = json.loads(project.run("covalt-git", *install).stdout)["covalt-git"]
        assert entry["url"].startswith(url.partition("/?")[0])
        port = urlsplit(url).port or 0
        token = project.json("token", "new", "--role", "author", "--name", "cursor")["token"]

        async def work(client: Client) -> tuple[list[str], Any, Any, Any]:
            read = await client.call_tool("call_tool", {"name": "workspace.list_files"})
            near = await client.call_tool("read_tool", {"name": "app-builder.read_fil"})
            call = {"name": "app-builder.write_file", "arguments": WRITE}
            return await tool_names(client), read, near, await client.call_tool("call_tool", call)

        names, read, near, written = talk_over_http(port, work, token=token, query="?mode=search")
        meta_tools = ["call_tool", "read_result", "read_tool", "resume", "search_tools"]
        assert names == [*meta_tools, "workspace.run_script"]
        assert text(read).startswith("no_chat: ")
        assert "did you mean 'app-builder.read_file'?" in text(near)
        project.covalt("token", "revoke", "cursor")

    (chat,) = project.json("chat", "list")["chats"]
    assert chat["id"] == written.meta["covalt-git/chat"]


def test_a_reviewer_checks_a_change(project: Terminal) -> None:
    project.git("checkout", "--quiet", "-b", "change")
    project.covalt("toolset", "new", "web", "--template", "http")
    project.git("add", "--all")
    project.covalt("validate", "--staged")
    ada = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    project.git(*ada, "commit", "--quiet", "-m", "Add web")

    report = project.covalt("authority", "diff", "main...HEAD", "--format", "markdown", code=3)
    assert "api.open-meteo.com" in report
    manifest = project.folder / "toolsets/web/toolset.yaml"
    line = replace(manifest, "http:", "htpp:")
    project.git("add", "--all")
    replace(manifest, "htpp:", "http:")
    project.covalt("validate")
    assert f":{line}:" in project.covalt("validate", "--staged", code=1)
    sarif = json.loads(project.covalt("validate", "--format", "sarif"))
    assert sarif["runs"][0]["results"] == []
