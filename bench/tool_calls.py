"""How long calls of Python tools take, compared with what others take, in one run.

    python -m bench.tool_calls [ROW...] [--rounds N] [--mcp PYTHON] [--durability fast] [--json]

A row is any part of a row's name; without one all are run.  Both sides of a row take turns, so that a
busy machine is busy for both; figures are medians in milliseconds.

- *warm round trip*: from the request's sending to the answer, in an idle warm sandbox, compared with a call of mcp's
  low-level server over stdio.  Both come after the same pause, as an assistant makes them, for processes that
  have slept take longer.  ``PYTHON`` is an interpreter that has mcp; without one the row is left out.
- *isolated call*: a whole call in a process of its own at the strongest level, the module imported before,
  compared with ``python -c "import pydantic"``.
- *sandbox, warm* and *sandbox, cold*: the same call at the strongest level and at ``process``, in a warm sandbox
  and in a new one; the difference.
- *recorded call*: a call that changes one of 1,000 files of a workspace, through the engine: brought
  back, run, saved, committed and in the index; compared with the isolated call.  It is made as the server
  makes it, with the watch, and as a command does, which scans every file twice.  It waits for the
  disk a dozen times, unless ``--durability fast`` leaves that to the system.
- *signed call*: the same call with ``audit.sign_key``, compared with the call without it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.workspaces import make_files, path_of
from covalt_git.calls.engine import CallRequest
from covalt_git.models.project_config import CommitKey
from covalt_git.models.tool_properties import Limits
from covalt_git.project import Project
from covalt_git.runtime import sandbox_levels
from covalt_git.runtime.awaited_call import AwaitedCall
from covalt_git.runtime.jobs import Job
from covalt_git.runtime.python_tool import run
from covalt_git.toolsets.new_project import create_project
from covalt_git.toolsets.toolset import read_toolset
from covalt_git.toolsets.toolset_copies import ToolsetCopy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from covalt_git.models.calls import SandboxLevel
    from covalt_git.runtime.pool import SandboxProcess

MANIFEST = """\
id: bench
name: Bench
version: "1"
tools:
  - {id: edit, entrypoint: tools.bench:edit}
  - {id: echo, entrypoint: tools.bench:echo}
"""
PYTHON = '''\
from pathlib import Path

from pydantic import BaseModel


class Edited(BaseModel):
    path: str
    size: int


def edit(workspace: Path, path: str, text: str) -> Edited:
    """Write a file."""
    (workspace / path).write_text(text, encoding="utf-8")
    return Edited(path=path, size=len(text))


def echo(text: str) -> dict[str, str]:
    """Give back."""
    return {"text": text}
'''

Pair = tuple[float, float]
"""What the others and what ours took, in seconds."""


@dataclass(frozen=True)
class Row:
    name: str
    others: str
    must: float
    rounds: int
    measure: Callable[[Bench, int], Iterator[Pair]]
    is_difference: bool = False


class SkippedError(Exception):
    """The row cannot be measured here."""


@dataclass(frozen=True)
class Bench:
    """A project with a chat of 1,000 files."""

    root: Path
    mcp: str | None

    @property
    def workspace(self) -> Path:
        return self.root / "data" / "chats" / "c1" / "workspace"

    def job(self, **changes: Any) -> Job:
        fields: dict[str, Any] = {
            "toolset": ToolsetCopy.of(read_toolset(self.root, "bench")),
            "entrypoint": "tools.bench:echo",
            "args": {"text": "hello"},
            "workspace": self.workspace,
            "chat_id": "c1",
            "call_id": "call-1",
            "level": sandbox_levels.level(),
            "limits": Limits(timeout_s=60, output_mb=16),
            "warm": True,
        }
        return Job(**fields | changes)


@contextlib.contextmanager
def benches(mcp: str | None = None, durability: str = "full") -> Iterator[Bench]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "project"
        create_project(root)
        settings = f"version: 1\nworkspace: {{durability: {durability}}}\n"
        (root / "covalt.yaml").write_text(settings, encoding="utf-8")
        tools = root / "toolsets" / "bench" / "tools"
        tools.mkdir(parents=True)
        (tools.parent / "toolset.yaml").write_text(MANIFEST, encoding="utf-8")
        (tools / "bench.py").write_text(PYTHON, encoding="utf-8")
        project = Project.open(root)
        with project.chats.new("c1"):
            pass
        made = Bench(root, mcp)
        make_files(made.workspace, 1000)
        yield made


def seconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def succeed(job: Job) -> None:
    outcome = run(job)
    assert outcome.status == "success", outcome


def round_trip(bench: Bench, rounds: int) -> Iterator[Pair]:
    python = bench.mcp or sys.executable
    if bench.mcp is None and importlib.util.find_spec("mcp") is None:
        raise SkippedError("this interpreter has no mcp; name one that has by --mcp")
    job, answered = bench.job(), dict[str, float]()

    class Timed(AwaitedCall):
        def __init__(self, sandbox_process: SandboxProcess, job: Job) -> None:
            answered["sent"] = time.perf_counter()
            super().__init__(sandbox_process, job)

        def _hear(self, chunk: bytes) -> None:
            super()._hear(chunk)
            answered.setdefault("at", time.perf_counter())

    from covalt_git.runtime import python_tool  # noqa: PLC0415 - the name that it uses is replaced

    def ours() -> float:
        answered.clear()
        succeed(job)
        return answered["at"] - answered["sent"]

    python_tool.AwaitedCall = Timed  # type: ignore[misc]
    try:
        with mcp_calls(python) as theirs:
            for number in range(rounds + 20):
                pair = after_pause(theirs), after_pause(ours)
                if number >= 20:
                    yield pair
    finally:
        python_tool.AwaitedCall = AwaitedCall  # type: ignore[misc]


def after_pause(action: Callable[[], float]) -> float:
    time.sleep(0.01)  # by then the warm sandbox is idle again
    return action()


@contextlib.contextmanager
def mcp_calls(python: str) -> Iterator[Callable[[], float]]:
    """Start a client of mcp; the yielded function makes a call and returns its duration."""
    argv = [python, "-m", "bench.mcp_echo"]
    here = Path(__file__).parents[1]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, cwd=here, stdin=pipe, stdout=pipe, text=True) as client:
        asking, telling = client.stdin, client.stdout
        assert asking is not None
        assert telling is not None

        def call() -> float:
            asking.write("hello\n")
            asking.flush()
            return float(telling.readline())

        yield call
        asking.close()


def isolated(bench: Bench, rounds: int) -> Iterator[Pair]:
    argv, job = [sys.executable, "-c", "import pydantic; pydantic.BaseModel"], bench.job()
    succeed(job)
    for _ in range(rounds):
        others = seconds(lambda: subprocess.run(argv, check=True))
        yield others, seconds(lambda: succeed(job))


def strongest_level(bench: Bench, rounds: int, *, warm: bool) -> Iterator[Pair]:
    levels: tuple[SandboxLevel, SandboxLevel] = ("process", sandbox_levels.level())
    if levels[1] == "process":
        raise SkippedError("this machine has no level but process")
    jobs = [bench.job(level=level, warm=warm) for level in levels]
    for job in jobs:
        succeed(job)
    for _ in range(rounds):
        without, within = (seconds(lambda job=job: succeed(job)) for job in jobs)
        yield without, within


def warm_sandbox(bench: Bench, rounds: int) -> Iterator[Pair]:
    return strongest_level(bench, rounds, warm=True)


def cold_sandbox(bench: Bench, rounds: int) -> Iterator[Pair]:
    return strongest_level(bench, rounds, warm=False)


def recorded(bench: Bench, rounds: int) -> Iterator[Pair]:
    chance = random.Random(1)
    project = Project.open(bench.root)
    with project.chats.open("c1") as chat, project.chat_index() as index:

        def call(number: int) -> None:
            path = path_of(chance.randrange(1000))
            args = {"path": path, "text": f"text {number}\n"}
            outcome = project.engine().call(chat, CallRequest("bench:edit", args))
            assert outcome.call.status == "success", outcome
            index.sync_chat(chat)

        job = bench.job()
        for _ in range(4):
            call(-1)
        succeed(job)
        for number in range(rounds):
            others = seconds(lambda: succeed(job))
            yield others, seconds(lambda number=number: call(number))


def signed(bench: Bench, rounds: int) -> Iterator[Pair]:
    """Yield what a call takes without and with ``audit.sign_key``; each opens the chat, as a request does."""
    if shutil.which("ssh-keygen") is None:
        raise SkippedError("there is no ssh-keygen")
    key = bench.root.parent / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    unsigned = Project.open(bench.root)
    workspace = unsigned.config.workspace.with_commit_key(CommitKey(bench.root, str(key), True))
    config = unsigned.config.model_copy(update={"workspace": workspace})
    projects = (unsigned, replace(unsigned, config=config))

    def call(project: Project, number: int) -> None:
        with project.chats.open("c1") as chat:
            args = {"path": path_of(number % 1000), "text": f"text {number}\n"}
            outcome = project.engine().call(chat, CallRequest("bench:edit", args))
            assert outcome.call.status == "success", outcome

    for number in range(rounds + 4):
        pair = tuple(seconds(lambda of=of, number=number: call(of, number)) for of in projects)
        if number >= 4:
            yield pair[0], pair[1]


ROWS = (
    Row("warm round trip", "mcp low-level, stdio", 1.2, 200, round_trip),
    Row("isolated call, tool imported", "python -c 'import pydantic'", 0.05, 60, isolated),
    Row("sandbox, warm", "level process", 5, 100, warm_sandbox, is_difference=True),
    Row("sandbox, cold", "level process", 25, 40, cold_sandbox, is_difference=True),
    Row("recorded call, 1,000 files", "isolated call", 3, 40, recorded),
    Row("signed call", "unsigned call", 1.1, 60, signed),
)


def measured(row: Row, bench: Bench, rounds: int | None) -> dict[str, object]:
    try:
        pairs = list(row.measure(bench, rounds or row.rounds))
    except SkippedError as why:
        return {"row": row.name, "skipped": str(why)}
    others, ours = (statistics.median(side) * 1000 for side in zip(*pairs, strict=True))
    figure = ours - others if row.is_difference else ours / others
    return {
        "row": row.name,
        "others": row.others,
        "others_ms": round(others, 2),
        "ours_ms": round(ours, 2),
        "figure": round(figure, 3),
        "must": round(row.must, 3),
        "unit": "ms more" if row.is_difference else "x",
        "reached": figure <= row.must,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", metavar="ROW")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--mcp", metavar="PYTHON")
    parser.add_argument("--durability", choices=("full", "fast"), default="full")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    chosen = [row for row in ROWS if not asked.rows or any(one in row.name for one in asked.rows)]
    with benches(asked.mcp, asked.durability) as bench:
        found = [measured(row, bench, asked.rounds) for row in chosen]
    if asked.json:
        print(json.dumps(found, indent=2))
        return
    print(f"level {sandbox_levels.level()}")
    for one in found:
        if "skipped" in one:
            print(f"{one['row']:36} left out: {one['skipped']}")
            continue
        verdict = "yes" if one["reached"] else "NO"
        print(
            f"{one['row']:36} {one['ours_ms']:>8} ms   {one['others']}: {one['others_ms']} ms   "
            f"{one['figure']} {one['unit']} (must {one['must']}) {verdict}"
        )


if __name__ == "__main__":
    main()
