"""Cache of what was made of files, valid while their signature stays the same.

A file's signature is a digest of its mode, size, times and inode, so that no file is read to compare it.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import stat
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from pathlib import Path

Made = TypeVar("Made")

TICK_NS = 20_000_000
"""Longer than the ticks in which file systems keep time, with any kernel that we run on."""

Facts = tuple[int, int, int, int, int]
"""Mode, size in bytes, times of modification and of change in nanoseconds, inode."""

MODE, CHANGED = 0, 3


class FileCache:
    """The latest value of each key, for many threads; the least recently used of over ``most`` go."""

    def __init__(self, *, most: int = 64) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._made: OrderedDict[Hashable, tuple[str, Any]] = OrderedDict()

    def get(self, key: Hashable, files: Sequence[Path | str], make: Callable[[], Made]) -> Made:
        """Return what ``make`` returns, or what it returned for this key with the same ``files``."""
        # Before it is made, so that a change meanwhile makes the signature an old one.
        now = signature(*files)
        with self._lock:
            cached = self._made.get(key)
            if cached is not None and cached[0] == now:
                self._made.move_to_end(key)
                found: Made = cached[1]
                return found
        made = make()
        if now is not None:
            with self._lock:
                self._made[key] = (now, made)
                self._made.move_to_end(key)
                if len(self._made) > self._most:
                    self._made.popitem(last=False)
        return made


def signature(*paths: Path | str) -> str | None:
    """Return the signature of these files, and of all files below these folders.

    It is None if one changed in this tick of the file system's clock: another change would not show.
    """
    started = time.time_ns()
    found: list[tuple[bytes, Facts | None]] = []
    waiting = [os.fsencode(path) for path in paths]
    while waiting:
        path = waiting.pop()
        facts = lstat(path)
        found.append((path, facts))
        if facts and stat.S_ISDIR(facts[MODE]):
            with contextlib.suppress(OSError), os.scandir(path) as entries:
                waiting += [entry.path for entry in entries]
    if any(facts and facts[CHANGED] > started - TICK_NS for _, facts in found):
        return None
    return digest(sorted(found))


def lstat(path: bytes) -> Facts | None:
    """Return the facts of a path; None where it does not exist or cannot be reached."""
    try:
        return facts_of(os.lstat(path))
    except OSError:
        return None


def facts_of(status: os.stat_result) -> Facts:
    """Return the facts of a status that change whenever the file does."""
    return status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def digest(facts: list[Any]) -> str:
    """Return the digest of a list of facts."""
    # The second version of this format has no references: equal facts have equal bytes.
    return hashlib.sha256(marshal.dumps(facts, 2)).hexdigest()
