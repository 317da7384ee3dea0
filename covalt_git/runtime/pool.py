"""Our side of the processes that tools run in: fork servers and idle warm sandboxes.

A fork server runs for each interpreter (:mod:`covalt_git.runtime.processes.fork_server`).  An idle warm sandbox
serves the next call with an equal :class:`SandboxSpec`.  The spec has the digest of the toolset, so that changed
files are imported anew, and the workspace, so that nothing passes between two chats.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.runtime.egress import Egress
from covalt_git.runtime.installations import installation
from covalt_git.runtime.processes import wire
from covalt_git.runtime.sandbox.control_groups import enforced
from covalt_git.runtime.sandbox.policy import RunLimits
from covalt_git.runtime.sandbox.privileges import is_root
from covalt_git.runtime.sandbox.system_files import FOLDERS
from covalt_git.system import programs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from covalt_git.hosts import WebOrigin
    from covalt_git.json_values import JsonObject
    from covalt_git.models.calls import SandboxLevel
    from covalt_git.models.tool_properties import Limits
    from covalt_git.runtime.observation import Observer
    from covalt_git.runtime.program_watch import ProgramWatch
    from covalt_git.toolsets.toolset_copies import HeldCopy, ToolsetCopy

IDLE_S = 60.0
"""How long a warm sandbox waits for its next call."""

MOST_IDLE = 16
"""The most idle sandboxes; the one that has waited longest is ended first."""

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_PROGRAM = Path(__file__).with_name("processes") / "program.py"
_OURS = Path(__file__).parents[1]
_SDK = _OURS.with_name("covalt_toolset")
# More than the 5 s in which the fork server kills what a sandbox left.
_END_S = 10.0
# More than a trial may take itself (processes/trial.py).
_TRIAL_S = 30.0


class NoWorkerError(CovaltError):
    """The fork server could not be started, or has ended."""

    code = "no_worker"
    http_status = 500


class SandboxSpec(NamedTuple):
    """Everything that a warm sandbox depends on: a call uses an idle one only if all of it is equal.

    ``warm`` means that it may serve further calls.  A sandbox of an imported toolset may not, so that none of its
    processes outlives a call; and it is a field, so that a toolset that is imported now gets no sandbox from before.
    """

    toolset: ToolsetCopy
    module: str
    workspace: Path
    level: SandboxLevel
    python: Path = Path(sys.executable)
    hosts: tuple[str, ...] = ()
    limits: RunLimits = RunLimits()
    warm: bool = False


@dataclass(slots=True, eq=False)
class SandboxProcess:
    """A warm sandbox, used by one caller at a time.

    Attributes:
        life: connection to the fork server, which reports the sandbox's end over it.
        calls: connection that calls are sent to, and that reports the end of each.
        scratch: its private folder, the only writable folder of its tool except the workspace.
        output: the pipe that the import prints to, until the first call reads it.
        workspace_id: device and inode of the workspace when the sandbox was entered.
        toolset: the copy that its module is imported from.
        egress: the proxy to the granted hosts, if there are any.
        enforced: how often control groups had enforced each limit at the last check.
    """

    spec: SandboxSpec
    life: socket.socket
    calls: socket.socket
    output: int | None
    workspace_id: tuple[int, int]
    toolset: HeldCopy
    egress: Egress | None = None
    pid: int = 0
    scratch: Path = Path()
    enforced: dict[str, int] = field(default_factory=dict)

    def limit_hit(self) -> str:
        """Return the code of a limit that a control group enforced since the last check, or an empty text."""
        # Only there do control groups limit a tool; at `full` and for other users, the kernel's own limits hold.
        if self.spec.level != "landlock" or not is_root():
            return ""
        # A group counts for as long as its sandbox lives, so the difference is of this call
        # (test_control_group_reports_a_refused_process_of_the_call_that_started_it).
        earlier, self.enforced = self.enforced, enforced(self.pid)
        return next((code for code, n in self.enforced.items() if n > earlier.get(code, 0)), "")

    def next_call(self) -> tuple[socket.socket, int]:
        """Send a call's connection and output; return our ends of both, which the caller closes."""
        ours, theirs = socket.socketpair()
        written: list[int] = []
        if self.output is not None:  # the first call prints to the pipe of the import
            printed, self.output = self.output, None
        else:
            printed, *written = os.pipe()
        # A sandbox that has ended reports it over `life`.
        with theirs, contextlib.suppress(OSError):
            wire.send(self.calls, None, [theirs.fileno(), *written])
        # Our copies: with them open, the output would not end with the processes that print to it.
        for end in written:
            os.close(end)
        # The caller reads both until nothing is left, and must not wait.
        ours.setblocking(False)
        os.set_blocking(printed, False)
        return ours, printed

    def is_usable(self) -> bool:
        """Return whether it still waits for a call, in the current folder of the workspace."""
        # An idle sandbox sends nothing, so what can be read is its end.  It sees the folder that it entered, also
        # after another one has this path (test_a_replaced_workspace_folder_is_used_by_the_next_call).
        # Not select, which refuses descriptors from 1,024.
        poll = select.poll()
        poll.register(self.life, select.POLLIN)
        poll.register(self.calls, select.POLLIN)
        return not poll.poll(0) and _identity(self.spec.workspace) == self.workspace_id

    def end(self) -> None:
        """End the sandbox; none of its processes is left when this returns, unless the fork server needs over 10 s."""
        self.calls.close()
        if self.output is not None:
            os.close(self.output)
            self.output = None
        _end_life(self.life)
        # Only now: a copy without a holder may be removed, and the processes ran from it.
        self.toolset.close()
        if self.egress is not None:
            self.egress.close()


class ProgramSpec(NamedTuple):
    """Sandbox of the program of an MCP server; equal specs and arguments start equal programs.

    ``workspace`` is None if the program may not use it.  ``readable`` and ``writable`` are the folders of its
    installation and those that are granted.  ``observer`` gets what the program looks for.
    """

    level: SandboxLevel
    toolset: ToolsetCopy
    workspace: Path | None = None
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    hosts: tuple[str, ...] = ()
    limits: Limits | None = None
    observer: Observer | None = None

    @property
    def run_limits(self) -> RunLimits:
        """The limits that the kernel enforces; the others are watched."""
        if self.limits is None:
            return RunLimits()
        processes = self.limits.processes or RunLimits().processes
        return RunLimits(processes=processes, file_mb=self.limits.file_mb)

    def start(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        cwd: Path | None,
        streams: Sequence[int],
        report: Callable[[str], None] = lambda _: None,
    ) -> ServerProgram:
        """Start a program in this sandbox with the given standard streams, of which the caller closes its copies.

        ``report`` gets what the sandbox refused to it, and why it was ended, in other threads.

        Raises:
            NoWorkerError: if no process can be started.
            OSError: if the program does not exist, or the sandbox cannot be entered.
            ToolsetChangedError: if the toolset no longer has the files of its digest.
        """
        path = programs.find(argv[0])
        if path is None:
            raise FileNotFoundError(f"there is no program {argv[0]!r}")
        readable = (*self.readable, *installation(Path(path)))
        if not any(Path(path).is_relative_to(at) for at in (*readable, *map(Path, FOLDERS))):
            path = str(
                Path(path).resolve()
            )  # a link, such as in ~/.local/bin, whose folder is not shown
        spec = self._replace(readable=readable)
        request = {"argv": [path, *argv[1:]], "env": dict(env), "cwd": cwd and str(cwd)}
        try:
            return shared().start().launch(spec, request, streams, report)
        except NoWorkerError:  # it was killed; start another
            return shared().start().launch(spec, request, streams, report)


@dataclass(slots=True, eq=False)
class ServerProgram:
    """A running program of an MCP server in its sandbox."""

    life: socket.socket
    toolset: HeldCopy
    egress: Egress | None
    watch: ProgramWatch | None = None

    def wait(self, within_s: float) -> bool:
        """Return whether it ends in this time, with all its processes."""
        ready, _, _ = select.select([self.life], [], [], within_s)
        return bool(ready)

    def end(self) -> None:
        """End the program; none of its processes is left when this returns."""
        if self.watch is not None:
            self.watch.close()
        _end_life(self.life)
        self.toolset.close()
        if self.egress is not None:
            self.egress.close()


class ScriptSandbox(NamedTuple):
    """The process of a script in its sandbox; lines of JSON pass over ``steps``."""

    life: socket.socket
    steps: socket.socket

    def is_usable(self) -> bool:
        """Return whether it still waits for a script."""
        poll = select.poll()
        poll.register(self.steps, select.POLLIN)
        return not poll.poll(0)

    def end(self) -> None:
        """End it; none of its processes is left when this returns."""
        self.steps.close()
        _end_life(self.life)

    def release(self) -> None:
        """Let the fork server end it, without waiting for that."""
        self.steps.close()
        self.life.close()


def _started(connection: socket.socket, watch: Callable[[int], None]) -> str:
    """Wait until a program is executed; return why it could not, and pass the descriptor of its refused system calls."""
    failure = ""
    with connection:
        connection.settimeout(_END_S)
        while (received := wire.receive_with_descriptors(connection)) is not None:
            text, descriptors = received
            failure = failure or text
            for descriptor in descriptors:
                watch(descriptor)
    return failure


def _end_life(life: socket.socket) -> None:
    """Close a life connection, and wait until the fork server reports that no process is left."""
    # The fork server ends the sandbox when it reads this end, and closes the other end once no process is left.
    with life, contextlib.suppress(OSError):
        life.shutdown(socket.SHUT_WR)
        life.settimeout(_END_S)
        while life.recv(wire.STATUS.size):
            pass


class ForkServerProcess:
    """The fork server of one interpreter: our own, or that of an environment with a toolset's packages.

    ``libraries`` are imported before it forks, instead of the SDK: those of the interpreters of scripts.  Only scripts
    run in such a server, as a tool would find our library in place of its own version.
    """

    def __init__(self, python: Path, libraries: tuple[str, ...] = ()) -> None:
        self._requesting = threading.Lock()
        self._was_used = False
        self._control, theirs = socket.socketpair()
        # Isolated from the user's variables and folders; unbuffered, so that both streams of a tool are in
        # order and complete.  The program always is our interpreter: packages can replace that of an
        # environment, and run code when it starts, but the sandbox is entered later (`-S`: see the program).
        own = Path(sys.executable)
        flags = ["-B", "-u", *(() if python == own else ("-S",)), "-X", "utf8"]
        with theirs:
            given = [str(theirs.fileno()), str(python), ",".join(libraries), str(_SDK), str(_OURS)]
            try:
                self._process = programs.start(
                    programs.python(*flags, str(_PROGRAM), *given),
                    env={"PATH": PATH, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    # Ctrl-C in a terminal signals each process of its group, and the fork server has to end tools.
                    start_new_session=True,
                )
            except OSError as error:
                self._control.close()
                raise NoWorkerError(
                    f"the interpreter {str(own)!r} cannot be started: {error}"
                ) from None

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def open(self, spec: SandboxSpec, function: str) -> SandboxProcess:
        """Fork a sandbox, which ends by itself after :data:`IDLE_S` without a call.

        Raises:
            NoWorkerError: if the fork server has ended.
            FileNotFoundError: if the workspace does not exist.
            ToolsetChangedError: if the toolset no longer has the files of the spec's digest.
        """
        workspace_id = _identity(spec.workspace)
        if workspace_id is None:
            raise FileNotFoundError(spec.workspace)
        toolset = spec.toolset.hold()
        # Before the request is sent: from then on, `close` has to wait for the sandbox.
        self._was_used = True
        request = {
            "toolset_dir": str(toolset.folder),
            "sdk_dir": str(_SDK),
            "module": spec.module,
            "function": function,
            "workspace": str(spec.workspace),
            "level": spec.level,
            "hosts": list(spec.hosts),
            "limits": spec.limits._asdict(),
            "warm": spec.warm,
            "scratch_in": tempfile.gettempdir(),
            "idle_s": IDLE_S,
        }
        life, their_life = socket.socketpair()
        calls, their_calls = socket.socketpair()
        printed, output = os.pipe()
        egress = Egress(spec.hosts) if spec.hosts and spec.level == "full" else None
        sandbox = SandboxProcess(spec, life, calls, printed, workspace_id, toolset, egress)
        with their_life, their_calls:
            ends = [their_life.fileno(), their_calls.fileno(), output]
            self._send(request, [*ends, egress.descriptor] if egress else ends)
        # Our copies: with them open, neither the output nor the wait for the proxy's listener would end.
        os.close(output)
        if egress is not None:
            egress.hand_over()
        try:
            opened = self._answer(life)
        except NoWorkerError:
            sandbox.end()
            raise
        sandbox.pid, sandbox.scratch = opened["pid"], Path(opened["scratch"])
        return sandbox

    def launch(
        self,
        spec: ProgramSpec,
        request: JsonObject,
        streams: Sequence[int],
        report: Callable[[str], None],
    ) -> ServerProgram:
        """Start a program in a sandbox, as :meth:`ProgramSpec.start`."""
        # Python tools do not need it, and commands that call them start faster without it.
        from covalt_git.runtime import program_watch  # noqa: PLC0415

        report = program_watch.Reports(report)
        toolset = spec.toolset.hold()
        self._was_used = True
        life, their_life = socket.socketpair()
        started, their_started = socket.socketpair()
        # Also without a granted host, so that the user learns the names of the hosts that are refused.  Without a network
        # namespace, no proxy can be enforced.
        observer = spec.observer

        def report_host(text: str, origin: WebOrigin) -> None:
            if observer is not None:
                observer.refused_host(origin)
            report(text)

        egress = Egress(spec.hosts, report=report_host) if spec.level == "full" else None
        program = ServerProgram(life, toolset, egress)
        request = request | {
            "toolset_dir": str(toolset.folder),
            "workspace": spec.workspace and str(spec.workspace),
            "readable": [str(path) for path in spec.readable],
            "writable": [str(path) for path in spec.writable],
            "level": spec.level,
            "hosts": list(spec.hosts),
            "limits": spec.run_limits._asdict(),
            "scratch_in": tempfile.gettempdir(),
            "observes": observer is not None,
        }
        with their_life, their_started:
            ends = [their_life.fileno(), *streams, their_started.fileno()]
            self._send(request, [*ends, egress.descriptor] if egress else ends)
        if egress is not None:
            egress.hand_over()

        def watch(listener: int | None) -> None:
            private = Path(opened["scratch"])
            if observer is not None:
                observer.begin(
                    spec, toolset.folder, private, request["env"], observes=listener is not None
                )
            # The waiter and the init of a namespace are not the program's.
            processes = spec.run_limits.processes + (2 if spec.level == "full" else 0)
            watched = program_watch.Watched(
                opened["pid"],
                private,
                spec.workspace or private,
                spec.limits,
                processes,
                in_group=spec.level == "landlock" and is_root(),
            )
            observe = None if observer is None else observer.observe
            program.watch = program_watch.ProgramWatch(watched, life, listener, report, observe)

        try:
            opened = self._answer(life)
            # At once when the listener comes: the execution of an observed program waits for its answer.
            failure = _started(started, watch)
            if program.watch is None:
                watch(None)
        except BaseException:
            program.end()
            raise
        if failure:
            program.end()
            raise OSError(failure)
        return program

    def open_script(self, request: JsonObject) -> ScriptSandbox:
        """Fork the process of a script, without waiting until it is ready; see :mod:`.processes.script_process`."""
        self._was_used = True
        life, their_life = socket.socketpair()
        steps, their_steps = socket.socketpair()
        with their_life, their_steps:
            self._send(
                request | {"scratch_in": tempfile.gettempdir(), "idle_s": IDLE_S},
                [their_life.fileno(), their_steps.fileno()],
            )
        return ScriptSandbox(life, steps)

    def try_level(self, level: SandboxLevel) -> Callable[[], str]:
        """Start the trial of a sandbox level; return a function that waits for the answer, and is called once.

        The function returns why this machine cannot enter the level; an empty text if it can.  It raises
        ``NoWorkerError`` if the fork server has ended, or does not answer within 30 s.
        """
        self._was_used = True
        ours, theirs = socket.socketpair()
        ours.settimeout(_TRIAL_S)
        with theirs:
            self._send({"try": level}, [theirs.fileno()])

        def why_missing() -> str:
            with ours:
                why: str = self._answer(ours)
            return why

        return why_missing

    def _send(self, request: JsonObject, descriptors: list[int]) -> None:
        """Send a request, and copies of the descriptors; the first one is for the answer."""
        # One at a time: frames of two threads would mix.  The suppressed error is an end without an answer.
        with self._requesting, contextlib.suppress(OSError):
            wire.send(self._control, request, descriptors)

    def _answer(self, connection: socket.socket) -> Any:
        """Wait for an answer; close the fork server, with all its sandboxes, if it has ended or is late."""
        with contextlib.suppress(EOFError, OSError):
            answer = wire.receive(connection)
            if answer is not None:
                return answer
        self.close()
        raise NoWorkerError("the process that tools are forked from has ended or does not answer")

    def kill(self) -> None:
        """Kill the fork server; its sandboxes end with it."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End every sandbox and the fork server."""
        self._control.close()
        if not self._was_used:  # it may still import, and has nothing to end
            self._process.kill()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self.kill()


class SandboxPool:
    """The fork servers and idle sandboxes of a process; thread-safe."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._servers: dict[tuple[Path, tuple[str, ...]], ForkServerProcess] = {}
        self._idle: list[SandboxProcess] = []

    def start(
        self, python: Path = Path(sys.executable), libraries: tuple[str, ...] = ()
    ) -> ForkServerProcess:
        """Return the fork server of an interpreter, with imported libraries; start it if it does not run."""
        with self._lock:
            server = self._servers.get((python, libraries))
            if server is None or not server.is_alive:
                if server is not None:
                    server.close()
                server = self._servers[python, libraries] = ForkServerProcess(python, libraries)
            return server

    def take(self, spec: SandboxSpec) -> SandboxProcess | None:
        """Return an idle sandbox with this spec, or None."""
        with self._lock:
            over = [sandbox for sandbox in self._idle if _is_over(sandbox, spec)]
            self._idle = [sandbox for sandbox in self._idle if sandbox not in over]
            fitting = [sandbox for sandbox in self._idle if sandbox.spec == spec]
            if fitting:  # the last used one, so that those of a past rush become idle and end
                self._idle.remove(fitting[-1])
        # Without the lock: an end takes up to _END_S, for which other calls would wait.
        for sandbox in over:
            sandbox.end()
        return fitting[-1] if fitting else None

    def open(self, spec: SandboxSpec, function: str) -> SandboxProcess:
        """Return a new sandbox.

        Raises:
            NoWorkerError: if no process can be started.
            FileNotFoundError: if the workspace does not exist.
            ToolsetChangedError: as :meth:`ForkServerProcess.open`.
        """
        try:
            return self.start(spec.python).open(spec, function)
        except NoWorkerError:  # it was killed; start another
            return self.start(spec.python).open(spec, function)

    def give_back(self, sandbox: SandboxProcess) -> None:
        """Keep a sandbox for the next call with its spec."""
        with self._lock:
            self._idle.append(sandbox)
            over = self._idle[:-MOST_IDLE]
            self._idle = self._idle[-MOST_IDLE:]
        for old in over:
            old.end()

    def idle(self) -> list[SandboxProcess]:
        """Return the idle sandboxes, the one that has waited longest first."""
        with self._lock:
            return list(self._idle)

    def end_idle(self) -> None:
        with self._lock:
            sandboxes, self._idle = self._idle, []
        for sandbox in sandboxes:
            sandbox.end()

    def close(self) -> None:
        """End every process of the pool; a fork of the pool's process ends none."""
        if os.getpid() != self._owner:
            return
        self.end_idle()
        with self._lock:
            servers, self._servers = self._servers, {}
        for server in servers.values():
            server.close()


@functools.cache
def shared() -> SandboxPool:
    """Return the pool of this process, which is closed at its exit."""
    pool = SandboxPool()
    atexit.register(pool.close)
    return pool


# A fork has copies of the connections, and would read the answers of calls that are not its own.
os.register_at_fork(after_in_child=shared.cache_clear)


def _is_over(sandbox: SandboxProcess, spec: SandboxSpec) -> bool:
    """Return whether a sandbox has ended, or its toolset has changed."""
    # No later call fits a sandbox of older files, and it holds their copy.
    same = sandbox.spec.toolset.source == spec.toolset.source
    return (same and sandbox.spec.toolset != spec.toolset) or not sandbox.is_usable()


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
