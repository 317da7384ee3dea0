"""How long the MCP server takes over stdio, beside a FastMCP server with the same function.

    python -m bench.gateway --fastmcp PYTHON [ROW...] [--rounds N] [--tools N] [--json]

``PYTHON`` is an interpreter that has fastmcp.  A row is any part of a row's name; without one all are
run.  Both servers run all the while and take turns, so that a busy machine is busy for both; the client
is the SDK's own, for both the same.  Figures are medians in milliseconds.

- *read a file*: ``workspace.read_file`` of one of 100 files, decided about by a role, beside the same.
- *list tools*: all of ``--tools`` tools (10,000 unless named), page by page, beside the same.
- *recorded call*: a Python tool in the sandbox, its workspace saved and committed; FastMCP runs its own
  in its process and keeps nothing, so that the row shows what that costs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters

from bench.workspaces import make_files, path_of
from covalt_git.files.new_project import create_project
from covalt_git.project import Project

REPOSITORY = Path(__file__).parent.parent
FILES = 100
CONFIG = """\
version: 1
default_role: agent
roles: {agent: {allow: ["bench.*", "workspace.*"], deny: ["bench.hidden_*"]}}
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
    folder = root / "toolsets" / "bench"
    (folder / "tools").mkdir(parents=True)
    (folder / "tools" / "bench.py").write_text(PYTHON)
    lines = [f"  - {{id: echo_{number}, entrypoint: tools.bench:echo}}" for number in range(tools)]
    head = 'id: bench\nname: Bench\nversion: "1"\ntools:\n'
    (folder / "toolset.yaml").write_text(head + "\n".join(lines) + "\n")
    with Project.open(root).chats.new("c1") as chat:
        make_files(chat.workspace, FILES)
        with Project.open(root).writing(chat) as writer:
            writer.save_edits()
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


async def measured(args: argparse.Namespace, root: Path, workspace: Path) -> dict[str, list[float]]:
    paths = os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "server")])
    ours = StdioServerParameters(
        command=sys.executable,
        args=["-m", "covalt_git", "-C", str(root), "mcp", "--chat", "c1"],
        env={"PYTHONPATH": paths},
    )
    server = str(REPOSITORY / "bench" / "fastmcp_server.py")
    theirs = StdioServerParameters(
        command=args.fastmcp, args=[server, str(workspace), str(args.tools)]
    )
    path = path_of(FILES // 2)
    async with Client(ours, cache=None) as we, Client(theirs, cache=None, mode="auto") as they:
        assert await listed(we) >= args.tools
        assert await listed(they) >= args.tools
        rows: dict[str, tuple[Side, Side, int]] = {
            "read a file": (
                lambda: we.call_tool("workspace.read_file", {"path": path}),
                lambda: they.call_tool("read_file", {"path": path}),
                args.rounds,
            ),
            "list tools": (lambda: listed(we), lambda: listed(they), max(3, args.rounds // 40)),
            "recorded call": (
                lambda: we.call_tool("bench.echo_1", {"text": "x"}),
                lambda: they.call_tool("echo_1", {"text": "x"}),
                args.rounds,
            ),
        }
        wanted = [name for name in rows if not args.rows or any(row in name for row in args.rows)]
        found = {}
        for name in wanted:
            ours_side, theirs_side, rounds = rows[name]
            first = await ours_side()
            assert not getattr(first, "is_error", False), first
            found[name] = await timed([ours_side, theirs_side], rounds)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--fastmcp", required=True, metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--tools", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "project"
        workspace = make_project(root, args.tools)
        found = anyio.run(measured, args, root, workspace)
    if args.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{'':16}{'ours ms':>10}{'FastMCP ms':>12}{'ratio':>8}")
    for name, (ours, theirs) in found.items():
        print(f"{name:16}{ours:10.2f}{theirs:12.2f}{ours / theirs:8.2f}")


if __name__ == "__main__":
    main()
