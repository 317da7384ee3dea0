"""How long the MCP server takes, over stdio and HTTP, compared with a FastMCP server with the same function.

    python -m bench.gateway --fastmcp PYTHON [ROW...] [--rounds N] [--tools N] [--json]

``PYTHON`` is an interpreter that has fastmcp.  A row is any part of a row's name; without one all are
run.  Both servers run all the while and take turns, so that a busy machine is busy for both; the client
is the SDK's own, for both the same.  Figures are medians in milliseconds.

- *read a file*: ``workspace.read_file`` of one of 100 files, decided about by a role, compared with the same.
- *list tools*: all of ``--tools`` tools (10,000 unless named), page by page, compared with the same.  The
  other rows have 100 tools, as hosts' servers have, listed once before as every host does.
- *recorded call*: a Python tool in the sandbox, its workspace saved and committed; FastMCP runs its own
  in its process and keeps nothing.  What it is measured by is what FastMCP takes and, in the same
  run, our own isolated call and snapshot of one changed file, which are the other two columns.
- *start a server*: an MCP server of npm from the cache in the sandbox, until it has listed its tools, compared with
  the unsandboxed start of the same files, which may take 25 ms less, and with ``npx -y`` and a full cache of npm.  It
  needs npm and its registry, and no fastmcp.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
from anyio.to_thread import run_sync
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from bench.workspaces import make_files, path_of
from covalt_git.calls.servers.mcp_calls import definition, list_tools
from covalt_git.calls.servers.server_programs import pin
from covalt_git.connections.event_handlers import EventHandlers
from covalt_git.connections.pool import CONNECTIONS
from covalt_git.grants.grants import add_grant
from covalt_git.models.tool_properties import Limits
from covalt_git.project import Project
from covalt_git.runtime import sandbox_levels
from covalt_git.runtime.jobs import Job
from covalt_git.runtime.python_tool import run
from covalt_git.sources.refresh import accept, find_source, refresh
from covalt_git.toolsets.new_project import create_project
from covalt_git.toolsets.toolset import read_toolset
from covalt_git.toolsets.toolset_copies import ToolsetCopy

if TYPE_CHECKING:
    from covalt_git.connections.definition import Definition
    from covalt_git.grants.plans import GrantKind

REPOSITORY = Path(__file__).parent.parent
THEIRS = str(REPOSITORY / "bench" / "fastmcp_server.py")
TOKEN = "token-of-the-benchmark"
FILES = 100
FEW_TOOLS = 100
LISTING = "list tools"
ROWS = ("read a file", LISTING, "recorded call")
STARTING = "start a server"
STARTED = "@modelcontextprotocol/server-everything"
IN_A_TOOLSET = 1_000
"""Tools of one toolset at most, so that its manifest stays within what one may hold."""
CONFIG = """\
version: 1
default_role: agent
roles: {agent: {allow: ["bench*.*", "workspace.*"], deny: ["bench.hidden_*"]}}
"""
PYTHON = '''\
def echo(text: str) -> dict[str, str]:
    """Give back."""
    return {"text": text}
'''

Side = Callable[[], Awaitable[Any]]


def make_project(root: Path, tools: int) -> Path:
    """Make a project with so many tools and a chat of 100 files; return its workspace."""
    create_project(root)
    (root / "covalt.yaml").write_text(CONFIG)
    for first in range(0, tools, IN_A_TOOLSET):
        toolset = f"bench_{first // IN_A_TOOLSET}" if first else "bench"
        folder = root / "toolsets" / toolset
        (folder / "tools").mkdir(parents=True)
        (folder / "tools" / "bench.py").write_text(PYTHON)
        lines = [
            f"  - {{id: echo_{number}, entrypoint: tools.bench:echo}}"
            for number in range(first, min(first + IN_A_TOOLSET, tools))
        ]
        head = f'id: {toolset}\nname: Bench\nversion: "1"\ntools:\n'
        (folder / "toolset.yaml").write_text(head + "\n".join(lines) + "\n")
    with Project.open(root).chats.new("c1") as chat:
        make_files(chat.workspace, FILES)
        with Project.open(root).writing(chat) as writer:
            writer.commit_changes()
        return chat.workspace


async def listed(client: Client) -> int:
    """Return how many tools there are, all pages asked for."""
    count, cursor = 0, None
    while True:
        page = await client.list_tools(cursor=cursor)
        count, cursor = count + len(page.tools), page.next_cursor
        if cursor is None:
            return count


async def timed(sides: list[Side], rounds: int) -> list[float]:
    """Return the median of each side in milliseconds; the sides take turns."""
    took: list[list[float]] = [[] for _ in sides]
    for number in range(rounds + 2):
        for side, times in zip(sides, took, strict=True):
            began = time.perf_counter()
            await side()
            if number >= 2:  # the first ones warm up
                times.append((time.perf_counter() - began) * 1000)
    return [statistics.median(times) for times in took]


def free_port() -> int:
    """Return an unused port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def over_http(
    args: argparse.Namespace, root: Path, workspace: Path, tools: int
) -> Iterator[dict[str, str]]:
    """Run both servers over HTTP; yield their addresses."""
    ours, theirs = free_port(), free_port()
    paths = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "server")])
    env = {**os.environ, "PYTHONPATH": paths, "COVALT_GIT_TOKEN": TOKEN}
    commands = [
        [sys.executable, "-m", "covalt_git", "-C", str(root), "serve", "--port", str(ours)],
        [args.fastmcp, THEIRS, str(workspace), str(tools), str(theirs)],
    ]
    running = [
        subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for command in commands
    ]
    try:
        for port in (ours, theirs):
            await_port(port)
        yield {
            "ours": f"http://127.0.0.1:{ours}/mcp?chat=c1",
            "theirs": f"http://127.0.0.1:{theirs}/mcp",
        }
    finally:
        for process in running:
            process.terminate()
            process.wait()


def await_port(port: int) -> None:
    """Wait until a server listens on a port."""
    for _ in range(600):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.1)
    raise TimeoutError(port)


@cache
def own_pieces(root: Path) -> tuple[Side, Side]:
    """Return our own isolated call, and our snapshot of one changed file of 100, in this process."""
    project = Project.open(root)
    job = Job(
        toolset=ToolsetCopy.of(read_toolset(root, "bench")),
        entrypoint="tools.bench:echo",
        args={"text": "x"},
        workspace=project.chats.new("c2").__enter__().workspace,
        chat_id="c2",
        call_id="call",
        level=sandbox_levels.level(),
        limits=Limits(timeout_s=60, output_mb=16),
        warm=True,
    )
    numbers = count()
    chat = project.chats.open("c2").__enter__()
    make_files(chat.workspace, FILES)

    def snapshot() -> None:
        (chat.workspace / path_of(FILES // 2)).write_text(f"{next(numbers)}")
        with project.writing(chat) as writer:
            writer.commit_changes()

    return lambda: run_sync(run, job), lambda: run_sync(snapshot)


async def measured(
    args: argparse.Namespace, root: Path, tools: int, names: list[str]
) -> dict[str, list[float]]:
    """Measure rows with a project of so many tools."""
    workspace = make_project(root, tools)
    paths = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "server")])
    ours = StdioServerParameters(
        command=sys.executable,
        args=["-m", "covalt_git", "-C", str(root), "mcp", "--chat", "c1"],
        env={"PYTHONPATH": paths},
    )
    theirs = StdioServerParameters(command=args.fastmcp, args=[THEIRS, str(workspace), str(tools)])
    found: dict[str, list[float]] = {}
    if over_stdio := [name for name in names if name.endswith("stdio")]:
        async with Client(ours, cache=None) as we, Client(theirs, cache=None) as they:
            found |= await compared(args, root, tools, (we, they), over_stdio)
    if others := [name for name in names if name not in over_stdio]:
        with over_http(args, root, workspace, tools) as urls:
            headers = {"Authorization": f"Bearer {TOKEN}"}
            async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
                way = streamable_http_client(urls["ours"], http_client=http)
                async with (
                    Client(way, cache=None) as we,
                    Client(urls["theirs"], cache=None) as they,
                ):
                    found |= await compared(args, root, tools, (we, they), others)
    return found


async def compared(
    args: argparse.Namespace,
    root: Path,
    tools: int,
    clients: tuple[Client, Client],
    names: list[str],
) -> dict[str, list[float]]:
    """Measure rows with two clients that are connected."""
    we, they = clients
    path = path_of(FILES // 2)
    rows: dict[str, list[Side]] = {
        "read a file": [
            lambda: we.call_tool("workspace.read_file", {"path": path}),
            lambda: they.call_tool("read_file", {"path": path}),
        ],
        LISTING: [lambda: listed(we), lambda: listed(they)],
        "recorded call": [
            lambda: we.call_tool("bench.echo_1", {"text": "x"}),
            lambda: they.call_tool("echo_1", {"text": "x"}),
            *own_pieces(root),
        ],
    }
    assert min(await listed(we), await listed(they)) >= tools
    found: dict[str, list[float]] = {}
    for name in names:
        row = name.rpartition(", ")[0]
        first = await rows[row][0]()
        assert not getattr(first, "is_error", False), first
        rounds = max(3, args.rounds // 40) if row == LISTING else args.rounds
        found[name] = await timed(rows[row], rounds)
    return found


def started(root: Path, rounds: int) -> list[float]:
    """Measure the start of a server from the cache, without a sandbox, and by npx."""
    create_project(root)
    manifest = f"id: gear\nname: Gear\nversion: '1'\nmcp_servers:\n  - {{id: run, command: npx, args: [-y, '{STARTED}']}}\n"
    (root / "toolsets/gear").mkdir(parents=True)
    (root / "toolsets/gear/toolset.yaml").write_text(manifest)
    workspace = root / "workspace"
    workspace.mkdir()

    def granted_as(kind: GrantKind) -> Definition:
        add_grant(root, "gear", kind, "run", by="bench")
        source = find_source(root, "gear", "run")
        refresh(root, source, partial(list_tools, root=root), pin=pin)
        new = find_source(root, "gear", "run")
        accept(root, "gear", "run", {one.name: one.digest for one in new.to_accept})
        toolset = read_toolset(root, "gear")
        assert toolset.manifest is not None
        (server,) = toolset.manifest.mcp_servers
        return definition(
            toolset, server, root=root, workspace=workspace, chat_id=None, command=None
        )

    def start(server: Definition) -> None:
        CONNECTIONS.tools(server, handlers=EventHandlers())
        CONNECTIONS.end(server.name)

    unsandboxed = granted_as("unsandboxed")
    sandboxed = granted_as("server")
    by_npx = replace(unsandboxed, argv=("npx", "-y", STARTED), check=None)

    def side(server: Definition) -> Side:
        return lambda: run_sync(start, server)

    sides = [side(server) for server in (sandboxed, unsandboxed, by_npx)]
    try:
        return anyio.run(timed, sides, rounds)
    finally:
        CONNECTIONS.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--fastmcp", metavar="PYTHON", help="needed for all rows but the start")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--tools", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = [f"{row}, {way}" for way in ("stdio", "HTTP") for row in ROWS]
    wanted = [name for name in rows if not args.rows or any(one in name for one in args.rows)]
    if wanted and args.fastmcp is None:
        parser.error("--fastmcp is missing")
    found: dict[str, list[float]] = {}
    if any(one in STARTING for one in args.rows):
        with tempfile.TemporaryDirectory() as folder:
            found[STARTING] = started(Path(folder) / "project", max(3, args.rounds // 10))
    for tools in sorted({FEW_TOOLS, args.tools}) if wanted else ():
        names = [name for name in wanted if tools == (args.tools if LISTING in name else FEW_TOOLS)]
        with tempfile.TemporaryDirectory() as folder:
            found |= anyio.run(measured, args, Path(folder) / "project", tools, names)
    if args.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{'':22}{'ours ms':>10}{'FastMCP ms':>12}{'call ms':>9}{'snapshot ms':>13}{'ratio':>8}")
    if times := found.pop(STARTING, None):
        ours, unsandboxed, npx = times
        print(f"{STARTING}: {ours:.0f}, without a sandbox {unsandboxed:.0f}, npx -y {npx:.0f}")
    for name, (ours, theirs, *pieces) in found.items():
        shown = "".join(f"{one:{width}.2f}" for one, width in zip(pieces, (9, 13), strict=False))
        print(f"{name:22}{ours:10.2f}{theirs:12.2f}{shown:22}{ours / (theirs + sum(pieces)):8.2f}")


if __name__ == "__main__":
    main()
