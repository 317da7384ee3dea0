"""Process of a script: a fork of the fork server that enters the sandbox and runs one script of an agent.

It reads and writes lines of JSON over one socket.  The first line has the script; each further one has replies to
calls.  The process answers each line with a step: the calls that the script issued, what it printed, and its end.
The first line also has the answers to the calls of an earlier run, which need no exchange each.
It makes no call itself, and has neither a network nor a folder.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from covalt_git.runtime.processes import tool_process, wire
from covalt_git.runtime.processes.javascript_script import JavaScriptScript
from covalt_git.runtime.processes.python_script import PythonScript
from covalt_git.runtime.processes.script_values import FAULT, NotJsonDataError, json_data
from covalt_git.runtime.processes.warm_sandbox import settle_descriptors
from covalt_git.runtime.sandbox import system_calls
from covalt_git.runtime.sandbox.entering import enter
from covalt_git.runtime.sandbox.policy import Policy, RunLimits, SandboxError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_CONNECTION = 3
_READ = 1 << 18


class Interpreter(Protocol):
    """A language: it runs a script until it needs a reply, or only checks its syntax."""

    def begin(self, text: str, args: dict[str, Any], started_ms: int, seed: int) -> None: ...

    def check(self, text: str) -> None: ...

    def settle(self, index: int, value: Any, error: dict[str, str] | None) -> None: ...


class Script:
    """What the script has done since the last step; the interpreters report it here."""

    def __init__(self, connection: socket.socket, limits: Mapping[str, Any]) -> None:
        self._connection = connection
        self.time_s: float = limits["time_s"]
        self.memory_mb: int = limits["memory_mb"]
        self._most_calls: int = limits["calls"]
        self.output_left: int = limits["output_kb"] << 10
        """How many bytes it may still print and return."""
        self._calls: list[dict[str, Any]] = []
        self._logs: list[tuple[str, str]] = []
        self._issued = 0
        self._unanswered: set[int] = set()
        self._end: dict[str, Any] | None = None
        self._faults: dict[str, str] = {}
        self._known: dict[int, dict[str, Any]] = {}

    @property
    def calls_left(self) -> int:
        """How many calls the script may still issue."""
        return self._most_calls - self._issued

    @property
    def is_waiting(self) -> bool:
        """Whether a call has no reply yet."""
        return bool(self._unanswered)

    def call(self, path: str, arguments: dict[str, Any], line: int | None) -> int:
        """Issue a call; return its index."""
        index = self._issued
        if index >= self._most_calls:
            self.fail("script_calls", line=line)
        self._issued += 1
        self._unanswered.add(index)
        self._calls.append({"path": path, "arguments": arguments, "line": line})
        return index

    def log(self, level: str, message: str) -> None:
        self._count(len(message.encode("utf-8", "replace")) + 1)
        self._logs.append((level, message))

    def fault(self, error: dict[str, str]) -> str:
        """Return the text that an error of a call has in a script whose exceptions are texts only."""
        text = f"{error['code']}: {error['message']}"
        self._faults[text] = error["code"]
        return text

    def end(self, value: Any) -> None:
        """End the script with a value, once all its calls have replies."""
        try:
            value = json_data(value, "the value of the script")
        except NotJsonDataError as error:
            self.end_by("script_value", str(error))
            return
        self._count(len(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")))
        self._end = {"value": value}

    def end_by(
        self, code: str, message: str = "", line: int | None = None, col: int | None = None
    ) -> None:
        """End the script with an error, once all its calls have replies."""
        text = message.removeprefix(f"{FAULT}: ")
        if code == "script_raised" and text in self._faults:
            code = self._faults[text]
            message = text.removeprefix(f"{code}: ")
        self._end = {"error": {"code": code, "message": message, "line": line, "col": col}}

    def fail(self, code: str, message: str = "", line: int | None = None) -> NoReturn:
        """End the script at once, also while calls have no reply, and this process."""
        error = {"code": code, "message": message, "line": line, "col": None}
        # What was issued with it is not made: a script that exceeds a limit must not have further effects.
        self._send({"calls": [], "logs": self._logs, "end": {"error": error}})
        os._exit(0)

    def _count(self, size: int) -> None:
        self.output_left -= size
        if self.output_left < 0:
            self.fail("script_output")

    def send_step(self) -> None:
        """Send what happened since the last step; end this process with the end of the script."""
        # A call that the script did not wait for is made all the same, so its reply comes before the end.
        end = None if self._unanswered else self._end
        self._send({"calls": self._calls, "logs": self._logs, "end": end})
        self._calls, self._logs = [], []
        if end is not None:
            os._exit(0)

    def _send(self, step: dict[str, Any]) -> None:
        line = json.dumps(step, ensure_ascii=True, allow_nan=False).encode()
        self._connection.sendall(line + b"\n")

    def serve(self, interpreter: Interpreter) -> NoReturn:
        """Run the interpreter by the lines that come, until the script ends or the connection does."""
        lines = self._lines()
        first = next(lines)
        if first["checks"]:
            interpreter.check(first["text"])
            self._end = self._end or {"value": None}
        else:
            self._known = {reply["index"]: reply for reply in first["replies"]}
            interpreter.begin(first["text"], first["args"], first["started_ms"], first["seed"])
        self._settle_known(interpreter)
        self.send_step()
        for message in lines:
            self._settle(interpreter, {reply["index"]: reply for reply in message["replies"]})
            self._settle_known(interpreter)
            self.send_step()
        os._exit(0)

    def _settle(self, interpreter: Interpreter, replies: dict[int, dict[str, Any]]) -> None:
        """Pass replies to the interpreter, with those of the earlier run to the calls between them."""
        # One after another: which replies come together must not decide what the script does next.
        for index in sorted(self._unanswered):
            reply = replies.get(index) or self._known.get(index)
            if reply is None:
                break
            self._unanswered.discard(index)
            if self._end is None:
                interpreter.settle(index, reply["value"], reply["error"])

    def _settle_known(self, interpreter: Interpreter) -> None:
        """Run on as long as the earlier run has replies to all calls that were issued together."""
        # If the reply to a call is missing, the caller makes this call first. Then the script gets all replies in order,
        # as in the earlier run.
        while self._unanswered and self._unanswered <= self._known.keys():
            self._settle(interpreter, {})

    def _lines(self) -> Iterator[dict[str, Any]]:
        rest = bytearray()
        while chunk := self._connection.recv(_READ):
            rest += chunk
            # Only the new part is searched: an answer of a tool can have many megabytes.
            if b"\n" in chunk:
                *complete, last = rest.split(b"\n")
                rest = bytearray(last)
                yield from map(json.loads, complete)


INTERPRETERS: dict[str, Callable[[Script], Interpreter]] = {
    "python": PythonScript,
    "javascript": JavaScriptScript,
}


def run_script(request: Mapping[str, Any], scratch: Path, parent: int, end: int) -> NoReturn:
    """Enter the sandbox and run the script that comes over the connection ``end``."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    system_calls.die_with(parent)
    # The fork server's descriptor 0 is /dev/null: a script has no output except its steps, which go over the connection.
    tool_process.redirect_streams(0)
    settle_descriptors(end)
    connection = socket.socket(fileno=_CONNECTION)
    try:
        _enter_sandbox(request, scratch)
    except SandboxError as error:
        _refuse(connection, error.code, error.message)
    # The time zone is the machine's otherwise, and the same script has to do the same elsewhere.
    os.environ["TZ"] = "UTC"
    time.tzset()
    sys.path.append(request["packages"])
    script = Script(connection, request["limits"])
    try:
        interpreter = INTERPRETERS[request["language"]](script)
    except Exception as error:  # noqa: BLE001 - a library that cannot be loaded here raises anything
        _refuse(connection, "sandbox_failed", f"the interpreter cannot be started: {error}")
    # The caller's wait for a spare process ends with the first line, so nothing is sent here.
    if not select.select([connection], [], [], request["idle_s"])[0]:
        os._exit(wire.NOT_CALLED)
    try:
        script.serve(interpreter)
    except MemoryError:
        script.fail("script_memory")


def _refuse(connection: socket.socket, code: str, message: str) -> NoReturn:
    connection.sendall(json.dumps({"refused": {"code": code, "message": message}}).encode() + b"\n")
    os._exit(0)


def _enter_sandbox(request: Mapping[str, Any], scratch: Path) -> None:
    # In place of a workspace and a toolset: a script has no folder.
    empty = scratch.with_name("empty")
    empty.mkdir(0o700)
    packages = Path(request["packages"])
    policy = Policy(
        workspace=empty,
        toolset=packages,
        readable=(),
        scratch=scratch,
        limits=RunLimits(**request["run_limits"]),
    )
    enter(policy, request["level"])
    os.chdir("/")
    importlib.invalidate_caches()
