"""Cache of values that depend on files, valid while the signature of the files is unchanged.

The signature is a digest of mode, size, times and inode, so that files need not be read.
"""

from __future__ import annotations

import contextlib
import hashlib
import marshal
import os
import secrets
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
        return self.get_by(key, signature(*files), make)

    def get_by(self, key: Hashable, current: str | None, make: Callable[[], Value]) -> Value:
        """Return the cached value of ``key`` if it is of the signature ``current``, else that of ``make()``."""
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


class PacedSignatures:
    """Signatures of folders that are asked for all the time, thread-safe.

    One is computed again only after ``REST`` times as long as that took, so that large folders cost at most a tenth of
    a processor, and at the latest after ``OLDEST_S``.
    """

    REST = 10
    OLDEST_S = 1.0

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._due: dict[tuple[Path | str, ...], tuple[float, str]] = {}

    def get(self, *paths: Path | str) -> str:
        """Return the :func:`signature` of these paths; it is at most ``OLDEST_S`` seconds old.

        After a change within the last ``TICK_NS``, it is one that no other call of :func:`signature` returns.
        """
        # Also while it is computed: many streams would otherwise compute the same one.
        with self._lock:
            began = self._clock()
            due, current = self._due.get(paths, (began, ""))
            if began >= due:
                current = signature(*paths) or secrets.token_hex()
                rest_s = min(self.REST * (self._clock() - began), self.OLDEST_S)
                open_entries = {key: entry for key, entry in self._due.items() if entry[0] > began}
                # From the beginning, as a file that is read first may change while the last one is read.
                self._due = {**open_entries, paths: (began + rest_s, current)}
            return current


def signature(*paths: Path | str) -> str | None:
    """Return the signature of these files and of all files below these folders; each may be a link, but not those below.

    Return None if a file was changed within the last ``TICK_NS``, because another change might not change
    its timestamp.
    """
    started = time.time_ns()
    return _signature([entry for top in _with_targets(paths) for entry in walk(top)], started)


def shallow_signature(*paths: Path | str) -> str | None:
    """Return the same as :func:`signature` of the paths alone: of a folder, files that were added, replaced or deleted."""
    started = time.time_ns()
    return _signature([(path, lstat(path)) for path in _with_targets(paths)], started)


def _with_targets(paths: Sequence[Path | str]) -> list[bytes]:
    tops = [os.fsencode(path) for path in paths]
    return tops + [os.path.realpath(top) for top in tops if os.path.islink(top)]  # noqa: PTH114 - of each call


def _signature(entries: list[tuple[bytes, Facts | None]], started: int) -> str | None:
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
