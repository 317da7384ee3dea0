"""Child processes: listing, killing, and adopting orphans."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.runtime.sandbox import system_calls

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


def children(of: int) -> Iterator[int]:
    """Yield the processes directly below one; none where the system does not say."""
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{of}/task").iterdir():
            yield from map(int, (task / "children").read_text(encoding="ascii").split())


def has_children() -> bool:
    """Return whether this process has children, after waiting for those that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def end_all_but(spared: Collection[int], *, within_s: float) -> None:
    """Kill all descendants of this process except its children in ``spared`` and their descendants.

    A process that keeps forking could escape.  So each pass kills parents before their children, passes are
    repeated until none is found, and this process has real-time priority if the system permits it.
    """
    end = time.monotonic() + within_s
    with _ahead_of_others():
        while (strays := set(children(os.getpid())) - set(spared)) and time.monotonic() < end:
            waiting = list(strays)
            while waiting:
                pid = waiting.pop()
                waiting += children(pid)
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            # An ended child is listed until it is waited for, and the passes would not end.
            for pid in strays:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, so that they can be found."""
    if sys.platform == "linux":
        system_calls.prctl(system_calls.PR_SET_CHILD_SUBREAPER, 1)


@contextlib.contextmanager
def _ahead_of_others() -> Iterator[None]:
    """Run before every ordinary process, where the system allows it; a fork does not inherit it."""
    try:
        if sys.platform == "linux":
            first = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
            with contextlib.suppress(OSError):
                os.sched_setscheduler(0, first, os.sched_param(1))
        yield
    finally:
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
