"""Watch over the program of an MCP server in its sandbox: its limits, and the system calls that it is refused.

The memory is sampled, as that of tools: a limit of the address space would end Node and Go, which reserve far more
than they use.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.models.outcomes import MIB, program_limit
from covalt_git.models.tool_properties import Limits
from covalt_git.runtime import process_tree
from covalt_git.runtime.disk_space import DiskSpace
from covalt_git.runtime.folder_size import FolderSize
from covalt_git.runtime.sandbox import seccomp
from covalt_git.runtime.sandbox.control_groups import enforced

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


_CHECK_MS = 200
_MOST_REPORTS = 20
"""Different texts about one program: hosts that it chooses must not fill the logs."""


class Watched(NamedTuple):
    """A running program: its first process, its private folder, what it writes to, and its limits.

    ``in_group`` is whether a control group counts its processes, and refuses those beyond the limit.
    """

    pid: int
    private: Path
    workspace: Path
    limits: Limits | None
    processes: int
    in_group: bool


class ProgramWatch:
    """Thread that watches a program until it ends or :meth:`close` is called.

    ``life`` is its life connection, which ends it when it is shut down, and ``listener`` that of
    :func:`.seccomp.refused_call`, which this closes.  ``report`` gets each different text once, and ``observe`` each
    observed call.
    """

    def __init__(
        self,
        program: Watched,
        life: socket.socket,
        listener: int | None,
        report: Callable[[str], None],
        observe: Callable[[seccomp.SystemCall], None] | None = None,
    ) -> None:
        self._program = program
        self._observe = observe
        self._life = life
        self._listener = listener
        self._report = report
        self._limits = program.limits or Limits()
        self._private = FolderSize(program.private, self._limits)
        self._disks = DiskSpace(program.workspace, program.private)
        self._stopped, self._stop = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="program-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the watch; afterwards it uses neither the listener nor the processes of the program."""
        self._stop.close()
        self._thread.join()

    def _run(self) -> None:
        try:
            with self._stopped:
                self._watch()
        finally:
            # A system call of the program that waits for an answer then fails with ENOSYS: it is refused, as before,
            # and the program does not hang.
            if self._listener is not None:
                os.close(self._listener)

    def _watch(self) -> None:
        poll = select.poll()
        for end in (self._life.fileno(), self._stopped.fileno()):
            poll.register(end, select.POLLIN)
        if self._listener is not None:
            poll.register(self._listener, select.POLLIN)
        has_ended = False
        while True:
            events = dict(poll.poll(_CHECK_MS))
            if self._life.fileno() in events or self._stopped.fileno() in events:
                return
            if self._listener in events:
                # When no process is left, each poll() reports the end of the listener at once.
                if not events[self._listener] & select.POLLIN:
                    poll.unregister(self._listener)
                elif (name := seccomp.refused_call(self._listener, self._observe)) is not None:
                    self._report(f"the sandbox refused the system call {name}")
            elif not has_ended and (why := self._exceeded()):
                has_ended = True
                self._report(why)
                with contextlib.suppress(OSError):
                    self._life.shutdown(socket.SHUT_WR)

    def _exceeded(self) -> str:
        """Return why the program has to be ended; empty if it is within its limits."""
        pid, limits = self._program.pid, self._limits
        used = process_tree.usage(pid)
        refuses = self._program.in_group and enforced(pid)["limit_processes"] > 0
        if used.tasks > self._program.processes or refuses:
            return program_limit("limit_processes", limits)
        if limits.memory_mb and used.memory > limits.memory_mb * MIB:
            used = process_tree.usage(pid, exactly=True)
            if used.memory > limits.memory_mb * MIB:
                return program_limit("limit_memory", limits)
        if self._private.exceeded_soon():
            return program_limit("limit_tmp", limits)
        full = self._disks.exceeded()
        return f"{full.message}, so the program was ended" if full else ""


class Reports:
    """Texts about one program, each reported once and at most :data:`_MOST_REPORTS`; for several threads."""

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._texts: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, text: str) -> None:
        with self._lock:
            if text in self._texts or len(self._texts) == _MOST_REPORTS:
                return
            self._texts.add(text)
        self._report(text)
