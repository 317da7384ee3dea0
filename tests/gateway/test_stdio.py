"""The server as a host starts it: a process with the protocol on its standard input and output."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client

from covalt_git.file_edits import edits
from covalt_git.project import Project
from covalt_git.serving.server_registry import register
from tests.command import Command
from tests.mcp_client import (
    Progress,
    add_toolset,
    command,
    commits,
    error_of,
    over_stdio,
    request,
    talk,
    text,
    tool_names,
)
from tests.settling import until

PAGES = "http://127.0.0.1:1"
MANY = """\
id: many
name: Many
version: "1"
tools:
  - {id: files, entrypoint: "tools.many:files"}
"""
WRITES_MANY = """\
import time
from pathlib import Path


def files(workspace: Path) -> None:
    for number in range(1000):
        (workspace / f"{number}.txt").write_text(str(number))
    (workspace / "begun.txt").write_text("begun")
    time.sleep(600)
"""


def test_a_host_lists_calls_is_asked_and_cancels(root: Path) -> None:
    urls: list[str] = []
    steps, slow = Progress(), Progress()

    async def answer(_: Any, params: Any) -> types.ElicitResult:
        if params.mode == "form":
            return types.ElicitResult(action="accept", content={"name": "Ada"})
        urls.append(params.url)
        return types.ElicitResult(action="decline")

    async def say(client: Client) -> None:
        assert await tool_names(client) == names
        await client.call_tool("demo.steps", {}, progress_callback=steps)
        assert text(await client.call_tool("quiz.name", {})).startswith("Hello, Ada!")
        approval: Any = await client.call_tool("demo.asks", {"path": "a.txt", "content": "hi"})
        execution_id = error_of(approval)["execution_id"]
        assert urls == [f"{PAGES}/approvals/{execution_id}"]
        async with anyio.create_task_group() as group:
            group.start_soon(partial(client.call_tool, progress_callback=slow), "demo.slow", {})
            with anyio.fail_after(30):
                await slow.began.wait()
            group.cancel_scope.cancel()
        # demo.steps waits for the chat's lock, which demo.read does not.
        await client.call_tool("demo.steps", {})
        assert text(await client.call_tool("demo.read", {"path": "begun.txt"})) == "x"

    names = talk(root, tool_names, version="legacy")
    with register(root, PAGES):
        over_stdio(root, say, version="legacy", elicitation_callback=answer)

    assert steps.reports == [(1, 2, "first"), (2, 2, "last")]
    assert {one.record.by for one in commits(root)} == {"client:mcp"}


class Host(Command):
    """A host that writes the protocol itself; the server needs no time to import what it needs."""

    def __init__(self, root: Path, *args: str) -> None:
        (given, gives), (said, says), (errors, errs) = os.pipe(), os.pipe(), os.pipe()
        super().__init__(["-C", str(root), "mcp", *args], [given, says, errs])
        for one in (given, says, errs):
            os.close(one)
        self.stdin = os.fdopen(gives, "w", encoding="utf-8")
        self.stdout, self.stderr = (os.fdopen(one, encoding="utf-8") for one in (said, errors))

    def ask(self, sent: Any) -> Any:
        """Send a request, and return its answer."""
        print(json.dumps(sent), file=self.stdin, flush=True)
        return json.loads(self.stdout.readline())


def test_a_host_names_its_chat_role_and_style_of_names(root: Path) -> None:
    with Project.open(root).chats.new("mine") as chat, Project.open(root).writing(chat) as writer:
        edits.edit_file(writer, "a.txt", b"words", before=None)

    host = Host(root, "--role", "reader", "--chat", "mine", "--names", "underscore")
    with host.stdin, host.stdout, host.stderr:
        names = [tool["name"] for tool in host.ask(request("tools/list"))["result"]["tools"]]
        read = request("tools/call", name="demo_read", arguments={"path": "a.txt"})
        content = host.ask(read)["result"]["content"][0]["text"]
        host.stdin.close()
        assert host.wait() == 0

    assert "demo_read" in names
    assert "demo_write" not in names
    assert content == "words"
    assert Project.open(root).chats.ids() == ["mine"]


@pytest.mark.parametrize("version", ["2026-07-28", "2025-11-25"])
def test_a_host_that_closes_the_pipe_leaves_no_traceback(root: Path, version: str) -> None:
    requests = [request("tools/list"), request("tools/list")]
    if version == "2025-11-25":
        client = {"capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
        params = {"protocolVersion": version, **client}
        requests[0] = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        del requests[1]["params"]["_meta"]
    host = Host(root)
    with host.stdin, host.stderr:
        assert "result" in host.ask(requests[0])
        host.stdout.close()
        print(json.dumps(requests[1]), file=host.stdin, flush=True)

        assert host.ends_within(30)
        assert host.wait() == 0
        assert host.stderr.read() == ""


@pytest.mark.parametrize("ends", ["end-of-input", "SIGTERM"])
def test_a_server_that_stops_ends_its_calls(root: Path, ends: str) -> None:
    call = request("tools/call", name="demo.slow", arguments={})
    read, write = os.pipe()
    with os.fdopen(write, "w") as host, Path(os.devnull).open("w") as out:
        server = Command(["-C", str(root), "mcp"], [read, out.fileno(), out.fileno()])
        os.close(read)
        print(json.dumps(call), file=host, flush=True)
        until((root / "data" / "chats" / "c1" / "workspace" / "begun.txt").exists)
        if ends == "SIGTERM":
            os.kill(server.pid, signal.SIGTERM)
        else:
            host.close()
        assert server.ends_within(10)
    assert server.wait() == (0 if ends == "end-of-input" else 128 + signal.SIGTERM)

    (commit,) = commits(root)
    assert commit.record.call is not None
    assert commit.record.call.error is not None
    assert commit.record.call.error.code == "cancelled"
    with Project.open(root).chats.open("c1") as chat:
        assert chat.card().title == "a"


@pytest.mark.rest
def test_a_call_whose_commit_takes_long_is_recorded_when_the_server_stops(root: Path) -> None:
    """With so many files that their commit takes longer than the grace, which is shorter here."""
    add_toolset(root, "many", MANY, WRITES_MANY)
    call = request("tools/call", name="many.files", arguments={})
    program = (
        "from covalt_git.cli import main; from covalt_git.gateway import stdio; "
        "stdio.GRACE_S = 0.01; main()"
    )
    started = command(root)
    with subprocess.Popen(
        [started.command, "-c", program, *started.args[2:]],
        env={**os.environ, **(started.env or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin
        print(json.dumps(call), file=server.stdin, flush=True)
        until((root / "data" / "chats" / "c1" / "workspace" / "begun.txt").exists)
        server.terminate()
        assert server.wait(60) == 128 + signal.SIGTERM

    (commit,) = commits(root)
    assert commit.record.call is not None
    assert commit.record.call.error is not None
    assert commit.record.call.error.message == "the server was stopped"


@pytest.mark.parametrize(
    "args", [("--role", "nobody"), ("--chat", "c9"), ("--names", "long")], ids=" ".join
)
def test_an_unknown_role_chat_or_style_is_an_error_before_the_protocol(
    cli: Callable[..., tuple[int, str]], args: tuple[str, str]
) -> None:
    status, printed = cli("mcp", *args)

    assert status in {1, 2}
    assert repr(args[1]) in printed
    assert "jsonrpc" not in printed
