"""Reading packs: many objects in one file, and the index beside it that finds them.

Format: ``gitformat-pack(5)``, version 2 of both files.  A pack never changes once it has its name,
and one that is open stays readable after another process has removed it.
"""

from __future__ import annotations

import functools
import hashlib
import mmap
import os
import struct
from typing import TYPE_CHECKING, NamedTuple

from dulwich.errors import ApplyDeltaError
from dulwich.pack import apply_delta

from covalt_git.git_store.compression import inflate, inflate_start
from covalt_git.git_store.objects import KINDS, DamagedObjectError

if TYPE_CHECKING:
    from collections.abc import Iterator

INDEX_START = b"\xfftOc\0\0\0\2"
PACK_START = b"PACK\0\0\0\2"
PACK_HEADER = 12
OFFSET_DELTA = 6
ID_DELTA = 7

_FANOUT = 8
_NAMES = _FANOUT + 256 * 4
LARGE_OFFSET = 1 << 31
_HASHES = {20: "sha1", 32: "sha256"}
_LONGEST_CHAIN = 5_000  # git itself makes none beyond 4,095
LONGEST_HEADER = 64
_LONGEST_SIZE = 10
_KEPT_BYTES = 16 << 20
_SMALL_FILE = 1 << 16  # to map one takes twice as long as to read it, and there are many


class PackedEntry(NamedTuple):
    """One entry of a pack: where it begins, what it is, and where its compressed bytes begin.

    ``kind`` is git's number, ``size`` that of the inflated bytes; ``base`` is the place of what a
    delta starts from in this pack, or its id, which git allows anywhere.
    """

    offset: int
    kind: int
    size: int
    start: int
    base: int | bytes | None = None


class Pack:
    """One pack that is open for reading, by any number of threads."""

    def __init__(
        self, folder: str, name: str, id_length: int, *, content: tuple[bytes, bytes] | None = None
    ) -> None:
        """Open the pack of that name, which ends in ``.pack``, in a folder.

        ``content`` is that of its index and its own, where these are at hand.

        Raises:
            OSError: when it is gone.
            DamagedObjectError: when it is no pack or its index none of version 2.
        """
        self.folder = folder
        self.name = name
        self.id_length = id_length
        self._bases: dict[int, tuple[bytes, bytes]] = {}
        self._bases_bytes = 0
        self._index, self._pack = content or (
            _content(self.file(".idx")),
            _content(self.file(".pack")),
        )
        if self._index[:_FANOUT] != INDEX_START or self._pack[: len(PACK_START)] != PACK_START:
            raise DamagedObjectError(f"{name} or its index is of no version we know")
        if len(self._index) < _NAMES:
            raise DamagedObjectError(f"the index of {name} is cut off")
        # For each first byte of an id, how many ids begin with a lower one.
        self._below = (0, *struct.unpack_from(">256I", self._index, _FANOUT))
        self.count: int = self._below[256]
        self._places = _NAMES + self.count * (id_length + 4)
        if len(self._index) < self._places + 4 * self.count + 2 * id_length:
            raise DamagedObjectError(f"the index of {name} is cut off")

    def file(self, suffix: str) -> str:
        """Return the path of one of the files that a pack may have: its own, its index, and others."""
        return f"{self.folder}/{self.name.removesuffix('.pack')}{suffix}"

    @property
    def size(self) -> int:
        """The size of the pack's file in bytes."""
        return len(self._pack)

    def find(self, oid: bytes) -> int | None:
        """Return where the object of that id (raw bytes) begins, or None where it is not here."""
        first, last = self._below[oid[0]], self._below[oid[0] + 1]
        if first == last:
            return None
        length = self.id_length
        begin, end = _NAMES + first * length, _NAMES + last * length
        at = self._index.find(oid, begin, end)
        while at >= 0 and (at - begin) % length:  # the end of one id and the start of the next
            at = self._index.find(oid, at + 1, end)
        return None if at < 0 else self._offset((at - _NAMES) // length)

    @functools.cached_property
    def names(self) -> list[bytes]:
        """The ids of all its objects, sorted raw bytes."""
        length = self.id_length
        ids = self._index[_NAMES : _NAMES + self.count * length]
        return [ids[at : at + length] for at in range(0, len(ids), length)]

    def ids(self) -> Iterator[tuple[bytes, int, int]]:
        """Yield the id (raw bytes) of every object, where it begins, and its entry's CRC-32."""
        checks = _NAMES + self.count * self.id_length
        every = struct.Struct(f">{self.count}I")
        found = zip(
            self.names,
            every.unpack_from(self._index, self._places),
            every.unpack_from(self._index, checks),
            strict=True,
        )
        for number, (oid, offset, check) in enumerate(found):
            yield oid, offset if offset < LARGE_OFFSET else self._offset(number), check

    def read(self, offset: int) -> tuple[bytes, bytes]:
        """Return the kind and content of the object that begins at ``offset``.

        Raises:
            DamagedObjectError: when it cannot be read.
        """
        deltas: list[tuple[int, bytes]] = []
        while (found := self._bases.get(offset)) is None:
            entry = self.entry(offset)
            if entry.base is None:
                found = KINDS[entry.kind], self._inflated(entry)
                break
            deltas.append((offset, self._inflated(entry)))
            if len(deltas) > _LONGEST_CHAIN:
                raise DamagedObjectError("its deltas never end")
            offset = self._place(entry.base)
        if deltas:
            self._keep(offset, *found)
        kind, content = found
        for place, delta in reversed(deltas):
            content = applied(content, delta)
            self._keep(place, kind, content)
        return kind, content

    def _place(self, base: int | bytes) -> int:
        if isinstance(base, int):
            return base
        found = self.find(base)
        if found is None:
            raise DamagedObjectError(f"its delta is of {base.hex()}, which is not here")
        return found

    def _keep(self, offset: int, kind: bytes, content: bytes) -> None:
        """Keep what a delta starts from, or may: many have the same beginning."""
        if len(content) > _KEPT_BYTES >> 4:
            return
        if self._bases_bytes > _KEPT_BYTES:
            self._bases, self._bases_bytes = {}, 0
        self._bases[offset] = (kind, content)
        self._bases_bytes += len(content)

    def entry(self, offset: int) -> PackedEntry:
        """Return the entry that begins at ``offset``.

        Raises:
            DamagedObjectError: when none can begin there.
        """
        if not PACK_HEADER <= offset < len(self._pack) - self.id_length:
            raise DamagedObjectError(f"{self.name} has nothing at {offset}")
        start = self._pack[offset : offset + LONGEST_HEADER]
        try:
            kind, size, at = kind_and_size(start)
            if kind == OFFSET_DELTA:
                back, at = distance_back(start, at)
                return PackedEntry(offset, kind, size, offset + at, offset - back)
        except IndexError:
            raise DamagedObjectError(f"{self.name} is cut off") from None
        if kind == ID_DELTA:
            base = start[at : at + self.id_length]
            return PackedEntry(offset, kind, size, offset + at + self.id_length, base)
        if not 0 < kind < len(KINDS):
            raise DamagedObjectError(f"{self.name} has no object at {offset}")
        return PackedEntry(offset, kind, size, offset + at)

    def size_of(self, offset: int) -> int:
        """Return how many bytes the object that begins at ``offset`` has.

        Raises:
            DamagedObjectError: when it cannot be told.
        """
        entry = self.entry(offset)
        if entry.base is None:
            return entry.size
        # A delta begins with the size of what it starts from, then that of what it makes.
        near = self._pack[entry.start : entry.start + LONGEST_HEADER]
        start = inflate_start(near, 2 * _LONGEST_SIZE)
        try:
            return delta_sizes(start)[1]
        except IndexError:
            raise DamagedObjectError(f"{self.name} is cut off") from None

    def depth(self, offset: int) -> int:
        """Return how many deltas the object at ``offset`` is away from a whole one.

        Raises:
            DamagedObjectError: when it cannot be told.
        """
        depth = 0
        base = self.entry(offset).base
        while base is not None and depth < _LONGEST_CHAIN:
            depth += 1
            place = self.find(base) if isinstance(base, bytes) else base
            base = None if place is None else self.entry(place).base
        return depth

    def is_whole(self) -> bool:
        """Tell whether the pack's file is as it was written, by its checksum."""
        with memoryview(self._pack) as whole, whole[: self.body_end()] as body:
            found = hashlib.new(_HASHES[self.id_length], body, usedforsecurity=False).digest()
        return found == self._pack[self.body_end() :]

    def bytes_between(self, start: int, end: int) -> bytes:
        """Return a part of the pack's file as it stands."""
        return self._pack[start:end]

    def body_end(self) -> int:
        """Return where the last entry ends."""
        return len(self._pack) - self.id_length

    def close(self) -> None:
        """Let go of the files."""
        for file in (self._index, self._pack):
            if isinstance(file, mmap.mmap):
                file.close()

    def _offset(self, number: int) -> int:
        place = self._places + 4 * number
        offset = int.from_bytes(self._index[place : place + 4])
        if offset < LARGE_OFFSET:
            return offset
        place = self._places + 4 * self.count + 8 * (offset - LARGE_OFFSET)
        return int.from_bytes(self._index[place : place + 8])

    def _inflated(self, entry: PackedEntry) -> bytes:
        end = self.body_end()
        # zlib never makes more of a content than this; what another program made may be longer.
        near = min(end, entry.start + entry.size + (entry.size >> 10) + 64)
        try:
            return inflate(self._pack[entry.start : near], entry.size)
        except DamagedObjectError:
            if near == end:
                raise
            return inflate(self._pack[entry.start : end], entry.size)


def _content(path: str) -> mmap.mmap | bytes:
    """Return a file's content, which stays what it is when the file goes."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        start = os.read(handle, _SMALL_FILE)
        if 0 < len(start) < _SMALL_FILE:
            return start
        return mmap.mmap(handle, 0, access=mmap.ACCESS_READ)
    except ValueError:  # an empty file
        raise DamagedObjectError(f"{os.path.basename(path)} is empty") from None  # noqa: PTH119
    finally:
        os.close(handle)


def kind_and_size(start: bytes) -> tuple[int, int, int]:
    """Return an entry's kind and size, and where what follows them begins."""
    byte = start[0]
    kind, size, shift, at = byte >> 4 & 7, byte & 15, 4, 1
    while byte & 0x80:
        byte = start[at]
        size |= (byte & 0x7F) << shift
        shift += 7
        at += 1
    return kind, size, at


def delta_sizes(delta: bytes) -> tuple[int, int]:
    """Return how many bytes a delta starts from, and how many it makes."""
    sizes = []
    at = 0
    for _ in range(2):
        size, shift = 0, 0
        while True:
            byte = delta[at]
            at += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                break
        sizes.append(size)
    return sizes[0], sizes[1]


def distance_back(start: bytes, at: int) -> tuple[int, int]:
    """Return how far back a delta's base begins, and where what follows begins."""
    byte = start[at]
    back = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = start[at]
        back = (back + 1) << 7 | byte & 0x7F
    return back, at + 1


def applied(base: bytes, delta: bytes) -> bytes:
    """Return what a delta makes of what it starts from.

    Raises:
        DamagedObjectError: when it does not fit.
    """
    try:
        return b"".join(apply_delta(base, delta))
    except (ApplyDeltaError, AssertionError, IndexError, ValueError) as error:
        raise DamagedObjectError(f"its delta does not fit: {error}") from None
