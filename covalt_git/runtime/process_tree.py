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
    """What a tree of processes takes: how many they are, and their own memory in bytes.

    Memory that a process shares with the file or the fork it came from counts in each.
    """

    processes: int = 0
    memory: int = 0


def taken(root: int) -> Taken:
    """Look at the processes below ``root``, and at itself; nothing where there is no /proc."""
    waiting, count, memory = [root], 0, 0
    while waiting and count < _MOST:
        pid = waiting.pop()
        with suppress(OSError, ValueError):
            pages = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
            memory += (int(pages[1]) - int(pages[2])) * _PAGE
            count += 1
            for task in Path(f"/proc/{pid}/task").iterdir():
                waiting += map(int, (task / "children").read_text(encoding="ascii").split())
    return Taken(count, memory)
