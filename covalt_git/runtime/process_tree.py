"""How much a process and everything below it takes, where the system tells (Linux's /proc)."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_ROUNDED = 2
"""Ticks that are begun are not told: of the time in the program, and of that in the system."""
_MOST = 10_000


@dataclass(frozen=True, slots=True)
class Taken:
    """What a tree of processes takes: how many they and their threads are, and their memory in bytes."""

    tasks: int = 0
    memory: int = 0


def taken(root: int, *, exactly: bool = False) -> Taken:
    """Look at the processes below ``root``, and at itself; nothing where there is no /proc.

    What several of them share, having been forked, counts in each, unless it is to be told ``exactly``,
    which takes the longer the more they hold.
    """
    count = memory = 0
    for pid, tasks in _tree(root):
        count += tasks
        with suppress(OSError, ValueError):
            memory += (_share(pid) if exactly else None) or _resident(pid)
    return Taken(count, memory)


class ProcessorTime:
    """The processor time of ``root`` and of all below it, of those that ended as well.

    The system tells of one that ended only where its parent waited for it.  Of the others counts what
    they had had when this last looked.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._seen: dict[tuple[int, str], int] = {}
        self._before = self._ticks()

    def used_s(self, *, at_its_end: float | None = None) -> float:
        """Return the seconds that were used since this was made, a little more rather than less.

        Where ``root`` has ended meanwhile, ``at_its_end`` says what it and all it waited for had used.
        """
        used = max(now - before for now, before in zip(self._ticks(), self._before, strict=True))
        if at_its_end is not None:
            used = max(used, int(at_its_end * _TICKS) - self._before[0])
        return (used + _ROUNDED) / _TICKS

    def _ticks(self) -> tuple[int, int]:
        """Return the clock ticks of all that are there and were waited for, and of all that were seen."""
        known = 0
        for pid, _ in _tree(self._root):
            with suppress(OSError, ValueError):
                # Behind the name, which may hold anything: proc(5), fields 14 to 17 and 22.
                told = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
                fields = told.rpartition(")")[2].split()
                own, of_children = (sum(map(int, fields[at : at + 2])) for at in (11, 13))
                self._seen[pid, fields[19]] = own
                known += own + of_children
        return known, sum(self._seen.values())


def _tree(root: int) -> Iterator[tuple[int, int]]:
    """Yield each process, and how many threads it has."""
    waiting, seen = [root], 0
    while waiting and seen < _MOST:
        pid = waiting.pop()
        seen += 1
        with suppress(OSError, ValueError):
            threads = list(Path(f"/proc/{pid}/task").iterdir())
            yield pid, len(threads)
            for thread in threads:
                waiting += map(int, (thread / "children").read_text(encoding="ascii").split())


def _resident(pid: int) -> int:
    """Return the bytes of a process that are of no file."""
    pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    return (int(pages[1]) - int(pages[2])) * _PAGE


def _share(pid: int) -> int | None:
    """Return the same, a part of what it shares with others; None where the system does not tell."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(one.split()[1]) << 10 for one in lines if one.startswith("Pss_Anon:")), None)
