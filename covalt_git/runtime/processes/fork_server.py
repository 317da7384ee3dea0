"""Fork server: the process that warm sandboxes are forked from, so that no call waits for an import.

There are these kinds of processes, each a fork of the one before:

- The *fork server* has imported what every tool needs: the standard library, pydantic and the SDK; of an
  environment, only the standard library.  It never runs code of a tool or its packages, so a fork of it is as good as a new interpreter and its reports are trusted.
- A *warm sandbox* (:mod:`.warm_sandbox`) belongs to one module of one toolset and to one workspace.  It
  enters the sandbox first and then imports the module.
- A *tool process* (:mod:`.tool_process`) makes one call and ends.  Memory that a call changes ends with it.
- The program of an MCP server (:mod:`.server_program`) is a sandbox too: a fork that enters it and becomes the program.
- The process of a script (:mod:`.script_process`) enters the sandbox and runs one script of an agent.

Only the fork server ends warm sandboxes: when their life connection is closed, when they have ended, and
when the process that started the fork server is gone.  Afterwards none of their processes is left.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covalt_git.runtime.processes import child_processes, wire
from covalt_git.runtime.processes.script_process import run_script
from covalt_git.runtime.processes.server_program import run_program
from covalt_git.runtime.processes.warm_sandbox import WarmSandbox
from covalt_git.runtime.sandbox.trial import why_missing
from covalt_git.system import locked_folder

if TYPE_CHECKING:
    import resource

_END_S = 5.0
"""Time limit for killing what a sandbox left, during which other sandboxes wait."""

_FAILED = 70
_PRIVATE = "covalt-sandbox-"


@dataclass(eq=False, slots=True)
class _Sandbox:
    """A warm sandbox and what the fork server holds for it."""

    pid: int
    life: socket.socket
    private: contextlib.ExitStack


class ForkServer:
    """Forks warm sandboxes on request and ends them; it trusts nothing that they send."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._sandboxes: list[_Sandbox] = []
        self._selector = selectors.DefaultSelector()
        self._cleared: set[Path] = set()

    def run(self) -> None:
        """Serve until the other end of the control connection is closed."""
        child_processes.adopt_orphans()
        ended, wake = os.pipe()
        for end in (ended, wake):
            os.set_blocking(end, False)
        # Python writes to the wakeup descriptor only for signals that have a handler.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self._selector.register(ended, selectors.EVENT_READ)
        self._selector.register(self._control, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._control:
                    if not self._answer():
                        return
                elif isinstance(key.data, _Sandbox):
                    self._end(key.data)
                else:
                    with contextlib.suppress(BlockingIOError):
                        os.read(ended, 4096)
                    self._reap()

    def _answer(self) -> bool:
        """Answer a request; return False at the end of the control connection."""
        try:
            received = wire.receive_with_descriptors(self._control)
        except (EOFError, OSError):
            received = None
        if received is None:
            for sandbox in list(self._sandboxes):
                self._end(sandbox)
            return False
        request, (answer_end, *descriptors) = received
        answer = socket.socket(fileno=answer_end)
        if "try" in request:
            with answer, contextlib.suppress(OSError):  # the other end is closed
                wire.send(answer, why_missing(request["try"]))
        else:
            self._open(request, answer, descriptors)
        return True

    def _open(self, request: dict[str, Any], life: socket.socket, descriptors: list[int]) -> None:
        """Fork the requested sandbox."""
        parent = Path(request["scratch_in"])
        private = contextlib.ExitStack()
        # A tool may open its own folder to other users, and no other user can enter the outer one.
        scratch = private.enter_context(locked_folder.create(parent, _PRIVATE)) / "tmp"
        scratch.mkdir(0o700)
        own = os.getpid()
        pid = os.fork()
        if pid == 0:
            # A fork that returned from here would serve as a second fork server, and run code of a tool in it.
            with contextlib.suppress(BaseException):
                if "argv" in request:
                    run_program(request, scratch, own, *descriptors)
                elif "language" in request:
                    run_script(request, scratch, own, *descriptors)
                else:
                    WarmSandbox(request, scratch).run(own, *descriptors)
            os._exit(_FAILED)
        # Our copies: with them open, the caller would not notice that the sandbox has ended, or closed its output.
        for end in descriptors:
            os.close(end)
        sandbox = _Sandbox(pid, life, private)
        self._sandboxes.append(sandbox)
        self._selector.register(life, selectors.EVENT_READ, sandbox)
        with contextlib.suppress(OSError):  # the other end is closed
            wire.send(life, {"pid": pid, "scratch": str(scratch)})
        # After the answer, so that no call waits for it: it removes what killed fork servers left.
        if parent not in self._cleared:
            self._cleared.add(parent)
            locked_folder.clear(parent, _PRIVATE)

    def _reap(self) -> None:
        """Wait for every process that has ended; one that is not a sandbox was left by a sandbox."""
        with contextlib.suppress(ChildProcessError):
            while True:  # several ends can come as one signal
                pid, status, used = os.wait4(-1, os.WNOHANG)
                if pid == 0:
                    return
                for sandbox in [item for item in self._sandboxes if item.pid == pid]:
                    self._end(sandbox, (status, used))

    def _end(
        self, sandbox: _Sandbox, ended: tuple[int, resource.struct_rusage] | None = None
    ) -> None:
        """End a sandbox with all its processes, then report how it ended."""
        # The end of its process and that of its life connection can be in one list of events.
        if sandbox not in self._sandboxes:
            return
        self._sandboxes.remove(sandbox)
        self._selector.unregister(sandbox.life)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(sandbox.pid, signal.SIGKILL)
        if ended is None:
            # By its id too: a sandbox that has just been forked does not lead its group yet.
            with contextlib.suppress(ProcessLookupError):
                os.kill(sandbox.pid, signal.SIGKILL)
            ended = os.wait4(sandbox.pid, 0)[1:]
        # Processes that outlived their sandbox are children of the fork server now, as theirs will be.
        child_processes.end_all_but({other.pid for other in self._sandboxes}, within_s=_END_S)
        # Removed and reported only now: a process of the tool could write there again, and the caller relies on the
        # report that none is left.
        sandbox.private.close()
        status, used = ended
        report = wire.STATUS.pack(os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime)
        with sandbox.life, contextlib.suppress(OSError):  # the other end is closed
            sandbox.life.sendall(report)
