"""Modes of files and folders that restrict access more than a restore would, such as 0600.

Git stores only whether a file is executable.  So a restore of such a file gives other users access to it.  A commit that
stores the file has a note about this, and so has a command that writes it.
"""

from __future__ import annotations

import functools
import re
from typing import Final

from covalt_git.workspaces.folders import default_mode

_FILE: Final = 0o644
_OPEN: Final = 0o755  # of programs and folders; their owner may execute them
_REASON: Final = re.compile(r"its mode ([0-7]{4}) is not stored: .*")
_UMASK: Final = re.compile(r"^Umask:\s*([0-7]+)$", re.MULTILINE)


@functools.cache
def is_narrow(mode: int) -> bool:
    """Return whether a mode lacks rights that a restore gives with some umask; links have all rights."""
    return bool((_OPEN if mode & 0o100 else _FILE) & ~mode)


def why_not_restored(mode: int, umask: int, *, folder: bool) -> str:
    """Return a note's reason about a narrow mode; empty if a restore with this umask gives no further right."""
    usual = _OPEN if folder or mode & 0o100 else _FILE
    if not usual & ~umask & ~mode:
        return ""
    restored = default_mode(umask, folder=folder, program=bool(mode & 0o100))
    return f"its mode {mode & 0o777:04o} is not stored: a restore makes it {restored:04o}"


def noted_mode(reason: str) -> int | None:
    """Return the mode in the reason of a note about a narrow mode; None for other notes."""
    note = _REASON.fullmatch(reason)
    return None if note is None else int(note[1], 8)


def what_was_restored(now: int, noted: int) -> str:
    """Return what happened to a file or folder with a narrow mode that now has another one; empty without harm."""
    if not now & _OPEN & ~noted:
        return ""
    return f"is restored with mode {now & 0o777:04o}; it had {noted:04o}"


def current_umask() -> int:
    """Return this process's umask.

    ``os.umask`` can only read it by changing it, and files that another thread creates meanwhile would get that one.
    """
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:  # noqa: PTH123
            line = _UMASK.search(status.read())
    except OSError:  # not Linux
        line = None
    return 0o022 if line is None else int(line[1], 8)
