"""How much a process and everything below it takes, where the system tells (Linux's /proc)."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_MOST = 10_000


@dataclass(frozen=True, slots=True)
class Taken:
    """What a tree of processes takes: how many they are, and their own memory in bytes."""

    processes: int = 0
    memory: int = 0


def taken(root: int, *, exactly: bool = False) -> Taken:
    """Look at the processes below ``root``, and at itself; nothing where there is no /proc.

    What several of them share, having been forked, counts in each, unless it is to be told ``exactly``,
    which takes the longer the more they hold.
    """
    waiting, count, memory = [root], 0, 0
    while waiting and count < _MOST:
        pid = waiting.pop()
        with suppress(OSError, ValueError):
            memory += (_share(pid) if exactly else None) or _resident(pid)
            count += 1
            for task in Path(f"/proc/{pid}/task").iterdir():
                waiting += map(int, (task / "children").read_text(encoding="ascii").split())
    return Taken(count, memory)


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
