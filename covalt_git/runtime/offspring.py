"""The processes below this one: which there are, who gets them, and with whom this one ends."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def children() -> Iterator[int]:
    """Yield the processes directly below this one; none where the system does not say."""
    with contextlib.suppress(OSError):
        listed = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
        yield from map(int, listed.split())


def has_children() -> bool:
    """Tell whether a process is left below this one, after clearing away those that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def adopt_orphans() -> None:
    """Have what is left of the processes below come to this one, so that it can be found."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with(parent: int) -> None:
    """Ask the kernel to end this process when its parent ends, however that ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value)
