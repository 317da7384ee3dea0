"""A cluster of real parts, one of which is killed every few seconds, while clients make calls through its load balancer.

Three servers behind nginx, four workers on five nodes, Redis, and ``git http-backend`` behind nginx and fcgiwrap, with the
configurations in ``deploy/``.  Every five seconds, a server, a worker, all workers, Redis, the load balancer, or the git
server is killed with SIGKILL and started again, or the link of a node to Redis, or of all to the git server, is cut for 20 seconds:
its connections end, or nothing arrives any more.  ``--count 30000`` makes ten times as many calls, and takes ten times as long.

What a client of the API does, and what *one answer* means:

- Each call has a ``call_id``, which the client chooses.  After a broken connection, no response for 40 s, a response of nginx,
  or an error of :data:`REPEATED`, it repeats its request with the same id.  Any other error disproves the promise.
- The answer is a record of the call: ``success``, or ``interrupted``, which means that the tool may have had its effect.
- A call of a tool that needs approval is answered with an approval first.  The client approves it; if that fails, it requests
  the call again, and gets its result, or the approval that is pending now.
- After the end, clients repeat requests, and get the same answer.

The tools count their runs at a server outside of the chats.  At the end, each acknowledged commit and each file must be on the
server's branch, and each call must have one record there.

With ``fresh=True`` instead of ``only_in_chat=True`` in ``queued_calls._make``, a worker does not look for an earlier record of the
call.  The test then reports a call with two answers: it was recorded as interrupted, and ran again.
"""

from __future__ import annotations

import http.client
import os
import random
import re
import signal
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from covalt_git.names import new_id
from covalt_git.trust import trust_folder
from covalt_git.workspaces import commits
from tests.nginx_git_server import GitServer, deployed, free_port, is_installed
from tests.redis_server import RedisServer
from tests.stress.cluster_parts import (
    Client,
    Link,
    Links,
    LoadBalancer,
    Marks,
    Node,
    Program,
    make_nodes,
    wait_until_listening,
)
from tests.stress.figures import Proof
from tests.workspaces.stores import git, run_git, scratch

PROMISE = (
    "If any part of a cluster is killed or cut off, no acknowledged commit is lost, no call runs twice, each client gets one"
    " answer, and no chat is stuck."
)
COUNT = 3000
"""Number of calls."""

SERVERS, CHATS, CLIENTS = 3, 100, 32
WORKERS = ((0, 4), (1, 4), (3, 2), (4, 1))
"""The node of each worker, and its number of concurrent calls.  The servers are on the nodes 0, 1 and 2."""

FAULT_S, DOWN_S, CUT_S = 5.0, 2.0, 20.0
STUCK_S = 300.0
"""Time after which a call without an answer is stuck, while parts are killed."""

FREE_S = 90.0
"""Time within which each chat takes a call afterwards: a dead worker, a dead node, and the call itself."""

REPEATED = {
    "chat_busy",
    "lease_lost",
    "queue_unavailable",
    "still_running",
    "storage_refused",
    "storage_unavailable",
}
"""Errors after which a client repeats its request."""


@dataclass
class Answer:
    """What the client of a call got, and when."""

    number: int
    request: dict[str, Any]
    call: dict[str, Any]
    requests: int
    seconds: float

    @property
    def error(self) -> str:
        return (self.call["error"] or "").partition(":")[0]

    @property
    def facts(self) -> tuple[Any, ...]:
        """What is the same in each answer to a call."""
        return tuple(self.call[name] for name in ("id", "status", "error", "post_manifest_id"))


class Clients:
    """Clients that repeat each request with its call id until they get an answer."""

    def __init__(self, port: int, marks: str, count: int, seed: int) -> None:
        self.answers: list[Answer] = []
        self.errors: Counter[str] = Counter()
        self.faults: list[str] = []
        """Calls without an answer, and answers that no client should get."""
        self.messages: dict[str, str] = {}
        """The last error of each code."""
        self._marks = f"http://{marks}"
        self._seed = seed
        self._lock = threading.Lock()
        self._clients = [Client(number, port) for number in range(CLIENTS)]
        self._count = count
        self.chats = min(CHATS, max(10, count // 10))

    def each(self, perform: Any, count: int) -> list[threading.Thread]:
        """Perform something for each of the numbers below ``count`` with a client, and return the started threads."""
        numbers = iter(range(count))

        def work(client: Client, chance: random.Random) -> None:
            while True:
                with self._lock:
                    number = next(numbers, None)
                if number is None:
                    return
                try:
                    perform(number, client, chance)
                except Exception as error:  # noqa: BLE001 - the judge reports it
                    self.faults.append(f"{number}: {error!r}")

        threads = [
            threading.Thread(target=work, args=(client, random.Random(f"{self._seed} {number}")))
            for number, client in enumerate(self._clients)
        ]
        for thread in threads:
            thread.start()
        return threads

    def create_chat(self, number: int, client: Client, _chance: random.Random) -> None:
        for _ in range(5):  # on a machine that is busy, a response may take too long
            try:
                status, body = client.post("create_chat", {"chat_id": f"c{number}"})
            except OSError:
                continue
            assert status == 200 or body["error"] == "chat_exists", body
            return
        raise AssertionError("no response")

    def call(self, number: int, client: Client, chance: random.Random) -> None:
        """Make a call of a random tool."""
        chat_id = f"c{chance.randrange(self.chats)}"
        args = {"place": self._marks, "number": number}
        args["seconds"] = chance.choice([0.0, 0.0, 0.0, 0.5, 2.0])
        tool = "marks:mark_again" if number % 5 == 0 else "marks:mark"
        if number % 20 == 1:
            tool = "marks:ask"
        if number % 10 == 2:
            tool, args = "workspace:write_file", {"path": f"{number}.txt", "content": str(number)}
        self._make(number, chat_id, tool, args, client, STUCK_S)

    def last_call(self, number: int, client: Client, _chance: random.Random) -> None:
        """Make a call in a chat after the end."""
        args = {"place": self._marks, "number": self._count + number}
        self._make(self._count + number, f"c{number}", "marks:mark", args, client, FREE_S)

    def repeat(self, number: int, client: Client, _chance: random.Random) -> None:
        """Repeat a call that has an answer."""
        answer = self.answers[number]
        again = self._answer(answer.request, client, FREE_S)
        if isinstance(again, str):
            self.faults.append(f"call {answer.number}, repeated: {again}")
        elif (facts := Answer(0, {}, again, 0, 0.0).facts) != answer.facts:
            self.faults.append(
                f"call {answer.number} has two answers: {answer.request} {answer.facts}, {facts}"
            )

    def _make(
        self,
        number: int,
        chat_id: str,
        tool: str,
        args: dict[str, Any],
        client: Client,
        limit_s: float,
    ) -> None:
        request = {"chat_id": chat_id, "call_id": new_id(), "tool_id": tool, "args": args}
        started = time.monotonic()
        tries = Counter[str]()
        call = self._answer(request, client, limit_s, tries)
        seconds = time.monotonic() - started
        if isinstance(call, str):
            self.faults.append(f"call {number} {request} after {seconds:.0f} s: {call} {tries}")
            return
        with self._lock:
            self.answers.append(Answer(number, request, call, tries.total(), seconds))

    def _answer(
        self,
        request: dict[str, Any],
        client: Client,
        limit_s: float,
        tries: Counter[str] | None = None,
    ) -> dict[str, Any] | str:
        """Return the final answer to a call, or why there is none."""
        until, pause = time.monotonic() + limit_s, 0.2
        tries = Counter() if tries is None else tries
        approval = ""
        while True:
            name = "approve_call" if approval else "call_tool"
            body = {"execution_id": approval} if approval else request
            approval, why = "", ""
            try:
                status, answer = client.post(name, body)
            except (OSError, http.client.HTTPException) as error:
                # Of a killed process; or no response in time.
                status, answer, why = 0, None, type(error).__name__
            if status == 200:
                tries["answer"] += 1
                if answer["status"] in {"success", "error"}:
                    return dict(answer)
                why = f"status {answer['status']}"
                if answer["status"] == "pending" and answer["execution_id"]:
                    approval, why = answer["execution_id"], ""
            elif answer is None:
                why = why or f"nginx {status}"
                tries[why] += 1
            else:
                why = answer["error"]
                self.messages[why] = str(answer)
                tries[why] += 1
                # A repeated approval was decided before: the call has the result.
                if why not in REPEATED and name == "call_tool":
                    return f"{status} {answer}"
            if why:
                with self._lock:
                    self.errors[f"{why}{' of an approval' if name == 'approve_call' else ''}"] += 1
                if time.monotonic() > until:
                    return f"stuck: {why} {answer}"
                time.sleep(pause)
                pause = min(pause * 1.5, 3.0)


@dataclass
class Cluster:
    """The parts that are killed."""

    nodes: list[Node]
    links: Links
    redis: RedisServer
    git: GitServer
    proxy: LoadBalancer
    programs: dict[str, Program]
    marks: Marks
    faults: list[str] = field(default_factory=list)

    def start_ended(self) -> int:
        """Start programs again that have ended by themselves, as systemd does, and return their number.

        Those that find no Redis at their start end; no other reason is right.
        """
        ended = [
            program for program in self.programs.values() if program.process.poll() is not None
        ]
        self.faults += [str(program.log) for program in ended if not program.ended_without_redis()]
        for program in ended:
            program.start()
        return len(ended)

    def kill(self, names: list[str], chance: random.Random) -> None:
        for name in names:
            self.programs[name].process.send_signal(signal.SIGKILL)
        for name in names:
            self.programs[name].process.wait()
        time.sleep(chance.uniform(0, DOWN_S))
        for name in names:
            self.programs[name].start()


def prove(proof: Proof, count: int, seed: int) -> None:
    """Make ``count`` calls, and cause a fault every few seconds until each has an answer."""
    chance = random.Random(seed)
    proof.check(is_installed(), "install the git server: apt install nginx-light fcgiwrap")
    with scratch() as folder, ExitStack() as stack:
        cluster = _start(folder, stack)
        repositories = folder / "server"
        clients = Clients(cluster.proxy.port, cluster.marks.host, count, seed)
        for thread in clients.each(clients.create_chat, clients.chats):
            thread.join()
        proof.check(not clients.faults, f"chats cannot be created: {clients.faults}")
        threads = clients.each(clients.call, count)
        faults = _cause_faults(
            cluster, threads, chance, lambda: proof.progress(len(clients.answers), count)
        )
        until = time.monotonic() + FREE_S
        while not all(program.is_ready() for program in cluster.programs.values()):
            cluster.start_ended()
            proof.check(time.monotonic() < until, "not all programs start")
            time.sleep(0.5)
        # Each chat still works, and each client gets its answer again.
        for thread in clients.each(clients.last_call, clients.chats):
            thread.join()
        repeated = min(len(clients.answers), 300)
        clients.answers.sort(key=lambda answer: -answer.requests)
        for thread in clients.each(clients.repeat, repeated):
            thread.join()
        for program in cluster.programs.values():
            program.process.send_signal(signal.SIGTERM)
        stopped = [program.process.wait(60) for program in cluster.programs.values()]
        proof.check(stopped == [0] * len(stopped), f"not all processes stopped: {stopped}")
        _judge(proof, repositories, clients, cluster.marks, count)
        _judge_processes(proof, folder)
        proof.check(not cluster.faults, f"programs ended while Redis answered: {cluster.faults}")
        proof.note(
            "answers that were the same when the request was repeated after the end", repeated
        )
        for name, number in sorted(faults.items()):
            proof.note(name, number)


def _start(folder: Path, stack: ExitStack) -> Cluster:
    folder.chmod(0o755)  # the workers of nginx run as another user
    os.environ["XDG_CONFIG_HOME"] = str(folder / "config")
    trust_folder(Path("/"))
    repositories = folder / "server"
    repositories.mkdir()
    server = GitServer(
        repositories, folder / "nginx", render=deployed(repositories, folder / "nginx")
    )
    server.start()
    stack.callback(server.end)
    redis = RedisServer(folder / "redis")
    stack.callback(redis.kill)
    marks, links = Marks(), Links()
    stack.callback(marks.server.shutdown)
    number = 1 + max(SERVERS - 1, *(node for node, _ in WORKERS))
    nodes = make_nodes(
        folder, number, git_port=server.port, redis_port=redis.port, marks=marks.host, links=links
    )
    ports = [free_port() for _ in range(SERVERS)]
    programs = _programs(folder, nodes, ports)
    for program in programs.values():
        program.start()
        stack.callback(program.kill)
    for port in ports:
        wait_until_listening(port)
    proxy = LoadBalancer(folder / "proxy", ports)
    proxy.start()
    stack.callback(proxy.end)
    return Cluster(nodes, links, redis, server, proxy, programs, marks)


def _programs(folder: Path, nodes: list[Node], ports: list[int]) -> dict[str, Program]:
    programs = {}
    for number, port in enumerate(ports):
        node = nodes[number]
        words = ["-C", str(node.root), "serve", "--port", str(port)]
        programs[f"server {number}"] = Program(words, node.env, folder / f"server{number}.log")
    for number, (place, concurrency) in enumerate(WORKERS):
        node = nodes[place]
        words = ["-C", str(node.root), "worker", "--concurrency", str(concurrency)]
        programs[f"worker {number}"] = Program(words, node.env, folder / f"worker{number}.log")
    return programs


def _cause_faults(
    cluster: Cluster, threads: list[threading.Thread], chance: random.Random, report: Any
) -> Counter[str]:
    """Cause a fault every few seconds while clients make calls; return how often which one was caused."""
    faults: Counter[str] = Counter()
    cuts: list[tuple[float, Link]] = []
    at = time.monotonic()
    while any(thread.is_alive() for thread in threads):
        at += FAULT_S
        while time.monotonic() < at and any(thread.is_alive() for thread in threads):
            time.sleep(0.1)
            while cuts and cuts[0][0] <= time.monotonic():
                cluster.links.restore(cuts.pop(0)[1])
        if not any(thread.is_alive() for thread in threads):
            break
        faults["programs that found no Redis at their start, and were started again"] += (
            cluster.start_ended()
        )
        kind = chance.choice(
            ["server"] * 3
            + ["worker"] * 4
            + ["workers", "Redis", "proxy", "git", "link to git", "link to Redis"]
        )
        workers = [name for name in cluster.programs if name.startswith("worker")]
        match kind:
            case "server":
                cluster.kill([f"server {chance.randrange(SERVERS)}"], chance)
                faults["kills of a server"] += 1
            case "worker" | "workers":
                # While a tool runs, which only its worker knows.
                cluster.marks.has_new.clear()
                cluster.marks.has_new.wait(1)
                cluster.kill(workers if kind == "workers" else [chance.choice(workers)], chance)
                faults["kills of a worker" if kind == "worker" else "kills of all workers"] += 1
            case "Redis":
                cluster.redis.kill()
                time.sleep(chance.uniform(0, DOWN_S))
                cluster.redis.start()
                faults["kills of Redis"] += 1
            case "proxy":
                cluster.proxy.end()
                time.sleep(chance.uniform(0, DOWN_S))
                cluster.proxy.start()
                faults["kills of the load balancer"] += 1
            case "git":
                cluster.git.end(signal.SIGKILL)
                time.sleep(chance.uniform(0, DOWN_S))
                cluster.git.start()
                faults["kills of the git server"] += 1
            case _:
                node = chance.choice(cluster.nodes)
                link = node.git if kind == "link to git" else node.redis
                if all(link is not other for _, other in cuts):
                    cluster.links.cut(link, chance.choice(["reset", "silent"]))
                    cuts.append((time.monotonic() + CUT_S, link))
                    faults[f"cuts of a {kind}"] += 1
        report()
    for _, link in cuts:
        cluster.links.restore(link)
    return faults


def _judge(proof: Proof, repositories: Path, clients: Clients, marks: Marks, count: int) -> None:
    answers = clients.answers
    proof.check(
        not clients.faults,
        f"{len(clients.faults)} without one answer: " + "\n".join(clients.faults[:10]),
    )
    numbers = sorted(answer.number for answer in answers)
    proof.check(numbers == [*range(count + clients.chats)], "not each call has one answer")
    histories = {
        f"c{number}": _history(repositories / f"c{number}.git") for number in range(clients.chats)
    }
    problems = [
        problem
        for answer in answers
        for problem in _problems(answer, marks, *histories[answer.request["chat_id"]])
    ]
    proof.check(not problems, f"{len(problems)} problems: " + "\n".join(problems[:10]))
    for number in range(clients.chats):
        outcome = run_git(repositories / f"c{number}.git", "fsck", "--strict", "--no-dangling")
        proof.check(outcome.returncode == 0, f"git fsck: {outcome.stderr.decode()}")
    ends = Counter(answer.error or answer.call["status"] for answer in answers)
    during = sorted(answer.seconds for answer in answers if answer.number < count)
    after = max(answer.seconds for answer in answers if answer.number >= count)
    proof.note(
        "servers, workers, chats, clients", f"{SERVERS}, {len(WORKERS)}, {clients.chats}, {CLIENTS}"
    )
    proof.note("calls", len(answers))
    proof.note("calls that succeeded", ends["success"])
    proof.note("calls that were recorded as interrupted", ends["interrupted"])
    proof.note("acknowledged commits that are lost", 0)
    proof.note("calls that ran twice", 0)
    proof.note("clients without one answer", 0)
    proof.note("chats that are stuck", 0)
    proof.note("stores with errors of `git fsck`", 0)
    proof.note("seconds of a call: median", f"{during[len(during) // 2]:.1f}")
    proof.note(
        "seconds of a call: 99 % and longest",
        f"{during[len(during) * 99 // 100]:.0f}, {during[-1]:.0f}",
    )
    proof.note("longest first call of a chat after the end, in seconds", f"{after:.1f}")
    proof.note("repeated requests of clients", sum(clients.errors.values()))
    for code, number in sorted(clients.errors.items()):
        proof.note(f"of them after {code}", number)


def _history(store: Path) -> tuple[set[str], Counter[str], set[str]]:
    """Return the commits of a chat's branch on the server, how often each call is recorded, and the files."""
    log = git(store, "log", "-z", "--format=%H%n%B", "main").split("\0")
    ids = {text.partition("\n")[0] for text in log}
    calls = Counter(commits.source_ref(text.partition("\n")[2]) or "" for text in log)
    return ids, calls, set(git(store, "ls-tree", "-r", "--name-only", "main").split())


def _problems(
    answer: Answer, marks: Marks, ids: set[str], calls: Counter[str], files: set[str]
) -> list[str]:
    """Return what is wrong with the answer to a call."""
    call, tool, runs = answer.call, answer.request["tool_id"], marks.counts[answer.number]
    problems = []
    if answer.error not in {"", "interrupted"}:
        problems.append(f"it failed: {call['error']}")
    if call["post_manifest_id"] not in ids:
        problems.append("its commit is lost")
    if calls[call["id"]] != 1:
        problems.append(f"it has {calls[call['id']]} records")
    if runs > 1 and tool != "marks:mark_again":
        problems.append(f"it ran {runs} times")
    if not answer.error and tool.startswith("marks:") and not runs:
        problems.append("it has a result, and did not run")
    if not answer.error and f"{answer.number}.txt" not in files:
        problems.append("its file is lost")
    return [
        f"call {answer.number} {tool} {answer.request['chat_id']} {answer.facts}: {problem}"
        for problem in problems
    ]


def _judge_processes(proof: Proof, folder: Path) -> None:
    """Check that no tool outlives its worker, and that no program has reported a bug."""
    left = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = process.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if re.search(rf"{folder}/n\d", words):
            left.append(words[:200])
    proof.check(not left, f"processes that outlive their workers: {left}")
    for log in sorted(folder.glob("*.log")):
        text = log.read_text(errors="replace")
        at = text.find("Traceback (most recent call last)")
        proof.check(at < 0, f"{log.name} has a traceback: {text[max(0, at - 500) : at + 4000]}")
