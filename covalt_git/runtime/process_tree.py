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
    count = memory = 0
    for pid in _tree(root):
        with suppress(OSError, ValueError):
            memory += (_share(pid) if exactly else None) or _resident(pid)
            count += 1
    return Taken(count, memory)


def processor_s(root: int) -> float:
    """Return the seconds of processor time that ``root`` and all below it had, and those that ended.

    Of one that ended the system does not tell where nobody waited for it, or its parent ignores that.
    """
    ticks = 0
    for pid in _tree(root):
        with suppress(OSError, ValueError):
            # Behind the name, which may hold anything: proc(5), fields 14 to 17.
            told = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
            ticks += sum(map(int, told.rpartition(")")[2].split()[11:15]))
    return ticks / _TICKS


def _tree(root: int) -> Iterator[int]:
    waiting, seen = [root], 0
    while waiting and seen < _MOST:
        pid = waiting.pop()
        seen += 1
        yield pid
        with suppress(OSError, ValueError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                waiting += map(int, (task / "children").read_text(encoding="ascii").split())


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
