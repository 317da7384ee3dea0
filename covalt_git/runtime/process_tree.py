"""Resource usage of a process and all its descendants, from Linux's ``/proc``."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.runtime.processes.child_processes import children

if TYPE_CHECKING:
    from collections.abc import Iterator

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_ROUNDED = 2
"""Clock ticks that the kernel does not report yet: the current one in user and in system mode."""
# A tool that keeps forking adds processes as fast as they are listed; the list must end, as our process waits for it.
_MOST = 10_000


class ProcessUsage(NamedTuple):
    """Number of processes and threads, and their memory in bytes."""

    tasks: int = 0
    memory: int = 0


def usage(root: int, *, exactly: bool = False) -> ProcessUsage:
    """Return the usage of ``root`` and its descendants; zeros without ``/proc``.

    Shared pages count for each process that has them.  With ``exactly`` they count once, which takes longer
    the more memory there is.
    """
    tasks = memory = 0
    for pid, threads in _tree(root):
        tasks += threads
        with suppress(OSError, ValueError):
            memory += (_proportional(pid) if exactly else None) or _resident(pid)
    return ProcessUsage(tasks, memory)


class ProcessorTime:
    """Processor time of ``root`` and its descendants, also of those that ended.

    The kernel keeps the time of an ended process only if its parent waited for it.  For the others, the time at
    the last check counts.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._ticks_of: dict[tuple[int, str], int] = {}
        self._at_start = self._ticks()

    def used_s(self, *, at_end: float | None = None) -> float:
        """Return the seconds used since the start, rounded up.

        If ``root`` has ended, ``at_end`` is the time of it and of all that it waited for.
        """
        # Each sum lacks something: the first, time of processes without a parent that waits; the second, time since
        # the last check of those that ended.
        used = max(
            ticks - first for ticks, first in zip(self._ticks(), self._at_start, strict=True)
        )
        if at_end is not None:
            used = max(used, int(at_end * _TICKS) - self._at_start[0])
        return (used + _ROUNDED) / _TICKS

    def _ticks(self) -> tuple[int, int]:
        """Return the clock ticks of running and waited-for processes, and of all that were ever seen."""
        total = 0
        for pid, _ in _tree(self._root):
            with suppress(OSError, ValueError):
                # After the name, which may contain anything: fields 14 to 17 and 22 of proc(5).
                text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
                fields = text.rpartition(")")[2].split()
                own, of_children = (sum(map(int, fields[at : at + 2])) for at in (11, 13))
                self._ticks_of[pid, fields[19]] = own  # with its start: ids are used again
                total += own + of_children
        return total, sum(self._ticks_of.values())


def _tree(root: int) -> Iterator[tuple[int, int]]:
    """Yield each process and its number of threads."""
    waiting, seen = [root], 0
    while waiting and seen < _MOST:
        pid = waiting.pop()
        seen += 1
        with suppress(OSError):
            yield pid, Path(f"/proc/{pid}/task").stat().st_nlink - 2
            waiting += children(pid)


def _resident(pid: int) -> int:
    """Return the bytes of a process that are not of a file."""
    pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    return (int(pages[1]) - int(pages[2])) * _PAGE


def _proportional(pid: int) -> int | None:
    """Return the same with its share of shared pages; None if the kernel has no such figure."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        return next(
            (int(line.split()[1]) << 10 for line in lines if line.startswith("Pss_Anon:")), None
        )
    return None
