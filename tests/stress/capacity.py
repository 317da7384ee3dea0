"""What workers, the queue and the load balancer cost, and what a second worker adds, each compared in the same run.

- *2 workers*: calls of a tool that waits a second, in chats of their own, by 2 workers with 2 concurrent calls each, compared
  with 1 of them.
- *queue and push*: what a call of a project with a queue and a git server takes longer than the same call of a server
  without both, compared with an echo task of Celery (with its result in the same Redis) and a plain ``git push`` of one
  commit to the same git server.  A call needs two pushes, because its start is pushed before the tool runs, and a fetch of
  its outcome by the server.  The list of chats is read every two seconds, for idempotency keys.
- *requests and processor time*: the HTTP requests to the git server of a call, and the processor time of the processes of the
  server, the worker and the git server.
- *load balancer*: a call through nginx with ``deploy/proxy/nginx.conf``, compared with one that is sent to the server.

Both sides of a comparison take turns, so that a busy machine is busy for both; figures are medians.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covalt_git.names import new_id
from covalt_git.trust import trust_folder
from tests.api_client import make_project
from tests.nginx_git_server import DEPLOY, GitServer, deployed, free_port, is_installed
from tests.redis_server import RedisServer
from tests.stress.cluster_parts import (
    Client,
    Links,
    LoadBalancer,
    Marks,
    Node,
    Program,
    add_tools,
    make_nodes,
    wait_until_listening,
)
from tests.stress.figures import Proof
from tests.workspaces.stores import git, scratch

if TYPE_CHECKING:
    from collections.abc import Callable

PROMISE = "A second worker adds at least 0.7 of the first. What the queue and the load balancer cost is compared in the same run."
COUNT = 40
"""Number of calls of each side of a comparison."""

MUST_SCALE, AIM_QUEUE, AIM_PROXY = 1.7, 2.0, 1.1
_WAIT_S = 1.0
_CONCURRENCY = 2
_ECHO = """\
from celery import Celery

app = Celery("echo", broker={url!r}, backend={url!r})
app.conf.update(task_acks_late=True, worker_prefetch_multiplier=1)


@app.task
def echo(value):
    return value
"""


def prove(proof: Proof, count: int, _seed: int) -> None:
    """Measure with ``count`` calls of each side."""
    proof.check(is_installed(), "install the git server: apt install nginx-light fcgiwrap")
    with scratch() as folder, ExitStack() as stack:
        folder.chmod(0o755)  # the workers of nginx run as another user
        os.environ["XDG_CONFIG_HOME"] = str(folder / "config")
        trust_folder(Path("/"))
        repositories = folder / "server"
        repositories.mkdir()
        costs = _Costs(folder)
        render = costs.logged(deployed(repositories, folder / "nginx"))
        server = GitServer(repositories, folder / "nginx", render=render)
        server.start()
        stack.callback(server.end)
        redis = RedisServer(folder / "redis")
        stack.callback(redis.kill)
        marks = Marks()
        stack.callback(marks.server.shutdown)
        nodes = make_nodes(
            folder,
            3,
            git_port=server.port,
            redis_port=redis.port,
            marks=marks.host,
            links=Links(),
        )
        measured = _Measured(proof, folder, nodes, f"http://{marks.host}", stack, costs)
        measured.queue_and_push(count, redis.url, server.url, repositories)
        measured.workers(count)


class _Measured:
    def __init__(
        self,
        proof: Proof,
        folder: Path,
        nodes: list[Node],
        marks: str,
        stack: ExitStack,
        costs: _Costs,
    ) -> None:
        self._costs = costs
        self._proof = proof
        self._folder = folder
        self._nodes = nodes
        self._marks = marks
        self._stack = stack
        self._port = self._start("serve", nodes[0])
        self._start("worker", nodes[1])
        self._client = Client(0, self._port)
        self._number = 0
        for number in range(4 * _CONCURRENCY):
            self._post(self._client, "create_chat", {"chat_id": f"c{number}"})

    def _start(self, what: str, node: Node) -> int:
        port = free_port()
        options = ["--port", str(port)]
        if what == "worker":
            options = ["--concurrency", str(_CONCURRENCY), "--monitor", f"127.0.0.1:{port}"]
        log = self._folder / f"{what}-{node.root.name}.log"
        program = Program(["-C", str(node.root), what, *options], node.env, log)
        program.start()
        self._costs.processes.append(program.process.pid)
        self._stack.callback(program.kill)
        wait_until_listening(port)
        return port

    def _post(self, client: Client, name: str, body: dict[str, Any]) -> Any:
        status, answer = client.post(name, body)
        self._proof.check(status == 200, f"{name}: {answer}")
        return answer

    def _call(self, client: Client, chat_id: str, seconds: float = 0.0) -> None:
        self._number += 1
        args = {"place": self._marks, "number": self._number, "seconds": seconds}
        request = {"chat_id": chat_id, "tool_id": "marks:mark", "args": args}
        answer = self._post(client, "call_tool", request | {"call_id": new_id()})
        self._proof.check(answer["status"] == "success", f"call: {answer['error']}")

    def queue_and_push(self, count: int, redis: str, url: str, repositories: Path) -> None:
        """Compare a call with one of a server without a queue, with Celery and git, and with one through nginx."""
        alone = make_project(self._folder / "alone")
        add_tools(alone, self._marks.removeprefix("http://"))
        with (alone / "covalt.yaml").open("a") as config:
            config.write(f"server: {{allowed_hosts: [{Client.host_name}]}}\n")
        node = self._nodes[0]
        env = {name: value for name, value in node.env.items() if name != "COVALT_GIT_QUEUE"}
        direct = Client(1, self._start("serve", Node(alone, node.git, node.redis, env)))
        self._post(direct, "create_chat", {"chat_id": "c0"})
        proxy = LoadBalancer(self._folder / "proxy", [self._port])
        proxy.start()
        self._stack.callback(proxy.end)
        behind = Client(2, proxy.port)
        sides: dict[str, Callable[[], object]] = {
            "call": lambda: self._call(self._client, "c0"),
            "proxy": lambda: self._call(behind, "c0"),
            "alone": lambda: self._call(direct, "c0"),
            "echo": self._echo(redis),
            "push": self._push(url, repositories),
        }
        for _ in range(5):  # the copies and the sandbox are there
            self._call(self._client, "c0")
        self._costs.begin()
        for _ in range(count):
            self._call(self._client, "c0")
        self._costs.note(self._proof, count)
        medians = _medians(sides, count)
        added, plain = medians["call"] - medians["alone"], medians["echo"] + medians["push"]
        note = self._proof.note
        note("call with a queue and a git server, in ms", round(medians["call"]))
        note("the same call without both, in ms", round(medians["alone"]))
        note("an echo task of Celery, in ms", round(medians["echo"]))
        note("a plain `git push` of one commit, in ms", round(medians["push"]))
        _compare(self._proof, "queue and push / echo task and plain push", added / plain, AIM_QUEUE)
        ratio = medians["proxy"] / medians["call"]
        _compare(self._proof, "call through nginx / call", ratio, AIM_PROXY)

    def _echo(self, redis: str) -> Callable[[], object]:
        place = self._folder / "echo"
        place.mkdir()
        # Another database of the same Redis.
        url = redis.removesuffix("/0") + "/1"
        (place / "covalt_echo.py").write_text(_ECHO.format(url=url))
        words = ["worker", "--pool", "threads", "--concurrency", "1", "--loglevel", "ERROR"]
        process = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "covalt_echo", *words],
            cwd=place,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)
        from celery import Celery  # noqa: PLC0415 - of an extra

        app = Celery("echo", broker=url, backend=url, set_as_current=False)
        self._stack.callback(app.close)

        def echo() -> None:
            value = app.send_task("covalt_echo.echo", [1]).get(timeout=60)
            self._proof.check(value == 1, "Celery does not answer")

        return echo

    def _push(self, url: str, repositories: Path) -> Callable[[], object]:
        clone = self._folder / "clone"
        git(self._folder, "init", "--quiet", "--bare", str(repositories / "plain.git"))
        git(self._folder, "init", "--quiet", "--initial-branch=main", str(clone))
        numbers = iter(range(10**9))

        def commit() -> None:
            (clone / "a.txt").write_text(str(next(numbers)))
            git(clone, "add", "a.txt")
            git(clone, "commit", "--quiet", "-m", "change")

        commit()

        def push() -> float:
            commit()
            began = time.perf_counter()
            git(clone, "push", "--quiet", f"{url}/plain.git", "main")
            return time.perf_counter() - began

        return push

    def workers(self, count: int) -> None:
        """Compare two workers with one of them."""
        alone = self._rate(count)
        self._start("worker", self._nodes[2])
        both = self._rate(count)
        self._proof.note("calls a second of a tool that waits 1 s, by 1 worker", f"{alone:.2f}")
        self._proof.note("the same by 2 workers", f"{both:.2f}")
        name = "2 workers / 1 worker"
        self._proof.note(name, f"{both / alone:.2f} (at least {MUST_SCALE})")
        self._proof.check(both / alone >= MUST_SCALE, f"{name}: {both / alone:.2f}")

    def _rate(self, count: int) -> float:
        chats = [f"c{number}" for number in range(4 * _CONCURRENCY)]
        for chat_id in chats[:_CONCURRENCY]:  # a sandbox is warm, and the chats are on the nodes
            self._call(self._client, chat_id)
        failed: list[BaseException] = []

        def make(client: Client, chat_id: str, number: int) -> None:
            try:
                for _ in range(number):
                    self._call(client, chat_id, _WAIT_S)
            except BaseException as error:  # noqa: BLE001 - raised below
                failed.append(error)

        each = max(1, count // len(chats))
        threads = [
            threading.Thread(target=make, args=(Client(number, self._port), chat_id, each))
            for number, chat_id in enumerate(chats)
        ]
        began = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]
        return each * len(chats) / (time.monotonic() - began)


class _Costs:
    """HTTP requests to the git server, and processor time: of processes that were started, and of the CGI programs."""

    def __init__(self, folder: Path) -> None:
        self.processes: list[int] = []
        self._script = folder / "timed.sh"
        self._access, self._times = folder / "access.log", folder / "times.log"
        self._begun = (0, 0.0, 0.0)

    def logged(self, render: Callable[[int], str]) -> Callable[[int], str]:
        """Return a function that renders a configuration of nginx which logs requests, and the time of their programs."""
        script = str(DEPLOY / "git-server" / "create-and-serve.sh")
        self._times.touch()
        self._times.chmod(0o666)
        self._script.write_text(f"#!/bin/bash\n{script}\ntimes >> {self._times}\n")
        self._script.chmod(0o755)

        def rendered(port: int) -> str:
            text = render(port).replace("access_log off;", f"access_log {self._access};")
            return text.replace(script, str(self._script))

        return rendered

    def _now(self) -> tuple[int, float, float]:
        requests = len(self._access.read_text().splitlines())
        # The second line of `times` is that of the programs that the shell has started.
        lines = self._times.read_text().splitlines()[1::2]
        texts = [text for line in lines for text in re.findall(r"(\d+)m([\d.]+)s", line)]
        programs = sum(60 * float(minutes) + float(seconds) for minutes, seconds in texts)
        return requests, sum(map(_processor_s, self.processes)), programs

    def begin(self) -> None:
        """Begin to count."""
        self._begun = self._now()

    def note(self, proof: Proof, count: int) -> None:
        """Note what a call has cost since the beginning."""
        requests, own_s, git_s = (
            (now - begun) / count for now, begun in zip(self._now(), self._begun, strict=True)
        )
        proof.note("requests of a call to the git server", f"{requests:.1f}")
        proof.note("processor time of a call, server and worker, in ms", round(own_s * 1000))
        proof.note("processor time of a call, git server, in ms", round(git_s * 1000))


def _processor_s(root: int) -> float:
    """Return the processor time of a process, the processes that it has started, and those of them that have ended."""
    parents, times = dict[int, int](), dict[int, int]()
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            parents[int(path.parent.name)] = int(fields[1])
            times[int(path.parent.name)] = sum(map(int, fields[11:15]))
    family, waiting = set[int](), [root]
    for pid in waiting:  # it grows until no process has another one
        family.add(pid)
        waiting += [child for child, parent in parents.items() if parent == pid]
    return sum(times.get(pid, 0) for pid in family) / os.sysconf("SC_CLK_TCK")


def _medians(sides: dict[str, Callable[[], object]], count: int) -> dict[str, float]:
    """Return the median time of each side in ms; one that returns a number has measured itself."""
    took: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(count + 1):
        for name, side in sides.items():
            began = time.perf_counter()
            own = side()
            seconds = own if isinstance(own, float) else time.perf_counter() - began
            if number:  # the first one starts processes and connections
                took[name].append(seconds * 1000)
    return {name: statistics.median(values) for name, values in took.items()}


def _compare(proof: Proof, name: str, ratio: float, aim: float) -> None:
    proof.note(name, f"{ratio:.2f} (aim: at most {aim:g}{'' if ratio <= aim else ', missed'})")
