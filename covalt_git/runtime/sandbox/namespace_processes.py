"""The processes between the one that enters the sandbox and the tool: who forks, who waits, who ends whom.

The *caller* of ``enter`` stays outside the new pid namespace and only waits.  The *init* is that
namespace's pid 1: when it ends, the kernel ends everything in the namespace.  The *tool* is pid 2.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import struct
from typing import NoReturn

from covalt_git.runtime.sandbox import system_calls


def become_init() -> int:
    """Fork the init of the pid namespace that was asked for, and continue in it; the caller waits.

    Returns a descriptor to write the tool's wait status to.
    """
    report, end = os.pipe()
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
        # It ends by the tool's signal, which must not leave a core file of this process.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # With copies of the tool's connections open, their other ends would not notice its end.
        system_calls.close_all_but(report)
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
        # The tool is of the same user: it could read the memory and the environment of this process in /proc/1.
        system_calls.prctl(system_calls.PR_SET_DUMPABLE, 0)
        while True:
            pid, status = os.wait()
            if pid == tool:
                os.write(end, struct.pack("=i", status))
                os._exit(0)
    finally:
        os._exit(1)


def _end_as(status: int) -> NoReturn:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
