"""How long scripts take that call tools, compared with the same calls without one, in one run.

    python -m bench.scripts [--rounds N] [--fastmcp PYTHON] [--json]

Both sides of a row take turns, so that a busy machine is busy for both; figures are medians in milliseconds.

- *100 calls*: 100 read-only calls, one after the other, in a script, compared with 100 direct calls.
- *one call, warm*: a script with one call, compared with FastMCP's code mode and the same function, which has no sandbox
  around its interpreter.  ``PYTHON`` is an interpreter that has fastmcp and its code mode; without one the row is left out.
- *one call, direct*: the same script compared with its call, made directly: both are commits, and code mode has no record.
- *continue after 200 calls*: the decision about a call of a script that has made 200, without the same call by itself.
- *search mode*: the size of the list of tools that an agent gets in search mode, with the tool that runs scripts.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from covalt_git.gateway.service import Gateway
from covalt_git.operations.calls import approvals, calls
from covalt_git.operations.chats import chats
from covalt_git.operations.context import Context
from covalt_git.project import Project
from covalt_git.toolsets.builtin_tools import RUN_SCRIPT
from covalt_git.toolsets.new_project import create_project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CONFIG = """\
version: 1
workspace: {durability: fast}
roles: {boss: {admin: true}}
default_role: boss
approvals: [{pattern: bench.pay, require: true}]
limits: {script: {calls: 300, time_s: 60}}
"""
MANIFEST = """\
id: bench
name: Bench
version: "1"
tools:
  - {id: echo, entrypoint: "tools.bench:echo", annotations: {read_only: true}}
  - {id: pay, entrypoint: "tools.bench:echo", annotations: {read_only: false}}
"""
PYTHON = '''\
def echo(text: str) -> dict[str, str]:
    """Give back."""
    return {"text": text}
'''
MANY = "for number in range({0}):\n    tools.bench.echo(text=str(number))\n"
_CODE_MODE = """\
import asyncio, json, statistics, sys, time
from fastmcp import Client, FastMCP
from fastmcp.experimental.transforms.code_mode import CodeMode

server = FastMCP("bench", transforms=[CodeMode()])

@server.tool
def echo(text: str) -> dict[str, str]:
    return {"text": text}

async def main() -> None:
    took = []
    code = 'return await call_tool("echo", {"text": "a"})'
    async with Client(server) as client:
        for _ in range(int(sys.argv[1])):
            began = time.perf_counter()
            await client.call_tool("execute", {"code": code})
            took.append(1000 * (time.perf_counter() - began))
    print(json.dumps(statistics.median(took[2:])))

asyncio.run(main())
"""


class Row(NamedTuple):
    """A row: its figure, and the most that it may be."""

    row: str
    figure: float
    must: float
    unit: str

    @property
    def reached(self) -> bool:
        return self.figure <= self.must


def _project(folder: Path) -> Path:
    root = folder / "project"
    create_project(root)
    (root / "covalt.yaml").write_text(CONFIG)
    tools = root / "toolsets/bench/tools"
    tools.mkdir(parents=True)
    (tools.parent / "toolset.yaml").write_text(MANIFEST)
    (tools / "bench.py").write_text(PYTHON)
    return root


def _call(root: Path, tool_id: str, chat_id: str = "c1", **args: Any) -> Any:
    with Context(root, lambda: Project.open(root)) as context:
        return calls.call_tool(context, chat_id=chat_id, tool_id=tool_id, args=args)


def _approve(root: Path, execution_id: str) -> None:
    with Context(root, lambda: Project.open(root)) as context:
        approvals.approve_call(context, execution_id=execution_id)


def _took(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return 1000 * (time.perf_counter() - began)


def _medians(rounds: int, *actions: Callable[[], float]) -> list[float]:
    """Return the medians of actions that take turns; each returns its milliseconds."""
    took: list[list[float]] = [[] for _ in actions]
    for _ in range(rounds):
        for figures, action in zip(took, actions, strict=True):
            figures.append(action())
    return [statistics.median(figures) for figures in took]


def rows(root: Path, rounds: int, fastmcp: str | None) -> Iterator[Row]:
    """Measure, and yield the rows."""
    with Context(root, lambda: Project.open(root)) as context:
        chats.create_chat(context, chat_id="c1")

    def script(source: str) -> Any:
        answer = _call(root, RUN_SCRIPT, script=source)
        assert answer.status != "error", answer.result
        return answer

    def direct() -> None:
        with Context(root, lambda: Project.open(root)) as context:
            for number in range(100):
                args = {"text": str(number)}
                calls.call_tool(context, chat_id="c1", tool_id="bench:echo", args=args)

    def continued() -> float:
        answer = script(MANY.format(200) + "tools.bench.pay(text='a')")
        return _took(lambda: _approve(root, answer.execution_id))

    def alone() -> float:
        answer = _call(root, "bench:pay", text="a")
        return _took(lambda: _approve(root, answer.execution_id))

    script("tools.bench.echo(text='a')")
    inside, outside = _medians(
        rounds, lambda: _took(lambda: script(MANY.format(100))), lambda: _took(direct)
    )
    yield Row("100 calls in a script / direct", inside / outside, 1.5, "x")
    one, alone_once = _medians(
        max(10, 4 * rounds),
        lambda: _took(lambda: script("tools.bench.echo(text='a')")),
        lambda: _took(lambda: _call(root, "bench:echo", text="a")),
    )
    yield Row("one call, warm / the same call, direct", one / alone_once, 3, "x")
    done = subprocess.run(
        [fastmcp or "false", "-c", _CODE_MODE, "30"],
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.stdout:  # else it has no code mode, as it said itself
        yield Row("one call, warm / FastMCP's code mode", one / float(done.stdout), 2, "x")
    with_script, without = _medians(rounds, continued, alone)
    yield Row("continue after 200 calls, without the call", with_script - without, 100, "ms")
    listed = Gateway(root, mode="search").listed().values()
    texts = [describe().model_dump_json(by_alias=True, exclude_none=True) for describe in listed]
    yield Row("list of tools in search mode", sum(map(len, texts)), 2800, "bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--fastmcp", metavar="PYTHON", help="an interpreter that has fastmcp")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        root = _project(Path(folder))
        for row in rows(root, asked.rounds, asked.fastmcp):
            if asked.json:
                print(json.dumps(row._asdict() | {"reached": row.reached}))
            else:
                print(f"{row.row:45} {row.figure:8.2f} {row.unit}  at most {row.must:g}")


if __name__ == "__main__":
    main()
