"""Eight clients call tools of MCP servers at the same time, over both transports, while servers are killed.

Each client works in a chat of its own: four through gateways of their own over standard input and
output, four through one server over HTTP; half of each in the protocol's first era.  What is killed are
the programs behind the tools, the server at an address, the gateways and the HTTP server itself.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import httpx2
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from covalt_git.connections.pool import CONNECTIONS
from covalt_git.grants.grants import add_grant
from covalt_git.project import Project
from covalt_git.toolsets.new_project import create_project
from tests.mcp_client import REPOSITORY, VERSIONS, command
from tests.stress.stores import check_sound
from tests.taking_servers import take
from tests.workspaces.stores import scratch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from mcp_types import CallToolResult

    from tests.stress.figures import Proof

PROMISE = (
    "If servers are killed, each answered call is in the chat of its client, with the same "
    "result, and no chat has a call of another client."
)
COUNT = 8_000
CLIENTS = 8
TOKEN = "the-token-of-the-proof"
LONGEST_PAUSE_S = 0.4
PATIENCE_S = 120.0
SERVERS = REPOSITORY / "fixtures" / "servers"

_SUBREAPER = 36
MANIFEST = """\
id: soak
name: Soak
version: "1"
tools:
  - {{id: write, entrypoint: tools.soak:write}}
mcp_servers:
  - {{id: kept, command: {python}, args: [{servers}/first_era.py], requires_confirmation: false}}
  - {{id: far, url: "http://127.0.0.1:{port}/mcp", requires_confirmation: false}}
"""
TOOLS = '''\
from pathlib import Path


def write(workspace: Path, text: str) -> str:
    """Write a text down."""
    (workspace / "last.txt").write_text(text)
    return text
'''


@dataclass(frozen=True)
class Told:
    """A client's answer to a call: its id, and the result or the code of an error."""

    call_id: str
    tool: str
    args: dict[str, Any]
    result: str | None
    error: str | None


@dataclass
class Caller:
    """A client: its calls, their answers, and the refused calls with their codes."""

    chat_id: str
    era: str
    connected: Callable[[], Any]
    chance: random.Random
    count: int
    asked: set[str] = field(default_factory=set)
    told: list[Told] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    retries: int = 0

    async def work(self) -> None:
        """Call until so many calls were answered, by a new connection wherever one broke."""
        while len(self.told) < self.count:
            try:
                async with self.connected() as client:
                    while len(self.told) < self.count:
                        await self._call(client)
            except* (MCPError, OSError, httpx2.HTTPError, anyio.ClosedResourceError):
                self.retries += 1
                await anyio.sleep(0.05)

    async def _call(self, client: Client) -> None:
        tool = self.chance.choice(["kept.add", "kept.remember", "far.echo", "soak.write"])
        text = f"{self.chat_id}.{len(self.asked)}"
        args: dict[str, Any] = {"what" if tool == "kept.remember" else "text": text}
        if tool == "kept.add":
            args = {"a": self.chance.randrange(10**6), "b": len(self.asked)}
        self.asked.add(json.dumps(args))
        result = await client.call_tool(tool, args, read_timeout_seconds=PATIENCE_S)
        told = _told(tool, args, result)
        if told.call_id:
            self.told.append(told)
        else:
            self.refused[json.dumps(args)] = told.error or "nothing"


def _told(tool: str, args: dict[str, Any], result: CallToolResult) -> Told:
    structured: Any = result.structured_content
    meta = result.meta or {}
    words = [block.text for block in result.content if block.type == "text"]
    code = structured["error"] if result.is_error else None
    said = None if result.is_error else words[0]
    return Told(meta.get("covalt-git/call", ""), tool, args, said, code)


def prove(proof: Proof, count: int, seed: int) -> None:
    """Make ``count`` calls, and then compare the clients' answers with the chats."""
    chance = random.Random(seed)
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)  # what is orphaned becomes ours, and is seen
    with scratch() as folder:
        place = _Place(folder / "project", _free_port(), _free_port())
        place.make()
        callers = [place.caller(number, chance, -(-count // CLIENTS)) for number in range(CLIENTS)]
        started = time.monotonic()
        place.begin()
        try:
            anyio.run(_soak, proof, place, callers, chance)
        finally:
            place.end()
        proof.note("calls answered", sum(len(one.told) for one in callers))
        proof.note("seconds of calls", round(time.monotonic() - started))
        proof.check(not place.died, f"these ended by themselves: {place.died}")
        times = place.kills.total()
        proof.check(times * 40 > count, f"only {times} kills in {count} calls")
        left = _left()
        proof.check(not left, f"these still run: {left}")
        _compare(proof, place.root, callers)
    for kind, times in sorted(place.kills.items()):
        proof.note(f"kills of {kind}", times)
    proof.note("reconnections", sum(one.retries for one in callers))


async def _soak(proof: Proof, place: _Place, callers: list[Caller], chance: random.Random) -> None:
    total = sum(one.count for one in callers)
    async with anyio.create_task_group() as group:

        async def kill() -> None:
            while True:
                await anyio.sleep(chance.random() * LONGEST_PAUSE_S)
                place.kill(chance)
                proof.progress(sum(len(one.told) for one in callers), total)

        group.start_soon(kill)
        async with anyio.create_task_group() as working:
            for one in callers:
                working.start_soon(one.work)
        group.cancel_scope.cancel()


@dataclass
class _Place:
    """The project and the processes that are there for all: the HTTP server, and the one at an address."""

    root: Path
    port: int
    far_port: int
    kills: Counter[str] = field(default_factory=Counter)
    died: list[str] = field(default_factory=list)
    _serve: subprocess.Popen[bytes] | None = None
    _far: subprocess.Popen[bytes] | None = None

    def make(self) -> None:
        """Write the project, grant and accept its servers, and make a chat for each client."""
        create_project(self.root)
        for sample in (self.root / "toolsets").iterdir():
            shutil.rmtree(sample)
        (self.root / "covalt.yaml").write_text("version: 1\nworkspace: {durability: fast}\n")
        folder = self.root / "toolsets" / "soak"
        (folder / "tools").mkdir(parents=True)
        (folder / "tools" / "soak.py").write_text(TOOLS)
        facts = {"python": sys.executable, "servers": SERVERS, "port": self.far_port}
        (folder / "toolset.yaml").write_text(MANIFEST.format(**facts))
        self._begin_far()
        try:
            add_grant(self.root, "soak", "process", "kept", by="proof")
            add_grant(self.root, "soak", "server", "far", by="proof")
            for server in ("kept", "far"):
                take(self.root, "soak", server)
        finally:
            CONNECTIONS.close()
            _end(self._far)
        for number in range(CLIENTS):
            Project.open(self.root).chats.new(f"c{number}").store.close()

    def caller(self, number: int, chance: random.Random, count: int) -> Caller:
        """Return a client: every other one over HTTP, and half of each in either era."""
        chat_id, era = f"c{number}", VERSIONS[number // 2 % 2]
        how = self._over_http if number % 2 else self._over_stdio
        own = random.Random(chance.random())
        return Caller(chat_id, era, partial(how, chat_id, era), own, count)

    @asynccontextmanager
    async def _over_stdio(self, chat_id: str, era: str) -> AsyncIterator[Client]:
        async with Client(command(self.root, "--chat", chat_id), mode=era, cache=None) as client:
            yield client

    @asynccontextmanager
    async def _over_http(self, chat_id: str, era: str) -> AsyncIterator[Client]:
        url = f"http://127.0.0.1:{self.port}/mcp?chat={chat_id}"
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as http:
            way = streamable_http_client(url, http_client=http, terminate_on_close=False)
            async with Client(way, mode=era, cache=None) as client:
                yield client

    def begin(self) -> None:
        """Start the shared processes."""
        self._begin_far()
        self._begin_serve()

    def end(self) -> None:
        """End it, as a person would."""
        self._note_dead()
        if self._serve is not None:
            self._serve.terminate()
            self._serve.wait(30)
        _end(self._far)

    def kill(self, chance: random.Random) -> None:
        """Kill a server of some kind, and restart it if no other process does."""
        self._note_dead()
        kind = chance.choices(["programs", "address", "gateways", "serve"], [75, 15, 6, 4])[0]
        if kind == "address":
            _end(self._far)
            self._begin_far()
        elif kind == "serve":
            _end(self._serve)
            self._begin_serve()
        else:
            word = "first_era.py" if kind == "programs" else "mcp"
            found = [process for process, words in _below(os.getpid()) if _is(words, word)]
            if not found:
                return
            os.kill(chance.choice(found), signal.SIGKILL)
        names = {
            "programs": "programs behind tools",
            "address": "the server at an address",
            "gateways": "gateways over stdio",
            "serve": "the server over HTTP",
        }
        self.kills[names[kind]] += 1

    def _note_dead(self) -> None:
        """Record the shared processes that ended without being killed."""
        for name, process in (("the server at an address", self._far), ("serve", self._serve)):
            if process is not None and process.poll() is not None:
                self.died.append(f"{name}, with {process.returncode}")

    def _begin_far(self) -> None:
        program = [sys.executable, str(SERVERS / "over_http.py")]
        variables = {**os.environ, "PORT": str(self.far_port)}
        self._far = subprocess.Popen(
            program, env=variables, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        assert self._far.stdout is not None
        self._far.stdout.readline()

    def _begin_serve(self) -> None:
        started = command(self.root)
        program = [sys.executable, *started.args[:-1], "serve", "--port", str(self.port), "--json"]
        variables = {**os.environ, **(started.env or {}), "COVALT_GIT_TOKEN": TOKEN}
        self._serve = subprocess.Popen(program, env=variables, stdout=subprocess.PIPE)


def _end(process: subprocess.Popen[bytes] | None) -> None:
    if process is not None:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _compare(proof: Proof, root: Path, callers: list[Caller]) -> None:
    """Check each chat against its client's answers, and that it has no calls of another client."""
    seen: set[str] = set()
    errors: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    unheard = 0
    for one in callers:
        with Project.open(root).chats.open(one.chat_id) as chat:
            check_sound(proof, chat, f"{one.chat_id}, after all calls")
            calls = {m.record.id: m.record.call for m in chat.log(chat.head()) if m.record.call}
            proof.check(not chat.calls(), f"{one.chat_id} has calls that still run")
        proof.check(not seen & calls.keys(), f"{one.chat_id} has calls of another chat")
        seen |= calls.keys()
        for told in one.told:
            call = calls.get(told.call_id)
            proof.check(call is not None, f"{one.chat_id} lost {told}")
            assert call is not None
            code = call.error.code if call.error else None
            is_same = (
                (call.tool_id, call.args) == (told.tool.replace(".", ":"), told.args)
                and code == told.error
                and (told.error is not None or call.result == told.result)
            )
            proof.check(is_same, f"{one.chat_id} was told {told}, and has {call}")
            errors[code or ""] += 1
            if told.tool == "kept.remember" and told.result is not None:
                strangers = [
                    s for s in json.loads(told.result) if not s.startswith(f"{one.chat_id}.")
                ]
                proof.check(not strangers, f"{one.chat_id} was told of {strangers}")
        told_of = {told.call_id for told in one.told}
        proof.check(len(told_of) == len(one.told), f"{one.chat_id} got an event of a call twice")
        ran = [call.args for call in calls.values() if json.dumps(call.args) in one.refused]
        proof.check(not ran, f"{one.chat_id} was told that these were not made: {ran}")
        foreign = [call.args for call in calls.values() if json.dumps(call.args) not in one.asked]
        proof.check(not foreign, f"nobody of {one.chat_id} asked for {foreign}")
        unheard += len(calls.keys() - told_of)
        refused.update(one.refused.values())
    well, made = errors[""], errors.total()
    proof.check(well * 4 > made * 3, f"only {well} of {made} calls succeeded")
    proof.note("lost or different calls", 0)
    proof.note("records of another chat's calls", 0)
    proof.note("recorded calls whose answer was lost by a kill", unheard)
    for code, times in sorted(refused.items()):
        proof.note(f"refused before they ran, with {code}", times)
    for code, times in sorted(errors.items()):
        proof.note(f"that ended with {code}" if code else "that succeeded", times)


def _is(words: list[str], word: str) -> bool:
    """Return whether a command line is a fixture's or a gateway's."""
    return any(one.endswith(f"/{word}") for one in words) or (word == "mcp" and "mcp" in words)


def _below(parent: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the processes that descend from one and live, with their command lines."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if stat[0] != "Z":
                parents[int(entry.name)] = int(stat[1])
    for process in parents:
        above = process
        while above in parents and above != parent:
            above = parents[above]
        if above == parent and process != parent:
            try:
                line = Path(f"/proc/{process}/cmdline").read_bytes()
            except OSError:
                continue
            yield process, line.decode("utf-8", "replace").split("\0")


def _left() -> list[str]:
    """Return what still runs of all that was started, after as long as an end may take."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        left = [" ".join(words) for _, words in _below(os.getpid())]
        if not left:
            return []
        time.sleep(0.1)
    return left
