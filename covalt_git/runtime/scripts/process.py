"""Our side of the process of a script: lines of JSON, of which none is trusted.

What the process writes can affect its own script only: each line is limited in size, is checked, and answers a line
that this side wrote.  Anything else ends the script as ``script_died``.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, NoReturn, Self

from pydantic import Field, ValidationError

from covalt_git.errors import CovaltError
from covalt_git.json_values import canonical_json
from covalt_git.json_values.storable import storable
from covalt_git.models.base import StrictModel
from covalt_git.runtime import pool, sandbox_levels
from covalt_git.runtime.processes.script_values import MOST_PATH
from covalt_git.runtime.sandbox.policy import RunLimits
from covalt_git.runtime.scripts.steps import (
    CODES,
    CallReply,
    LogLevel,
    ScriptCall,
    ScriptEnd,
    ScriptError,
    ScriptLanguage,
    ScriptLimits,
    ScriptLog,
    ScriptSource,
    Step,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.json_values import JsonObject
    from covalt_git.models.calls import SandboxLevel

_READ = 1 << 16
_MIB = 1 << 20
# Beyond the limit of the script: the interpreter, its program and the values that pass through.  The interpreters limit
# the script's memory themselves; this bounds an interpreter that fails to.
_INTERPRETER_MB = 1024
_PROCESSES = 64
# The interpreters measure their own time; this ends a process that does not.  Long, as another program may have the
# processor meanwhile.
_SLOWER = 3
_LATE_S = 10.0
_START_S = 30.0

_MODULES: Final[dict[ScriptLanguage, str]] = {"python": "pydantic_monty", "javascript": "_quickjs"}

_LIBRARIES: Final[dict[ScriptLanguage, tuple[str, str]]] = {
    "python": ("Python", "pydantic-monty<2"),
    "javascript": ("JavaScript", "covalt-git[javascript]"),
}
"""The name of each language, and what has to be installed for it."""

_LIMITS: Final = {
    "script_time": ("time_s", "the script ran longer than {0.time_s:g} s"),
    "script_memory": ("memory_mb", "the script used more than {0.memory_mb} MiB of memory"),
    "script_calls": ("calls", "the script made more than {0.calls} calls"),
    "script_output": ("output_kb", "the script printed and returned more than {0.output_kb} KiB"),
}
"""The limit of each code, and the message."""


class ScriptLanguageError(CovaltError):
    """Scripts of this language do not run here."""

    code = "script_language"
    http_status = 400


class ScriptSandboxError(CovaltError):
    """The sandbox could not be entered, or the interpreter not be started in it."""

    code = "sandbox_failed"
    http_status = 500


class _Call(StrictModel):
    path: Annotated[str, Field(max_length=2 * MOST_PATH)]
    arguments: dict[str, Any]
    line: int | None


class _Error(StrictModel):
    code: str
    message: str
    line: int | None
    col: int | None = None


class _End(StrictModel):
    value: Any = None
    error: _Error | None = None


class _Step(StrictModel):
    calls: list[_Call]
    logs: list[tuple[LogLevel, str]]
    end: _End | None


class ScriptSpec(NamedTuple):
    """What a process is started with; a spare process runs any script with an equal one."""

    language: ScriptLanguage
    level: SandboxLevel
    limits: ScriptLimits
    packages: str

    def open(self) -> pool.ScriptSandbox:
        """Start a process, without waiting until it is ready.

        Raises:
            NoWorkerError: if no process can be started.
        """
        memory = self.limits.memory_mb + _INTERPRETER_MB
        request: JsonObject = {
            "language": self.language,
            "level": self.level,
            "limits": self.limits._asdict(),
            "packages": self.packages,
            "run_limits": RunLimits(memory_mb=memory, processes=_PROCESSES, file_mb=1)._asdict(),
        }
        # With what is installed, so that one server is enough for both languages.
        libraries = tuple(name for name in _MODULES.values() if importlib.util.find_spec(name))
        return pool.shared().start(libraries=libraries).open_script(request)


class Spares:
    """Processes that wait for a script, so that the next one does not wait for the start; at most one for each spec."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_spec: dict[ScriptSpec, pool.ScriptSandbox] = {}
        self._ended = 0

    def take(self, spec: ScriptSpec) -> pool.ScriptSandbox | None:
        """Return the process that waits for a script with this spec, or None."""
        with self._lock:
            spare = self._by_spec.pop(spec, None)
        if spare is not None and not spare.is_usable():
            spare.end()
            return None
        return spare

    def fill(self, spec: ScriptSpec) -> None:
        """Start a process for the next script with this spec, and end those of other limits.

        Not after the first script of this process: a command runs one, and would wait at its exit for the other.
        """
        with self._lock:
            self._ended += 1
            if self._ended == 1:
                return
            others = [other for other in self._by_spec if other != spec and other[:2] == spec[:2]]
            over = [self._by_spec.pop(other) for other in others]
            is_missing = spec not in self._by_spec
        if is_missing:
            self.put(spec, spec.open())
        for spare in over:
            spare.end()

    def put(self, spec: ScriptSpec, sandbox: pool.ScriptSandbox) -> None:
        """Let a process wait for the next script with this spec."""
        with self._lock:
            other = self._by_spec.get(spec)
            self._by_spec[spec] = sandbox
        if other is not None:
            other.end()

    def clear(self) -> None:
        self._by_spec.clear()


spares = Spares()
os.register_at_fork(after_in_child=spares.clear)  # they are the parent's


class ScriptProcess:
    """One script in a process of its own; a context manager that ends the process.

    Args:
        source: the script.
        limits: the most that it may take.
        level: the sandbox level; by default the strongest of this machine.
        warm: whether a process for the next script is started when this one ends.
        checks: whether the syntax is only checked: the script ends at once, without a value.
        known: replies of an earlier run, to the first calls; their calls come in :attr:`.Step.answered`, for a check.

    Raises:
        ScriptLanguageError: if scripts of the language do not run at the level, or its library is not installed.
        NoWorkerError: if no process can be started.
    """

    def __init__(
        self,
        source: ScriptSource,
        limits: ScriptLimits = ScriptLimits(),  # noqa: B008 - immutable
        *,
        level: SandboxLevel | None = None,
        warm: bool = True,
        checks: bool = False,
        known: Sequence[CallReply] = (),
    ) -> None:
        level = level or sandbox_levels.level()
        self._source = source
        self._limits = limits
        self._warm = warm
        self._checks = checks
        self._known = {reply.index: reply for reply in known}
        self.spec = ScriptSpec(source.language, level, limits, _packages(source.language, level))
        self._sandbox: pool.ScriptSandbox | None = None
        self._issued = 0
        self._pending: set[int] = set()
        self._held: dict[int, CallReply] = {}
        self._fault_codes = {reply.error.code for reply in known if reply.error is not None}
        self._end: ScriptEnd | None = None
        self._closing = threading.Lock()
        self._time_left_s = limits.time_s * _SLOWER + _LATE_S

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pending(self) -> frozenset[int]:
        """The indexes of the calls that have no reply yet."""
        return frozenset(self._pending)

    def advance(self, replies: Sequence[CallReply] = ()) -> Step:
        """Pass replies to the script, and run it until it needs others; the first time, without replies, it starts.

        The script gets each reply after those to all calls before, however they come: so the same replies always have
        the same effect, also where calls ran side by side, and where a call waited for a user.

        Raises:
            ValueError: for a reply to a call that has one already or was never issued, and after the end.
            ScriptSandboxError: if the sandbox cannot be entered, or the interpreter not be started in it.
            NoWorkerError: if no process can be started.
        """
        if self._end is not None:
            raise ValueError("the script has ended")
        for reply in replies:
            if reply.index not in self._pending:
                raise ValueError(f"the script waits for no reply to its call {reply.index}")
            self._pending.remove(reply.index)
            self._held[reply.index] = reply
            if reply.error is not None:
                self._fault_codes.add(reply.error.code)
        if self._sandbox is None:
            line = self._begin()
        else:
            first = min(self._pending, default=self._issued)
            ready = [self._held.pop(index) for index in sorted(self._held) if index < first]
            if not ready:
                return Step()
            line = self._exchange(_replies(ready))
        try:
            step = self._step(line)
        except _ScriptDiedError as error:
            step = Step(end=ScriptEnd(error=ScriptError("script_died", str(error))))
        if step.end is not None:
            self._end = step.end
            self._pending.clear()
            # It has ended by itself, or is being killed: it can have no effect that would be worth a wait of 10 ms.
            self._close(waits=False)
        return step

    def close(self) -> None:
        """End the process, at any time and from any thread; none of its processes is left when this returns."""
        self._close(waits=True)

    def _close(self, *, waits: bool) -> None:
        with self._closing:
            sandbox, self._sandbox = self._sandbox, None
            self._end = self._end or ScriptEnd(error=ScriptError("script_died", "it was closed"))
        if sandbox is None:
            return
        with contextlib.suppress(OSError):  # wakes a thread that waits for a step
            sandbox.steps.shutdown(socket.SHUT_RDWR)
        if waits:
            sandbox.end()
        else:
            sandbox.release()
        if self._warm:
            with contextlib.suppress(CovaltError):
                spares.fill(self.spec)

    def _begin(self) -> bytes | str:
        source = self._source._asdict() | {"checks": self._checks}
        source |= _replies([*self._known.values()])
        del source["language"]
        line: bytes | str = ""
        # A spare process may have waited too long, and the fork server may have been killed, also that of the first new
        # process.  Until a line came, the script has issued no call.
        for spare in (spares.take(self.spec), None, None):
            sandbox = spare or self.spec.open()
            with self._closing:
                if self._end is None:
                    self._sandbox = sandbox
            if self._sandbox is None:  # closed by another thread
                sandbox.end()
                break
            line = self._exchange(source, _START_S)
            if line or self._end is not None:
                break
            sandbox.end()
        return line

    def _exchange(self, message: JsonObject, more_s: float = 0) -> bytes | str:
        """Send a line and return the next one; a text is the code of an exceeded limit, or empty if the process ended."""
        sandbox = self._sandbox
        if sandbox is None:  # closed by another thread
            return ""
        line = json.dumps(message, allow_nan=False).encode()
        if len(line) > self._limits.memory_mb * _MIB:
            return "script_memory"
        steps = sandbox.steps
        begun = time.monotonic()
        end = begun + self._time_left_s + more_s
        received = bytearray()
        try:
            steps.settimeout(max(0.001, end - begun))
            steps.sendall(line + b"\n")
            while b"\n" not in received[-_READ:]:
                steps.settimeout(max(0.001, end - time.monotonic()))
                chunk = steps.recv(_READ)
                if not chunk:
                    return ""
                received += chunk
                if len(received) > self._limits.memory_mb * _MIB:
                    return "script_memory"
        except TimeoutError:
            return "script_time"
        except OSError:
            return ""
        finally:
            self._time_left_s -= max(0.0, time.monotonic() - begun - more_s)
        return bytes(received)

    def _step(self, received: bytes | str) -> Step:
        """Return the step of a line.

        Raises:
            _ScriptDiedError: if it is not a step that a script may take.
            ScriptSandboxError: if the sandbox could not be entered.
        """
        if isinstance(received, str):
            if not received:
                raise _ScriptDiedError("its process ended without a result")
            return Step(end=ScriptEnd(error=self._error(received, "", None)))
        text, _, rest = received.partition(b"\n")
        if rest:
            raise _ScriptDiedError("its process wrote more than it was asked for")
        try:
            written = canonical_json.loads(text)
            if isinstance(written, dict) and "refused" in written and not self._issued:
                _refuse(written["refused"])
            step = _Step.model_validate(written)
        except (CovaltError, ValidationError) as error:
            if isinstance(error, ScriptSandboxError):
                raise
            raise _ScriptDiedError("its process wrote something other than a step") from None
        if self._issued + len(step.calls) > self._limits.calls:
            return Step(end=ScriptEnd(error=self._error("script_calls", "", None)))
        calls = tuple(
            ScriptCall(index, call.path, storable(call.arguments).value, call.line)
            for index, call in enumerate(step.calls, self._issued)
        )
        self._issued += len(step.calls)
        answered = tuple(call for call in calls if call.index in self._known)
        calls = tuple(call for call in calls if call.index not in self._known)
        self._pending.update(call.index for call in calls)
        logs = tuple(ScriptLog(level, storable(message).value) for level, message in step.logs)
        end = None if step.end is None else self._ended(step.end)
        return Step(calls, logs, end, answered)

    def _ended(self, end: _End) -> ScriptEnd:
        failure = end.error
        if failure is None:
            if self._pending or self._held:
                raise _ScriptDiedError("its process ended the script before its calls")
            return ScriptEnd(storable(end.value).value)
        error = self._error(failure.code, failure.message, failure.line)
        return ScriptEnd(error=error._replace(col=failure.col))

    def _error(self, code: str, message: str, line: int | None) -> ScriptError:
        if code in _LIMITS:
            key, text = _LIMITS[code]
            return ScriptError(code, f"{text.format(self._limits)} (limits.script.{key})", line)
        # The process may have been taken over, and a code decides what the caller does.
        if code not in CODES and code not in self._fault_codes:
            code = "script_raised"
        return ScriptError(code, storable(message).value, line)


class _ScriptDiedError(Exception):
    """The process ended, or wrote something that no script writes."""


def _refuse(written: Any) -> NoReturn:
    why = str(written.get("message")) if isinstance(written, dict) else ""
    raise ScriptSandboxError(
        why or "the sandbox could not be entered", hint="see `covalt-git doctor`"
    )


def _replies(replies: Sequence[CallReply]) -> JsonObject:
    return {
        "replies": [
            {
                "index": reply.index,
                "value": reply.value,
                "error": reply.error and reply.error._asdict(),
            }
            for reply in replies
        ]
    }


def _packages(language: ScriptLanguage, level: SandboxLevel) -> str:
    """Return the folder of the language's library.

    Raises:
        ScriptLanguageError: if scripts of the language do not run at the level, or its library is not installed.
    """
    if language == "javascript" and level == "process":
        # QuickJS runs in the process itself, in C: an error in it gives a script the rights of the user.
        raise ScriptLanguageError(
            "scripts in JavaScript need a sandbox, and this machine has only the level 'process'",
            hint="`covalt-git doctor` shows what a stronger level needs; scripts in Python run at each level",
        )
    spec = importlib.util.find_spec(_MODULES[language])
    if spec is None or spec.origin is None:
        name, package = _LIBRARIES[language]
        raise ScriptLanguageError(
            f"scripts in {name} need a library that is not installed",
            hint=f"pip install '{package}'",
        )
    folder = Path(spec.origin).parent
    return str(folder.parent if spec.submodule_search_locations else folder)
