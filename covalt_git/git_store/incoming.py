"""Quarantine of a received pack: a folder of objects that the store does not read yet.

The declared size of every entry is checked before the entry is inflated, and the size of every
delta's result before the delta is applied, so that a small pack cannot take much memory.  The base of a
delta may be an object of the store (thin packs).  Format: ``gitformat-pack(5)``.
"""

from __future__ import annotations

import contextlib
import zlib
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple, Self

from dulwich.pack import write_pack_index

from covalt_git.errors import CovaltError
from covalt_git.git_store.object_reader import DAMAGE, ObjectReader
from covalt_git.git_store.objects import KINDS, BrokenStoreError, object_id
from covalt_git.git_store.packs import (
    MOST_DEPTH,
    PackFile,
    inflate,
    mapped,
    result_size,
    write_pack,
)
from covalt_git.system import locked_folder

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

PREFIX = "incoming-"
"""Start of the names of the folders."""

_HEADER = 12
_CACHE_BYTES = 64 << 20


class BadPackError(CovaltError):
    """A pack that is malformed, cut off, or larger than its limits."""

    code = "bad_pack"


class PackLimits(NamedTuple):
    """Limits of a received pack, in bytes.

    Attributes:
        pack: size of the pack itself.
        objects: number of objects.
        blob: size of the content of one file.
        other: size of one commit or tree.
        together: size of all objects and deltas, inflated.
    """

    pack: int
    objects: int
    blob: int
    other: int
    together: int


class Quarantine(ObjectReader):
    """Reader of a received pack with objects ``ids``, and of the store; open it by :meth:`opened`."""

    def __init__(self, folder: Path, store: ObjectReader, limits: PackLimits) -> None:
        super().__init__(folder, store.object_format)
        self.path = store.path
        # So the pack and the store are read as one, the pack first.
        self.alternates = [store]
        self.ids: frozenset[str] = frozenset()
        self._store = store
        self._limits = limits

    @classmethod
    @contextlib.contextmanager
    def opened(cls, store: ObjectReader, folder: Path, limits: PackLimits) -> Iterator[Self]:
        """Yield a quarantine for ``store`` in a locked folder in ``folder``."""
        # Locked, because each writer of the chat removes the unlocked quarantines, those of killed processes
        # (test_only_quarantines_of_killed_processes_are_cleared).
        with (
            locked_folder.create(folder, PREFIX) as place,
            contextlib.closing(cls(place, store, limits)) as quarantine,
        ):
            quarantine.pack_folder.mkdir()
            yield quarantine

    def receive(self, parts: Iterable[bytes]) -> None:
        """Store and index a pack, received in parts; all parts are read, even if the pack is refused.

        Raises:
            BadPackError: when it is malformed or too large; then no object of it can be read.
            OSError: when it cannot be stored.
        """
        path = self.pack_folder / "pack-received.pack"
        size = 0
        # Not fsynced: only `adopt` makes objects durable, and the quarantine of a killed process is removed.
        with path.open("wb") as file:
            for part in parts:  # read all: git reads the answer only after it has sent everything
                size += len(part)
                # A client can send a pack without an end; what is beyond the limit must not fill the disk.
                if size <= self._limits.pack:
                    file.write(part)
        if size > self._limits.pack:
            raise BadPackError(f"the pack is larger than {_in_mib(self._limits.pack)}")
        # An empty file cannot be mapped, and a shorter one has no room for the checksum that is read next.
        if size < _HEADER + self.format.oid_length:
            raise BadPackError("the pack is cut off")
        offsets = _ReceivedPack(path, self._store, self._limits).make_index()
        # These may also be objects that the store has; only the others are adopted.
        self.ids = frozenset(map(bytes.hex, offsets))

    def adopt(self, ids: Iterable[str], *, durable: bool) -> None:
        """Store objects of the quarantine in one pack of the store, durably if ``durable``.

        The caller holds the chat's lock.
        """
        # A new pack, not the received one: that one also has the objects of refused branches, which were not
        # inspected.
        if adopted := sorted(ids):
            entries, folder = self.entries(adopted), self._store.pack_folder
            write_pack(folder, self.format, entries, len(adopted), durable=durable)
            self._store.refresh()


class _ReceivedPack(PackFile):
    """A received pack without an index."""

    def __init__(self, path: Path, store: ObjectReader, limits: PackLimits) -> None:
        largest = max(limits.blob, limits.other)
        # Each delta of a chain starts from the result of the one before it.  If the largest admitted object did
        # not fit, each delta would apply all the others again, in the square of the chain's length.  The cache
        # stores only objects of at most four fifths of its size.
        super().__init__(path, store.format, largest * 5 // 4 + _CACHE_BYTES)
        self._pack = mapped(path)
        # PackFile finds the bases of deltas in this dict, which grows while the pack is read.
        self._listed = self._offsets = dict[bytes, int]()
        self._crcs: dict[int, int] = {}  # by offset
        self._store = store
        self._limits = limits
        self._total = 0
        self._waiting: dict[int | bytes, list[int]] = defaultdict(list)  # deltas by their base
        # Offset and id of objects whose deltas are not applied yet, and how many deltas of this pack lead to each: 0 of
        # an object that is no delta, and of a base in the store.  The store's own chain to that base does not count,
        # because PackFile.read follows a chain within its pack only.
        self._ready: list[tuple[int | bytes, bytes, int]] = []

    def make_index(self) -> Collection[bytes]:
        """Write the index of the pack; return the raw ids of its objects.

        Raises:
            BadPackError: when it is malformed or too large.
        """
        end = len(self._pack) - self.format.oid_length
        # The checksum first: a connection that broke is reported as that, and not as a malformed object.
        hasher = self.format.new_hash()
        with memoryview(self._pack) as content:
            hasher.update(content[:end])
        if hasher.digest() != self._pack[end:]:
            raise BadPackError("the pack is cut off, or was damaged in transit")
        try:
            self._read_entries(end)
            self._apply_deltas()
        except (BrokenStoreError, *DAMAGE) as error:
            raise BadPackError(f"the pack has a malformed object: {error}") from None
        rows = sorted((oid, at, self._crcs[at]) for oid, at in self._offsets.items())
        with self.path.with_suffix(".idx").open("wb") as file:
            write_pack_index(file, rows, hasher.digest())
        return self._offsets

    def _read_entries(self, end: int) -> None:
        """Add every object that is not a delta, and list the deltas."""
        # Git also reads version 3, but has never written it.
        if self._pack[:8] != b"PACK\0\0\0\2":
            raise BadPackError("the pack is not of version 2")
        # An entry of ten bytes takes some hundred bytes of memory here, and so does each later step.
        count = int.from_bytes(self._pack[8:_HEADER])
        if count > self._limits.objects:
            raise BadPackError(
                f"the pack has {count:,} objects; the limit is {self._limits.objects:,}"
            )
        at = _HEADER
        for _ in range(count):
            header = self._header(at)
            kind = KINDS[header.kind] if header.base is None else b"delta"
            # Before it is inflated: 400 KiB can inflate to 400 MiB
            # (test_small_packs_are_refused_before_they_take_much_memory).
            self._check_size(kind, header.size)
            content, after = inflate(self._pack, at + header.length, header.size)
            self._crcs[at] = zlib.crc32(self._pack[at:after])
            if header.base is None:
                self._add(at, kind, content, 0)
            else:
                self._count(header.size)
                # Before it is applied: a delta of a few bytes can copy its base a thousand times.
                self._check_size(kind, result_size(content))
                base = at - header.base if isinstance(header.base, int) else header.base
                self._waiting[base].append(at)
            at = after
        if at != end:
            raise BadPackError("the pack has more objects than its header declares")

    def _apply_deltas(self) -> None:
        """Add the results of all deltas, each after its base."""
        # A base may come after its delta, so only what is still missing then is looked for in the store (thin packs).
        self._follow()
        outside = [base for base in self._waiting if isinstance(base, bytes)]
        self._ready += [(base, base, 0) for base in outside if self._store.has(base.hex())]
        self._follow()
        # Also deltas that are based on each other, and bases at offsets where no entry begins.
        if self._waiting:
            raise BadPackError("the base of a delta is missing")

    def _follow(self) -> None:
        """Add the results of all deltas that are based on ready objects, and then of the deltas based on these."""
        # Depth first: the result of a delta is the base of the next one while it is still in the cache.  Breadth first,
        # many chains would push each other out of it, and each delta would apply all of its chain again.  The deltas of
        # one base are applied together, because their base is in the cache then.
        while self._ready:
            place, oid, depth = self._ready.pop()
            deltas = self._waiting.pop(place, []) + self._waiting.pop(oid, [])
            # PackFile refuses to read longer chains, so the object would be stored and could not be read.
            if deltas and depth >= MOST_DEPTH:
                raise BadPackError(f"the pack has chains of more than {MOST_DEPTH:,} deltas")
            for at in deltas:
                self._add(at, *self.read(at, self._store.read_object), depth + 1)

    def _add(self, at: int, kind: bytes, content: bytes, depth: int) -> None:
        self._check_size(kind, len(content))  # the kind of a delta's result is known only here
        self._count(len(content))
        oid = bytes.fromhex(object_id(kind, content, self.format.name))
        # An index has one offset for each id, and ends an entry where the next one of the index begins.  So the second
        # entry would count as a part of the one before it, and look like damage when that is copied.
        if self._offsets.setdefault(oid, at) != at:
            raise BadPackError(f"the pack has the object {oid.hex()} twice")
        self._ready.append((at, oid, depth))

    def _check_size(self, kind: bytes, size: int) -> None:
        """Check the size of an object of a kind, or of a delta and its result, for which the kind is unknown."""
        blob, other = self._limits.blob, self._limits.other
        most = {b"blob": blob, b"delta": max(blob, other)}.get(kind, other)
        if size > most:
            name = kind.decode().replace("blob", "file")
            raise BadPackError(f"the pack contains a {name} of more than {_in_mib(most)}")

    def _count(self, size: int) -> None:
        # Entries of the permitted size, each quick to send, could take processor time and memory without an end.
        self._total += size
        if self._total > self._limits.together:
            most = _in_mib(self._limits.together)
            raise BadPackError(f"the pack contains more than {most} of objects")


def _in_mib(size: int) -> str:
    return f"{size >> 20} MiB"
