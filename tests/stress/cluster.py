"""Servers, workers and Redis are killed again and again while clients make calls of chats on a git server."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from covalt_git.names import new_id
from covalt_git.trust import trust_folder
from tests import nginx_git_server
from tests.api_client import make_project
from tests.operations_client import Operations
from tests.redis_server import RedisServer
from tests.stress.figures import Proof
from tests.workspaces.nodes import on_files
from tests.workspaces.stores import git, run_git, scratch

PROMISE = (
    "If servers, workers and Redis are killed, no acknowledged commit is lost, no call runs twice, each client gets one"
    " answer, and no chat is stuck."
)
COUNT = 100
"""Number of calls; `--count 3000` takes about an hour."""

SERVERS, WORKERS, CHATS, CLIENTS = 2, 3, 12, 8
STUCK_S = 180
"""Time after which a call without an answer is stuck: five times what it takes to replace a dead node."""

KILL_S, DOWN_S, LEASE_S = 4.0, 1.0, 5
_REPOSITORY = Path(__file__).resolve().parents[2]
_TOKEN = "token-of-the-stress-test"
_TOOLS = '''
import time
import urllib.request
from pathlib import Path


def mark(place: str, number: int, seconds: float = 0.0) -> int:
    """Leave a mark outside of the chat, and a file in it."""
    with urllib.request.urlopen(f"{place}/{number}", data=b"") as answer:
        answer.read()
    Path(f"{number}.txt").write_text(str(number))
    time.sleep(seconds)
    return number


def mark_again(place: str, number: int, seconds: float = 0.0) -> int:
    """Do the same; calling it twice is the same as calling it once."""
    return mark(place, number, seconds)
'''
_MANIFEST = """
manifest_version: "1"
id: marks
name: Marks
version: 1.0.0
description: Tools that leave marks
tools:
  - {id: mark, entrypoint: "tools.marks:mark", annotations: {idempotent: false}}
  - {id: mark_again, entrypoint: "tools.marks:mark_again", annotations: {idempotent: true}}
"""


@dataclass
class Marks:
    """Server outside of the chats that counts the runs of each call."""

    counts: Counter[int] = field(default_factory=Counter)
    has_new: threading.Event = field(default_factory=threading.Event)
    server: ThreadingHTTPServer = field(init=False)

    def __post_init__(self) -> None:
        counts, has_new = self.counts, self.has_new

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                counts[int(self.path.rpartition("/")[2])] += 1
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()
                has_new.set()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server.server_address[1]}"


@dataclass
class Program:
    """A server or a worker, which is started again after it was killed."""

    words: list[str]
    env: dict[str, str]
    log: Path
    process: subprocess.Popen[bytes] = field(init=False)

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "covalt_git", *self.words],
                cwd=_REPOSITORY,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@dataclass
class Answer:
    """What the client of a call got."""

    number: int
    chat_id: str
    tool: str
    call: dict[str, Any]
    requests: int
    seconds: float


class Clients:
    """Clients that repeat each request with its call id until they get an answer."""

    def __init__(self, ports: list[int], place: str, count: int, seed: int) -> None:
        self.answers: list[Answer] = []
        self.errors: Counter[str] = Counter()
        self.unanswered: list[str] = []
        self._ports = ports
        self._place = place
        self._numbers = iter(range(count))
        self._lock = threading.Lock()
        self._seed = seed
        self.threads = [threading.Thread(target=self._work, args=(n,)) for n in range(CLIENTS)]

    def _next(self) -> int | None:
        with self._lock:
            return next(self._numbers, None)

    def _work(self, client: int) -> None:
        chance = random.Random(f"{self._seed} {client}")
        while (number := self._next()) is not None:
            tool = "marks:mark_again" if number % 5 == 0 else "marks:mark"
            chat_id = f"c{chance.randrange(CHATS)}"
            seconds = chance.choice([0.0, 0.0, 0.5, 2.0])
            self.make(number, chat_id, tool, seconds, chance)

    def make(
        self, number: int, chat_id: str, tool: str, seconds: float, chance: random.Random
    ) -> None:
        """Make a call, at another server after each failure."""
        args = {"place": self._place, "number": number, "seconds": seconds}
        request = {"chat_id": chat_id, "call_id": new_id(), "tool_id": tool, "args": args}
        started, requests, why = time.monotonic(), 0, ""
        while True:
            requests += 1
            try:
                call = _post(chance.choice(self._ports), "call_tool", request)
                break
            except urllib.error.HTTPError as error:
                body = error.read()
                why = body.decode()
                code = json.loads(body)["error"] if body.startswith(b"{") else str(error.code)
                # The server stops, lacks Redis or the git server, or a killed node still has the lease.
                with self._lock:
                    self.errors[code] += 1
            except (OSError, http.client.HTTPException) as error:
                why = str(error)
                with self._lock:
                    self.errors["connection"] += 1
            if time.monotonic() - started > STUCK_S:
                with self._lock:
                    self.unanswered.append(f"call {number} in {chat_id}: {why}")
                return
            time.sleep(0.2)
        with self._lock:
            seconds = time.monotonic() - started
            self.answers.append(Answer(number, chat_id, tool, call, requests, seconds))


def _post(port: int, name: str, body: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/{name}",
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {_TOKEN}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        value: dict[str, Any] = json.loads(answer.read())
        return value


def prove(proof: Proof, count: int, seed: int) -> None:
    """Make ``count`` calls, and kill a process every few seconds until each has an answer."""
    chance = random.Random(seed)
    with scratch() as folder, ExitStack() as stack:
        folder.chmod(0o755)  # the workers of nginx run as another user
        os.environ["XDG_CONFIG_HOME"] = str(folder / "config")
        trust_folder(Path("/"))
        repositories = folder / "server"
        url, create = on_files(repositories)
        if nginx_git_server.is_installed():
            place = stack.enter_context(nginx_git_server.git_server(repositories, folder / "nginx"))
            url = f"{place}/{{chat_id}}.git"
            proof.note("git server", "git http-backend behind nginx")
        marks = Marks()
        stack.callback(marks.server.shutdown)
        roots = _nodes(folder, url, create, marks.host)
        for number in range(CHATS):
            Operations(roots[0])("create_chat", chat_id=f"c{number}")
        redis = RedisServer(folder / "redis")
        stack.callback(redis.kill)
        ports = [_free_port() for _ in range(SERVERS)]
        programs = _programs(folder, roots, redis.url, ports)
        for program in programs.values():
            program.start()
            stack.callback(program.kill)
        clients = Clients(ports, f"http://{marks.host}", count, seed)
        for thread in clients.threads:
            thread.start()
        kills = _kill(clients, programs, redis, marks, count, chance, proof)
        for thread in clients.threads:
            thread.join()
        _start_ended(programs)
        # Each chat still works, after the kills.
        for number in range(CHATS):
            clients.make(count + number, f"c{number}", "marks:mark", 0.0, chance)
        for program in programs.values():
            program.process.send_signal(signal.SIGTERM)
        stopped = [program.process.wait(60) for program in programs.values()]
        proof.check(stopped == [0] * len(programs), f"not all processes stopped: {stopped}")
        _judge(proof, repositories, clients, marks, count)
        for name, number in sorted(kills.items()):
            proof.note(f"kills of a {name}" if name != "Redis" else "kills of Redis", number)


def _nodes(folder: Path, url: str, create: tuple[str, ...], host: str) -> list[Path]:
    """Return the clones of the project; the first server and the first worker have one folder."""
    root = make_project(folder / "n0")
    tools = root / "toolsets" / "marks" / "tools"
    tools.mkdir(parents=True)
    (tools.parent / "toolset.yaml").write_text(_MANIFEST.lstrip())
    (tools / "marks.py").write_text(_TOOLS.lstrip())
    storage = f"storage: {{type: git, url: '{url}', create: {[*create]}, lease_s: {LEASE_S}}}"
    with (root / "covalt.yaml").open("a") as config:
        config.write(f"\n{storage}\n")
    Operations(root)("add_grant", toolset_id="marks", kind="network", hosts=[f"http://{host}"])
    roots = [root]
    for number in range(1, SERVERS + WORKERS - 1):
        clone = folder / f"n{number}"
        subprocess.run(["cp", "-r", root, clone], check=True)
        roots.append(clone)
    Operations(root)("migrate_storage", to="git")
    return roots


def _programs(folder: Path, roots: list[Path], queue: str, ports: list[int]) -> dict[str, Program]:
    env = os.environ | {"COVALT_GIT_QUEUE": queue, "COVALT_GIT_TOKEN": _TOKEN}
    programs = {}
    for number, port in enumerate(ports):
        words = ["-C", str(roots[number]), "serve", "--port", str(port)]
        programs[f"server {number}"] = Program(words, env, folder / f"server{number}.log")
    for number in range(WORKERS):
        root = roots[0] if not number else roots[SERVERS + number - 1]
        words = ["-C", str(root), "worker", "--concurrency", "4"]
        programs[f"worker {number}"] = Program(words, env, folder / f"worker{number}.log")
    return programs


def _kill(
    clients: Clients,
    programs: dict[str, Program],
    redis: RedisServer,
    marks: Marks,
    count: int,
    chance: random.Random,
    proof: Proof,
) -> Counter[str]:
    """Kill processes every few seconds, and start them again; return how often which kind was chosen."""
    kills: Counter[str] = Counter()
    while any(thread.is_alive() for thread in clients.threads):
        time.sleep(chance.uniform(0.5, 1.5) * KILL_S)
        _start_ended(programs)
        name = chance.choice([*programs, "Redis"])
        kills[name.partition(" ")[0]] += 1
        if name == "Redis":
            redis.kill()
            time.sleep(chance.uniform(0, 2) * DOWN_S)
            redis.start()
        elif name.startswith("server") and not _answers(programs[name]):
            kills["server"] -= (
                1  # it has not started yet: a server that is always killed then would answer nobody
            )
        else:
            names = [name]
            if name.startswith("worker"):
                # While a tool runs, which only one of them knows: every other time, all of them lose power.
                marks.has_new.clear()
                marks.has_new.wait(KILL_S)
                if chance.random() < 0.5:
                    names = [other for other in programs if other.startswith("worker")]
            for ended in names:
                programs[ended].process.send_signal(signal.SIGKILL)
            for ended in names:
                programs[ended].process.wait()
            time.sleep(chance.uniform(0, 2) * DOWN_S)
            for ended in names:
                programs[ended].start()
        proof.progress(len(clients.answers), count)
    return kills


def _answers(server: Program) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", int(server.words[-1]))) == 0


def _start_ended(programs: dict[str, Program]) -> None:
    """Start programs again that have ended by themselves, as systemd does: those that found no Redis at their start."""
    for program in programs.values():
        if program.process.poll() is not None:
            program.start()


def _judge(proof: Proof, repositories: Path, clients: Clients, marks: Marks, count: int) -> None:
    answers = clients.answers
    proof.check(not clients.unanswered, f"no answer: {clients.unanswered}; {clients.errors}")
    numbers = sorted(answer.number for answer in answers)
    proof.check(numbers == [*range(count + CHATS)], "not each call has one answer")
    ends = Counter[str]()
    lost = twice = 0
    reachable = {
        f"c{number}": set(git(repositories / f"c{number}.git", "rev-list", "main").split())
        for number in range(CHATS)
    }
    for answer in answers:
        call, runs = answer.call, marks.counts[answer.number]
        code = (call["error"] or "").partition(":")[0]
        ends[code or call["status"]] += 1
        lost += call["post_manifest_id"] not in reachable[answer.chat_id]
        proof.check(code in {"", "interrupted"}, f"call {answer.number} failed: {call['error']}")
        is_idempotent = answer.tool == "marks:mark_again"
        twice += runs > 1 and not is_idempotent
        if not code:
            proof.check(runs, f"call {answer.number} has a result, and did not run")
    # The last calls were made after the kills, one in each chat.
    last = {answer.chat_id: answer.call["status"] for answer in answers if answer.number >= count}
    stuck = sum(last.get(f"c{number}") != "success" for number in range(CHATS))
    proof.check(not stuck, f"{stuck} chats are stuck")
    proof.check(not lost, f"{lost} acknowledged commits are lost")
    proof.check(not twice, f"{twice} calls ran twice")
    for number in range(CHATS):
        problems = run_git(repositories / f"c{number}.git", "fsck", "--strict", "--no-dangling")
        proof.check(problems.returncode == 0, f"git fsck: {problems.stderr.decode()}")
    seconds = sorted(answer.seconds for answer in answers)
    proof.note("servers, workers, chats, clients", f"{SERVERS}, {WORKERS}, {CHATS}, {CLIENTS}")
    proof.note("calls", len(answers))
    proof.note("calls that succeeded", ends["success"])
    proof.note("calls that were recorded as interrupted", ends["interrupted"])
    proof.note("repeated requests of clients", sum(answer.requests - 1 for answer in answers))
    for code, number in sorted(clients.errors.items()):
        proof.note(f"errors {code}, after which clients repeated their request", number)
    proof.note("acknowledged commits that are lost", lost)
    proof.note("calls that ran twice", twice)
    proof.note("chats that are stuck", stuck)
    proof.note(
        "seconds of a call, median and longest",
        f"{seconds[len(seconds) // 2]:.1f}, {seconds[-1]:.0f}",
    )


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
