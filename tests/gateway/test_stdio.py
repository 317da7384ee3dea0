"""The server as a host starts it: a process with the protocol on its input and output."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from covalt_git.project import Project
from tests.mcp_client import ERAS, command, make_project, over_stdio, talk, text


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_project(tmp_path / "project")


@pytest.mark.parametrize("era", ERAS)
def test_a_host_lists_calls_and_is_told_over_stdio(root: Path, era: str) -> None:
    told: list[Any] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async def names(client: Client) -> list[str]:
        return [tool.name for tool in (await client.list_tools()).tools]

    async def said(client: Client) -> tuple[list[str], Any]:
        listed = await names(client)
        await client.call_tool("demo.steps", {}, progress_callback=hear)
        return listed, await client.call_tool("demo.write", {"path": "a.txt", "content": "hi"})

    listed, result = over_stdio(root, said, era=era)

    assert listed == talk(root, names, era=era)
    assert told == [(1, 2, "first"), (2, 2, "last")]
    assert result.structured_content == {"written": "a.txt"}
    with Project.open(root).chats.open("c1") as chat:
        assert chat.read_file(chat.head(), "a.txt") == b"hi"
        assert [one.record.by for one in chat.log(chat.head())] == ["local", "local"]


def test_a_call_that_is_cancelled_over_stdio_has_ended(root: Path) -> None:
    async def said(client: Client) -> str:
        begun = anyio.Event()

        async def hear(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
            begun.set()

        async def call() -> None:
            await client.call_tool("demo.slow", {}, progress_callback=hear)

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            with anyio.fail_after(30):
                await begun.wait()
            group.cancel_scope.cancel()
        await client.call_tool("demo.steps", {})  # waits for the chat, as reading would not
        return text(await client.call_tool("demo.read", {"path": "begun.txt"}))

    assert over_stdio(root, said).startswith("x")


def test_two_hosts_work_in_two_chats(root: Path) -> None:
    async def said(first: Client) -> list[str]:
        async with Client(command(root), mode="legacy") as second:
            for number, client in enumerate([first, second, first, second]):
                args = {"path": f"{number}.txt", "content": ""}
                await client.call_tool("demo.write", args)
            refused = await second.call_tool("demo.read", {"path": "0.txt"})
        assert refused.is_error
        return Project.open(root).chats.ids()

    assert over_stdio(root, said) == ["c1", "c2"]
    for chat_id, expected in {"c1": ["0.txt", "2.txt"], "c2": ["1.txt", "3.txt"]}.items():
        with Project.open(root).chats.open(chat_id) as chat:
            assert [*chat.files(chat.head())] == expected


def test_a_host_that_names_a_chat_and_a_role_has_these(root: Path) -> None:
    with Project.open(root).chats.new("mine") as chat, Project.open(root).writing(chat) as writer:
        writer.edit_file("a.txt", b"words", before=None)

    async def said(client: Client) -> tuple[list[str], str]:
        names = [tool.name for tool in (await client.list_tools()).tools]
        return names, text(await client.call_tool("demo_read", {"path": "a.txt"}))

    args = ("--role", "reader", "--chat", "mine", "--names", "underscore")
    names, words = over_stdio(root, said, *args)

    assert "demo_read" in names
    assert "demo_write" not in names
    assert words == "words"
    assert Project.open(root).chats.ids() == ["mine"]


@pytest.mark.parametrize("signalled", [True, False])
def test_a_server_that_is_told_to_end_ends_its_calls(root: Path, *, signalled: bool) -> None:
    how = command(root)
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "a-host", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    call = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "demo.slow", "arguments": {}, "_meta": meta},
    }
    server = subprocess.Popen(
        [sys.executable, *how.args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=how.env,
        text=True,
    )
    assert server.stdin is not None
    server.stdin.write(json.dumps(call) + "\n")
    server.stdin.flush()
    begun = root / "data" / "chats" / "c1" / "workspace" / "begun.txt"
    until = time.monotonic() + 30
    while not begun.exists() and time.monotonic() < until:
        time.sleep(0.02)

    if signalled:
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=10) == 128 + signal.SIGTERM
    server.communicate(timeout=10)

    assert signalled or server.returncode == 0
    with Project.open(root).chats.open("c1") as chat:
        (done,) = chat.log(chat.head())
        assert chat.card().title == "a-host"
        assert done.record.call is not None
        assert done.record.call.error is not None
        assert done.record.call.error.code == "cancelled"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--role", "nobody"), "no role 'nobody'"),
        (("--chat", "c9"), "no chat 'c9'"),
        (("--names", "long"), "'long' is not one of"),
    ],
)
def test_what_is_not_there_is_told_before_anything_is_served(
    root: Path, args: tuple[str, ...], says: str
) -> None:
    how = command(root, *args)
    done = subprocess.run(
        [sys.executable, *how.args],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env=how.env,
    )

    assert done.returncode in {1, 2}
    assert done.stdout == ""
    assert says in done.stderr
