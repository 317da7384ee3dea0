r"""The write-ahead log of a store: what is small is durable there first, by one flush of one file.

A save makes a pack, its index and a ref.  To have each of them on the disk, and then their names,
takes five flushes, and every flush waits for the disk.  So a record of all of them is appended to
``wal`` and flushed, as databases do it, and then they are stored where git looks for them, without a
flush.  A process that is killed takes nothing of that along, since the kernel has it; only where the
power went, or the kernel ended, files may lack what was not flushed.  So whoever finds records of
another boot stores again what they hold.  What is older than a minute is flushed where it lies before
the next record, and all of it by each process that writes for the first time.

The log is one record after another::

    <sha1 of what follows the boot> <boot> {"at": <nanoseconds since 1970>, "ref": [name, old, new],
    "files": [[path, size], ...]}\n
    <the bytes of the files>

One that is not whole was never acknowledged, and ends the log.  Behind the last one are zeros, which
the next are written over: so the disk is given bytes, and no news of how large the file is.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.git_objects.ref_files import write_new
from covalt_git.system.atomic_write import fsync, fsync_data, fsync_many

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOST = 64 << 10
"""Bytes of what is recorded; more is flushed where it lies, since it would be written twice."""

_LONGEST = 2 << 20
_OLDEST_NS = 60 * 1_000_000_000
_STEP = 64 << 10
_BOOT = "/proc/sys/kernel/random/boot_id"
_START = re.compile(rb"([0-9a-f]{40}) ([0-9a-f-]+) (?=\{\"at\":([0-9]+),)")
_LONGEST_START = 128
_DECIDED = "-"
_FILE = re.compile(
    r"objects/(?:[0-9a-f]{2}/[0-9a-f]{38,62}|pack/pack-[0-9a-f]{40,64}\.(?:idx|pack))"
)

_as_json = json.JSONEncoder(separators=(",", ":")).encode


class _End(NamedTuple):
    """How a log begins, and where its last whole record ends."""

    start: bytes
    end: int


_ends: dict[tuple[int, int], _End] = {}
"""The ends of the logs that this process appended to, by device and inode."""
_MOST_ENDS = 1 << 10


@dataclass(frozen=True, slots=True)
class Record:
    """What one move of a ref made: from ``old`` to ``new`` (None: no ref), and the files it needs.

    ``at`` is when it was recorded, in nanoseconds since 1970: after the new file of the ref was
    written, and before that took its place.
    """

    ref: str
    old: str | None
    new: str | None
    files: dict[str, bytes]
    at: int = 0


@functools.cache
def this_boot() -> str | None:
    """Return what tells this boot of the machine from all others; None where nothing does."""
    try:
        with open(_BOOT, encoding="ascii") as file:  # noqa: PTH123 - a path of the kernel's
            return file.read().strip()
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class WriteAheadLog:
    """The log of the store at a path."""

    store: str

    @property
    def _path(self) -> str:
        return f"{self.store}/wal"

    def is_empty(self) -> bool:
        """Tell whether all that was recorded is durable where it lies."""
        try:
            return os.stat(self._path).st_size == 0  # noqa: PTH116 - asked at every move of a ref
        except FileNotFoundError:
            return True

    def is_of_before(self) -> bool:
        """Tell whether the log was written before the machine was started."""
        return self._boot() not in {"", this_boot()}

    def is_decided(self) -> bool:
        """Tell whether somebody has begun to store again what is in the log: see :meth:`decide`."""
        return self._boot() == _DECIDED

    def _boot(self) -> str:
        """Return the boot of the first record; nothing where there is no log to be read."""
        try:
            with open(self._path, "rb", buffering=0) as file:  # noqa: PTH123 - asked at every opening
                start = file.read(_LONGEST_START)
        except OSError:  # there is none, or nobody here may read it, nor write to the store
            return ""
        found = _START.match(start)
        return found[2].decode() if found else "?" if start else ""

    def decide(self, records: Iterable[Record]) -> None:
        """Let the log have these records only, all of which are to be stored again.

        Who does that changes what tells whether they have to be; if he is killed, it stands here.
        """
        temporary = f"{self._path}.new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)  # noqa: PTH108
        write_new(temporary, b"".join(_spelled(one, _DECIDED, one.at) for one in records))
        fsync(temporary)
        os.rename(temporary, self._path)  # noqa: PTH104
        fsync(self.store)

    def append(self, record: Record) -> None:
        """Have a record on the disk; where that cannot be, none of it stays in the log.

        Raises:
            OSError: when it cannot be written.
        """
        at = time.time_ns()
        written = _spelled(record, str(this_boot()), at)
        with self._held() as handle:
            found = os.fstat(handle)
            start, end = _end_of(handle, found)
            size = found.st_size
            if end > _LONGEST or (end and abs(at - _began_at(start)) > _OLDEST_NS):
                self._settle(handle)
                start, end, size = b"", 0, 0
            new_end = end + len(written)
            padding = bytes(-new_end % _STEP) if new_end > size else b""
            try:
                _write_at(handle, written + padding, end)
                fsync_data(handle)
                if end == 0:  # it may have no durable name yet
                    fsync(self.store)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.ftruncate(handle, end)
                raise
            if len(_ends) >= _MOST_ENDS:
                _ends.clear()
            _ends[found.st_dev, found.st_ino] = _End(start or written[:_LONGEST_START], new_end)

    def settle(self) -> None:
        """Have what was recorded durable where it lies, and forget it."""
        if not self.is_empty():
            with self._held() as handle:
                self._settle(handle)

    def records(self) -> list[Record]:
        """Return what was recorded, in its order."""
        if self.is_empty():
            return []
        with self._held() as handle:
            return list(_records(_content_of(handle)))

    def put_back(self, records: Iterable[Record]) -> None:
        """Have the files of records durable where git looks for them, and their names."""
        put: list[str] = []
        for record in records:
            for path, content in record.files.items():
                if _FILE.fullmatch(path):
                    _put_back(f"{self.store}/{path}", content)
                    put.append(path)
        self._flush(put)

    @contextlib.contextmanager
    def _held(self) -> Iterator[int]:
        """Hold the log, for as long as a flush takes."""
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield handle
        finally:
            os.close(handle)

    def _settle(self, handle: int) -> None:
        records = _records(_content_of(handle))
        self._flush(path for record in records for path in (*record.files, record.ref))
        os.ftruncate(handle, 0)
        fsync_data(handle)

    def _flush(self, paths: Iterable[str]) -> None:
        """Have files of the store durable, as far as they are there, and their names."""
        found: dict[str, None] = {}
        for path in paths:
            while path:
                found[f"{self.store}/{path}"] = None
                path = path.rpartition("/")[0]  # noqa: PLW2901 - the folders above hold the names
        fsync_many([path for path in found if os.path.exists(path)])  # noqa: PTH110
        fsync(self.store)


def _spelled(record: Record, boot: str, at: int) -> bytes:
    files = [[path, len(content)] for path, content in record.files.items()]
    told = {"at": at, "ref": [record.ref, record.old, record.new], "files": files}
    line = _as_json(told).encode()
    body = b"".join([line, b"\n", *record.files.values()])
    return f"{_digest(body)} {boot} ".encode() + body


def _digest(body: bytes) -> str:
    return hashlib.sha1(body, usedforsecurity=False).hexdigest()


def _records(content: bytes) -> Iterator[Record]:
    """Yield the whole records that a log begins with."""
    end = 0
    while found := _record_at(content, end):
        record, end = found
        yield record


def _record_at(content: bytes, place: int) -> tuple[Record, int] | None:
    """Return the record that begins somewhere, and where it ends; None where there is no whole one."""
    start = _START.match(content, place)
    line_end = content.find(b"\n", place)
    if start is None or line_end < 0:
        return None
    try:
        told = json.loads(content[start.end() : line_end])
        ref, old, new = told["ref"]
        sizes = [(str(path), int(size)) for path, size in told["files"]]
        at = int(told["at"])
    except (ValueError, KeyError, TypeError):
        return None
    files, end = {}, line_end + 1
    for path, size in sizes:
        files[path] = content[end : end + size]
        end += size
    if _digest(content[start.end() : end]).encode() != start[1]:
        return None
    return Record(ref, old, new, files, at), end


def _end_of(handle: int, found: os.stat_result) -> _End:
    """Return where the last whole record ends, and cut off what somebody left behind it."""
    if not found.st_size:
        return _End(b"", 0)
    start = os.pread(handle, _LONGEST_START, 0)
    known = _ends.get((found.st_dev, found.st_ino))
    # As it begins no other log does, and nothing but zeros is behind the end until somebody appends.
    if known is not None and start.startswith(known.start) and not _is_more_at(handle, known.end):
        return known
    content, end = _content_of(handle), 0
    while one := _record_at(content, end):
        end = one[1]
    if _is_more_at(handle, end):
        os.ftruncate(handle, end)
    return _End(start, end)


def _began_at(start: bytes) -> int:
    """Return when the first record of a log was made."""
    found = _START.match(start)
    return int(found[3]) if found else 0


def _is_more_at(handle: int, place: int) -> bool:
    return os.pread(handle, 1, place) not in {b"", b"\0"}


def _content_of(handle: int) -> bytes:
    return os.pread(handle, os.fstat(handle).st_size, 0)


def _write_at(handle: int, content: bytes, place: int) -> None:
    rest = memoryview(content)
    while rest:
        count = os.pwrite(handle, rest, place)
        rest, place = rest[count:], place + count


def _put_back(path: str, content: bytes) -> None:
    """Have a file durable at its path, with this content, whatever is there; its name is not yet."""
    with contextlib.suppress(OSError), open(path, "rb") as file:  # noqa: PTH123 - it may be damaged
        if file.read() == content:
            os.fsync(file.fileno())
            return
    os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
    temporary = f"{path}.tmp"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary)  # noqa: PTH108 - of whoever was killed over the same
    with open(temporary, "xb") as file:  # noqa: PTH123
        file.write(content)
        file.flush()
        os.fchmod(file.fileno(), 0o444)
        os.fsync(file.fileno())
    os.rename(temporary, path)  # noqa: PTH104
