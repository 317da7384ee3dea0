"""The processes between the one that enters the sandbox and the tool: who forks, who waits, who ends whom.

The *caller* of ``enter`` stays outside the new pid namespace and only waits.  The *init* is that
namespace's pid 1: when it ends, the kernel ends everything in the namespace.  The *tool* is pid 2.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import struct
from typing import TYPE_CHECKING, NoReturn

from covalt_git.runtime.sandbox import system_calls

if TYPE_CHECKING:
    from types import FrameType

_PASSED_ON = (signal.SIGTERM, signal.SIGINT)


class DeathSignal:
    """The signal that this process asked to get when its parent ends.

    The kernel forgets it whenever a process changes its powers, so it is asked for again then.
    """

    def __init__(self) -> None:
        self._signal = system_calls.parent_death_signal()
        self._parent = os.getppid()

    def restore(self) -> None:
        """Ask for it again; where the parent has ended meanwhile, end by it now."""
        if not self._signal:
            return
        system_calls.prctl(system_calls.PR_SET_PDEATHSIG, self._signal)
        if os.getppid() != self._parent:
            os.kill(os.getpid(), self._signal)


def become_init() -> int:
    """Fork the init of the pid namespace that was asked for, and continue in it; the caller waits.

    Returns a descriptor to write the tool's wait status to.
    """
    report, end = os.pipe()
    # Taken before the fork, so that no signal is lost between.
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    init = os.fork()
    if init:
        _wait_outside(init, report)
    os.close(report)
    _end_with_parent(end)
    return end


def become_tool(end: int) -> None:
    """Fork the tool, and continue in it; the init waits and ends everything with the tool."""
    tool = os.fork()
    if tool:
        _wait_inside(tool, end)
    os.close(end)
    os.setsid()  # the group it came in reaches outside the namespace
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)


def _end_with_parent(end: int) -> None:
    system_calls.prctl(system_calls.PR_SET_PDEATHSIG, signal.SIGKILL)
    # A parent outside the namespace has no id in it, so whether it lives is asked of the pipe.
    pipe = select.poll()
    pipe.register(end, 0)
    if pipe.poll(0):
        os._exit(1)


def _wait_outside(init: int, report: int) -> NoReturn:
    """Wait for the init, then end as the tool ended."""
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        system_calls.close_all_but(report)
        _pass_on_to(init)
        _, status = os.waitpid(init, 0)
        sent = os.read(report, 4)
        if sent:
            (status,) = struct.unpack("=i", sent)
        _end_as(status)
    finally:
        os._exit(1)


def _wait_inside(tool: int, end: int) -> NoReturn:
    """Reap processes until the tool ends; report its status, and let the kernel end the rest."""
    try:
        system_calls.close_all_but(end)
        system_calls.give_up_capabilities()
        system_calls.prctl(system_calls.PR_SET_DUMPABLE, 0)
        _pass_on_to(tool)
        while True:
            pid, status = os.wait()
            if pid == tool:
                os.write(end, struct.pack("=i", status))
                os._exit(0)
    finally:
        os._exit(1)


def _pass_on_to(child: int) -> None:
    def pass_on(number: int, _: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(child, number)

    for one in _PASSED_ON:
        signal.signal(one, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)


def _end_as(status: int) -> NoReturn:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
