"""Parts of the cluster of ``tests.stress.cluster``: the programs, the links between them, and the marks of the tools."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

from tests.api_client import make_project
from tests.nginx_git_server import DEPLOY, PROGRAMS, ProcessGroup, free_port, rendered, wait_for
from tests.operations_client import Operations

_REPOSITORY = Path(__file__).resolve().parents[2]
HOST_NAME = "team.example.com"
RESPONSE_S = 40.0
"""Time after which a client repeats its request, in seconds."""

TOKEN = "token-of-the-stress-test"
LEASE_S = 5
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


def ask(place: str, number: int, seconds: float = 0.0) -> int:
    """Do the same after an approval."""
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
  - {id: ask, entrypoint: "tools.marks:ask", requires_confirmation: true}
"""


@dataclass
class Marks:
    """Server outside of the chats that counts the runs of each call."""

    counts: Counter[int] = field(default_factory=Counter)
    has_new: threading.Event = field(default_factory=threading.Event)
    server: ThreadingHTTPServer = field(init=False)

    def __post_init__(self) -> None:
        counts, has_new, lock = self.counts, self.has_new, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                with lock:
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


class Links:
    """TCP connections of nodes to Redis and to the git server, each through a port of its own that can be cut."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def add(self, target: int) -> Link:
        """Return a new link to a port on loopback."""
        return asyncio.run_coroutine_threadsafe(Link.listening(target), self._loop).result(10)

    def cut(self, link: Link, how: Literal["reset", "silent"]) -> None:
        """End the connections of a link and refuse new ones, or forward nothing, as a firewall that drops packets."""
        self._loop.call_soon_threadsafe(link.cut, how)

    def restore(self, link: Link) -> None:
        """Forward again; connections that were silent continue."""
        self._loop.call_soon_threadsafe(link.restore)


class Link:
    """Port on loopback whose connections are forwarded to another port; for the thread of :class:`Links`."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._refuses = False
        self._connections: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    @classmethod
    async def listening(cls, target: int) -> Link:
        link = cls(target)
        # It accepts connections for as long as the event loop runs.
        server = await asyncio.start_server(link._accept, "127.0.0.1", 0)
        link.port = server.sockets[0].getsockname()[1]
        link._server = server
        return link

    def cut(self, how: Literal["reset", "silent"]) -> None:
        self._is_open.clear()
        self._refuses = how == "reset"
        if self._refuses:
            for writer in self._connections:
                writer.transport.abort()

    def restore(self) -> None:
        self._refuses = False
        self._is_open.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            writer.transport.abort()
            return
        self._connections.add(writer)
        try:
            await self._is_open.wait()
            their_reader, their_writer = await asyncio.open_connection("127.0.0.1", self._target)
            self._connections.add(their_writer)
            await asyncio.gather(
                self._forward(reader, their_writer), self._forward(their_reader, writer)
            )
            self._connections.discard(their_writer)
        except OSError:  # Redis or the git server is down
            writer.transport.abort()
        finally:
            self._connections.discard(writer)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._is_open.wait()
                writer.write(data)
                await writer.drain()
            await self._is_open.wait()
        writer.close()


@dataclass
class Program:
    """A server or a worker, which is started again after it was killed."""

    words: list[str]
    env: dict[str, str]
    log: Path
    process: subprocess.Popen[bytes] = field(init=False)
    _from: int = 0

    def start(self) -> None:
        self._from = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "covalt_git", *self.words],
                cwd=_REPOSITORY,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )

    def is_ready(self) -> bool:
        """Return whether it has started; before that, SIGTERM ends it as any program."""
        return b"until Ctrl-C" in self.log.read_bytes()[self._from :]

    def ended_without_redis(self) -> bool:
        """Return whether it has ended because Redis did not answer at its start."""
        return b"does not answer" in self.log.read_bytes()[self._from :] and not self.is_ready()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class LoadBalancer:
    """nginx with ``deploy/proxy/nginx.conf`` before two or more servers."""

    def __init__(self, folder: Path, ports: list[int]) -> None:
        folder.mkdir()
        self.port = free_port()
        options = "max_fails=1 fail_timeout=5s;"
        servers = "\n    ".join(f"server 127.0.0.1:{port} {options}" for port in ports)
        changes = {
            "/tmp/nginx.pid": f"{folder}/nginx.pid",
            "listen 8080;": f"listen 127.0.0.1:{self.port};",
            f"server server-1:8787 {options}": servers,
            f"server server-2:8787 {options}": "",
        }
        text = rendered(DEPLOY / "proxy" / "nginx.conf", folder, changes)
        config = folder / "nginx.conf"
        config.write_text(text.replace("daemon off;", f"daemon off; error_log {folder}/error.log;"))
        self._group = ProcessGroup(PROGRAMS[0], "-c", str(config), "-p", str(folder))

    def start(self) -> None:
        self._group.start()
        wait_for(self.port)

    def end(self) -> None:
        self._group.end(signal.SIGKILL)


class Client:
    """A client with an IP address of its own, so that the load balancer sends it to a server of its own."""

    host_name = HOST_NAME

    def __init__(self, number: int, port: int) -> None:
        self._address = f"127.0.{number + 1}.1"
        self._port = port

    def post(self, name: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Return the status and the JSON value of a response; None if it is none of the servers.

        Raises:
            OSError: if there is no response; also HTTPException.
        """
        connection = http.client.HTTPConnection(
            "127.0.0.1", self._port, timeout=RESPONSE_S, source_address=(self._address, 0)
        )
        headers = {
            "Host": HOST_NAME,
            "Authorization": f"Bearer {TOKEN}",
            "Content-Type": "application/json",
        }
        try:
            connection.request("POST", f"/api/{name}", json.dumps(body), headers)
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        is_json = response.getheader("Content-Type", "").startswith("application/json")
        return response.status, json.loads(text) if is_json else None


@dataclass
class Node:
    """A clone of the project on a machine of its own, with its links."""

    root: Path
    git: Link
    redis: Link
    env: dict[str, str]


def add_tools(root: Path, marks: str) -> None:
    """Add the tools that leave marks to a project, and grant them the host of :class:`Marks`."""
    tools = root / "toolsets" / "marks" / "tools"
    tools.mkdir(parents=True)
    (tools.parent / "toolset.yaml").write_text(_MANIFEST.lstrip())
    (tools / "marks.py").write_text(_TOOLS.lstrip())
    Operations(root)("add_grant", toolset_id="marks", kind="network", hosts=[f"http://{marks}"])


def make_nodes(
    folder: Path, number: int, *, git_port: int, redis_port: int, marks: str, links: Links
) -> list[Node]:
    """Create the project, prepare its git server, and return its clones, which have the configuration of this process."""
    root = make_project(folder / "n0")
    # One link for all nodes, because they have the same URL of the git server. With a proxy of its own for each node, stock
    # git would send the requests, and not the nodes themselves, as without a proxy.
    git = links.add(git_port)
    url = f"http://127.0.0.1:{git.port}/{{chat_id}}.git"
    with (root / "covalt.yaml").open("a") as config:
        config.write(f"\nstorage: {{type: git, url: '{url}', lease_s: {LEASE_S}}}\n")
        config.write(f"server: {{allowed_hosts: [{HOST_NAME}]}}\n")
    add_tools(root, marks)
    clones = [root]
    for n in range(1, number):
        clones.append(folder / f"n{n}")
        subprocess.run(["cp", "-r", root, clones[-1]], check=True)
    Operations(root)("migrate_storage", to="git")
    nodes = []
    for n, clone in enumerate(clones):
        redis = links.add(redis_port)
        place = folder / f"config{n}"
        shutil.copytree(os.environ["XDG_CONFIG_HOME"], place)
        env = os.environ | {
            "XDG_CONFIG_HOME": str(place),
            "COVALT_GIT_QUEUE": f"redis://127.0.0.1:{redis.port}/0",
            "COVALT_GIT_TOKEN": TOKEN,
        }
        nodes.append(Node(clone, git, redis, env))
    return nodes


def wait_until_listening(port: int) -> None:
    """Wait until a program listens on a port."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with socket.socket() as client:
            if client.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("a server does not start")
