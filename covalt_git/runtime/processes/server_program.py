"""Program of an MCP server: a fork of the fork server that enters the sandbox and executes the program."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from covalt_git.runtime.processes import wire
from covalt_git.runtime.processes.warm_sandbox import settle_descriptors
from covalt_git.runtime.sandbox import system_calls
from covalt_git.runtime.sandbox.entering import enter
from covalt_git.runtime.sandbox.policy import Policy, RunLimits, SandboxError

if TYPE_CHECKING:
    from collections.abc import Mapping

_STARTED = 3
"""The descriptor that reports why the program was not executed; its execution closes it."""

_NOT_EXECUTED = 127


def run_program(request: Mapping[str, Any], scratch: Path, parent: int, *ends: int) -> NoReturn:
    """Enter the sandbox and execute the program; ``ends`` are those of :meth:`..pool.ForkServerProcess.launch`."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    system_calls.die_with(parent)
    streams, others = ends[:3], ends[3:]
    for number, end in enumerate(streams):
        os.dup2(end, number)
    settle_descriptors(*others)
    started = socket.socket(fileno=_STARTED)
    try:
        listener = _enter_sandbox(request, scratch, _STARTED + 1 if others[1:] else None)
        if listener is not None:
            # Before any call that the filter refuses, which would wait for an answer without an end.
            wire.send(started, "", [listener])
        # Python ignores it, and a program that is executed would inherit that.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        if request["cwd"] is not None:
            os.chdir(request["cwd"])
        program, *_ = request["argv"]
        # The declared variables only now: LD_PRELOAD and the like must not act on the steps above.
        os.execve(program, request["argv"], {**os.environ, **request["env"]})  # noqa: S606 - no shell, in the sandbox
    except SandboxError as error:
        wire.send(started, error.message)
    except OSError as error:
        wire.send(started, f"{error.strerror} ({error.filename})")
    os._exit(_NOT_EXECUTED)


def _enter_sandbox(request: Mapping[str, Any], scratch: Path, egress: int | None) -> int | None:
    """Enter the sandbox; return the descriptor that reports refused system calls, if there is one."""
    workspace = request["workspace"]
    if workspace is None:
        # In place of a workspace: the program starts in an empty folder.
        workspace = scratch.with_name("empty")
        workspace.mkdir(0o700)
    policy = Policy(
        workspace=Path(workspace),
        toolset=Path(request["toolset_dir"]),
        readable=tuple(map(Path, request["readable"])),
        scratch=scratch,
        hosts=tuple(request["hosts"]),
        limits=RunLimits(**request["limits"]),
        egress=egress,
        writable=tuple(map(Path, request["writable"])),
        listens=True,
        observes=request["observes"],
    )
    listener = enter(policy, request["level"])
    # Never in the workspace: it could load files from there that a tool wrote.
    if request["workspace"] is not None:
        os.chdir(os.environ["HOME"])
    return listener
