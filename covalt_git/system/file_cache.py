"""Cache of values that depend on files, valid while the signature of the files is unchanged.

The signature is a digest of mode, size, times and inode, so that files need not be read.
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
    from collections.abc import Callable, Hashable, Iterator, Sequence
    from pathlib import Path

Value = TypeVar("Value")

TICK_NS = 20_000_000
"""An upper bound of the resolution of file timestamps, on all supported kernels."""

Facts = tuple[int, int, int, int, int]
"""Mode, size in bytes, times of modification and of change in nanoseconds, inode."""

MODE, CHANGED = 0, 3


class FileCache:
    """Thread-safe LRU cache of at most ``most`` values."""

    def __init__(self, *, most: int = 64) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, tuple[str, Any]] = OrderedDict()

    def get(self, key: Hashable, files: Sequence[Path | str], make: Callable[[], Value]) -> Value:
        """Return the cached value of ``key`` if ``files`` are unchanged, else that of ``make()``."""
        # Before make(), so that a change of the files during it invalidates the value.
        current = signature(*files)
        with self._lock:
            cached = self._entries.get(key)
            if cached is not None and cached[0] == current:
                self._entries.move_to_end(key)
                unchanged: Value = cached[1]
                return unchanged
        value = make()  # without the lock: it takes long, and may use the cache itself
        if current is not None:
            with self._lock:
                self._entries[key] = (current, value)
                self._entries.move_to_end(key)
                if len(self._entries) > self._most:
                    self._entries.popitem(last=False)
        return value


def signature(*paths: Path | str) -> str | None:
    """Return the signature of these files and of all files below these folders; each may be a link, but not those below.

    Return None if a file was changed within the last ``TICK_NS``, because another change might not change
    its timestamp.
    """
    started = time.time_ns()
    tops = [os.fsencode(path) for path in paths]
    tops += [os.path.realpath(top) for top in tops if os.path.islink(top)]  # noqa: PTH114 - of each call
    entries = [entry for top in tops for entry in walk(top)]
    if any(facts and facts[CHANGED] > started - TICK_NS for _, facts in entries):
        return None
    return digest(sorted(entries))  # the order of a folder's listing is no change


def walk(
    top: bytes, ignored: frozenset[bytes] = frozenset()
) -> Iterator[tuple[bytes, Facts | None]]:
    """Yield a path and all paths below it, except those with an ignored name, with their stat facts.

    Those of a folder are read before its listing, and links are not followed.
    """
    waiting = [top]
    while waiting:
        path = waiting.pop()
        facts = lstat(path)
        yield path, facts
        if facts and stat.S_ISDIR(facts[MODE]):
            with contextlib.suppress(OSError), os.scandir(path) as entries:
                waiting += [entry.path for entry in entries if entry.name not in ignored]


def lstat(path: bytes) -> Facts | None:
    """Return the stat facts of a path, or None if it does not exist or cannot be accessed."""
    try:
        return facts_of(os.lstat(path))
    except OSError:
        return None


def facts_of(status: os.stat_result) -> Facts:
    """Return the parts of a stat result that change whenever the file changes."""
    return status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def digest(facts: list[Any]) -> str:
    # Version 2 of marshal has no object references, so that equal facts have equal bytes.
    return hashlib.sha256(marshal.dumps(facts, 2)).hexdigest()
