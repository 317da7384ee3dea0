"""Scripts of both languages wait for reviewers, whose processes are killed with SIGKILL at random instants."""

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from covalt_git.errors import CovaltError
from covalt_git.names import new_id
from covalt_git.toolsets.new_project import create_project
from tests.operations_client import Operations
from tests.stress.figures import Proof
from tests.stress.forks import fork
from tests.workspaces.stores import scratch
from tests.wsgi_server import listening

PROMISE = (
    "If reviewers are killed, each call of a script has its effect at most once, none that was acknowledged is missing, "
    "and a doubtful call says that it was interrupted."
)
COUNT = 1000
KILLS_PER_SCRIPT, FEWEST = 5, 40
DECIDERS = 16
CHATS = 10
LONGEST_LIFE_S = 2.0
_MOST_ROUNDS = 10

_CONFIG = """\
version: 1
workspace: {durability: fast}
default_role: agent
roles:
  agent: {allow: ["marks.*", "workspace.*"]}
  boss: {admin: true}
approvals:
  - {pattern: "marks.pay", require: true}
limits: {script: {waiting: 1000, time_s: 300}}
"""
_MANIFEST = """\
id: marks
name: Marks
version: "1"
tools:
  - {id: mark, description: Mark., http: {method: POST, url: "http://127.0.0.1:PORT/mark", query: {name: $args.name}}, input_schema: SCHEMA}
  - {id: pay, description: Pay., http: {method: POST, url: "http://127.0.0.1:PORT/mark", query: {name: $args.name}}, input_schema: SCHEMA}
"""
_SCHEMA = "{type: object, properties: {name: {type: string}}, required: [name]}"
_PYTHON = """\
results = []
for call in [tools.marks.mark, tools.marks.pay, tools.marks.mark]:
    try:
        call(name=args["name"] + "-" + str(len(results)))
        results.append("ok")
    except Exception as error:
        results.append(str(error).split(":")[0])
results
"""
_JAVASCRIPT = """\
const results = [];
for (const call of [tools.marks.mark, tools.marks.pay, tools.marks.mark]) {
  try {
    await call({name: args.name + "-" + results.length});
    results.push("ok");
  } catch (error) {
    results.push(error.code);
  }
}
results
"""


def prove(proof: Proof, count: int, seed: int) -> None:
    """Start scripts, kill ``count`` processes that decide about them and continue them, and compare the marks."""
    chance = random.Random(seed)
    marks, lock = Counter[str](), threading.Lock()

    def served(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        name = parse_qs(environ["QUERY_STRING"])["name"][0]
        with lock:
            marks[name] += 1
        start("200 OK", [("Content-Type", "application/json")])
        return [b'{"marked": true}']

    with scratch() as folder, listening(served) as port:
        root = _project(folder / "project", port)
        names = _begin(root, max(FEWEST, count // KILLS_PER_SCRIPT))
        killed = _kill(proof, root, folder, count, chance)
        _finish(root)
        states = Counter[str]()
        boss = Operations(root, role="boss")
        for name, script_id in names.items():
            shown = boss("get_script", script_id=script_id)
            results = shown["result"].get("value") or []
            proof.check(
                len(results) == 3, f"{name} did not end: {shown['state']} {shown['result']}"
            )
            for number, result in enumerate(results):
                made = marks[f"{name}-{number}"]
                proof.check(made <= 1, f"{name}-{number} has {made} marks")
                proof.check(result in {"ok", "interrupted"}, f"{name}-{number} says {result}")
                proof.check(result != "ok" or made == 1, f"{name}-{number} is missing")
                states[result] += 1
    proof.note("scripts", len(names))
    proof.note("kills of running deciders", killed)
    proof.note("calls with one mark that say so", states["ok"])
    proof.note("calls that say interrupted", states["interrupted"])
    proof.note("calls with two marks", 0)
    proof.note("acknowledged calls without a mark", 0)


def _project(root: Path, port: int) -> Path:
    create_project(root)
    folder = root / "toolsets/marks"
    folder.mkdir()
    (folder / "toolset.yaml").write_text(
        _MANIFEST.replace("PORT", str(port)).replace("SCHEMA", _SCHEMA)
    )
    (root / "covalt.yaml").write_text(_CONFIG)
    boss = Operations(root, role="boss")
    boss("add_grant", toolset_id="marks", kind="network", hosts=[f"127.0.0.1:{port}"])
    for number in range(CHATS):
        boss("create_chat", chat_id=f"c{number}")
    return root


def _begin(root: Path, count: int) -> dict[str, str]:
    """Start scripts until they wait, and return their ids by the names of their marks."""
    agent, ids = Operations(root), {}
    for number in range(count):
        name = f"s{number}"
        is_python = number % 2 == 0
        args = {
            "script": _PYTHON if is_python else _JAVASCRIPT,
            "language": "python" if is_python else "javascript",
            "args": {"name": name},
        }
        answer = agent(
            "call_tool",
            chat_id=f"c{number % CHATS}",
            tool_id="workspace:run_script",
            args=args,
            call_id=new_id(),
        )
        ids[name] = answer["id"]
    return ids


def _kill(proof: Proof, root: Path, folder: Path, count: int, chance: random.Random) -> int:
    """Keep deciders at work, and kill one after the other."""
    alive: list[int] = []
    killed = 0

    def start() -> None:
        number = chance.randrange(10**9)
        child = fork(partial(_decide, root, number), folder / f"error-{len(alive)}")
        alive.append(child.pid)

    try:
        while killed < count:
            while len(alive) < DECIDERS:
                start()
            time.sleep(chance.random() * LONGEST_LIFE_S / DECIDERS)
            _end(alive.pop(chance.randrange(len(alive))))
            killed += 1
            proof.progress(killed, count)
    finally:
        for pid in alive:
            _end(pid)
    return killed


def _end(pid: int) -> None:
    """Kill a process that still runs: a decider that has nothing to decide waits."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _decide(root: Path, seed: int) -> None:
    """Approve what waits and continue what was interrupted, in a random order, without an end."""
    chance = random.Random(seed)
    boss = Operations(root, role="boss")
    while True:
        _step(boss, chance)
        time.sleep(chance.random() * 0.05)


def _step(boss: Operations, chance: random.Random) -> bool:
    """Decide about a random script, or continue it; return whether there was one."""
    rows = boss("list_scripts")["scripts"]
    if rows:
        _settle(boss, chance.choice(rows))
    return bool(rows)


def _settle(boss: Operations, row: dict[str, Any]) -> None:
    """Decide about a script, or continue it."""
    try:
        if row["execution_id"] is not None:
            boss("approve_call", execution_id=row["execution_id"])
        else:
            boss("continue_script", script_id=row["id"])
    except CovaltError:
        # Another decider was faster, or the chat is busy.
        pass


def _finish(root: Path) -> None:
    """Let all scripts end; each needs few rounds, of which a list of all is a large part."""
    boss = Operations(root, role="boss")
    for _ in range(_MOST_ROUNDS):
        rows = boss("list_scripts")["scripts"]
        for row in rows:
            _settle(boss, row)
        if not rows:
            return
