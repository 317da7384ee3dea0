"""Writing a pack and its index, so that both appear whole or not at all.

Format: ``gitformat-pack(5)``, version 2 of both.  The files are made under names that git's own
prune clears away, flushed, and renamed: the index first, since neither git nor dulwich looks at an
index without its pack, and nobody else leaves one.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import mmap
import os
import struct
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.git_store.compression import crc32, deflate, inflate
from covalt_git.git_store.objects import KINDS
from covalt_git.git_store.packs import (
    INDEX_START,
    LARGE_OFFSET,
    LONGEST_HEADER,
    OFFSET_DELTA,
    PACK_HEADER,
    PACK_START,
    kind_and_size,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.git_store.packs import Pack

TEMPORARY = ("tmp_pack_", "tmp_idx_")
"""What the names of files begin with that are being made."""


_IN_MEMORY = 1 << 20


class Entry(NamedTuple):
    """An object as it stands in a pack, and the CRC-32 of that."""

    written: bytes
    check: int


def object_entry(kind: bytes, content: bytes) -> Entry:
    """Return the entry of a whole object."""
    # Ids do not get smaller, and packing up makes deltas of all trees but the last.
    start = _kind_and_size(KINDS.index(kind), len(content))
    written = deflate(content, before=start, in_haste=kind == b"tree")
    return Entry(written, crc32(written))


def delta_entry(distance: int, delta: bytes) -> Entry:
    """Return the entry of an object that is a delta of the one ``distance`` bytes before it."""
    start = _kind_and_size(OFFSET_DELTA, len(delta)) + _distance(distance)
    written = deflate(delta, before=start)
    return Entry(written, crc32(written))


def copied_entry(kind: int, size: int, stream: bytes, *, distance: int = 0) -> Entry:
    """Return the entry of an object whose ``size`` bytes are compressed already.

    ``kind`` is git's number.  With a ``distance`` the bytes are a delta of the object so many bytes
    before it.
    """
    start = _kind_and_size(OFFSET_DELTA if distance else kind, size)
    written = start + (_distance(distance) if distance else b"") + stream
    return Entry(written, crc32(written))


class PackWriter:
    """One pack in the making; :meth:`finish` it, or :meth:`abandon` it.

    A small one is made in memory, and is a file only at its end.
    """

    def __init__(self, folder: str, object_format: str) -> None:
        """Begin a pack that will lie in ``folder``."""
        self.end = PACK_HEADER
        self._folder = folder
        self._hash = object_format
        self._index: dict[bytes, tuple[int, int]] = {}
        self._made: list[UnnamedFile] = []
        self._file: UnnamedFile | None = None
        self._start = bytearray(PACK_HEADER)

    def __contains__(self, oid: bytes) -> bool:
        return oid in self._index

    def __len__(self) -> int:
        return len(self._index)

    def offset_of(self, oid: bytes) -> int:
        """Return where the entry of an object of this pack begins."""
        return self._index[oid][0]

    def append(self, oid: bytes, entry: Entry) -> None:
        """Add an object that is not in the pack yet; ``oid`` is its id, raw."""
        written, check = entry
        self._index[oid] = (self.end, check)
        self._write(written)

    def append_streams(self, kind: int, objects: Iterable[tuple[bytes, int, bytes]]) -> None:
        """Add objects of one of git's kinds, each its raw id, its size and its zlib stream."""
        written, end = [], self.end
        for oid, size, stream in objects:
            entry = _kind_and_size(kind, size) + stream
            self._index[oid] = (end, crc32(entry))
            end += len(entry)
            written.append(entry)
        self._write(b"".join(written))

    def has_none_of(self, pack: Pack) -> bool:
        """Tell whether no object of another pack is in this one."""
        return self._index.keys().isdisjoint(pack.names)

    def append_pack(self, pack: Pack) -> None:
        """Add all of another pack, of whose objects none is in this one yet, as it stands."""
        shift = self.end - PACK_HEADER
        body = pack.bytes_between(PACK_HEADER, pack.body_end())
        self._index.update((oid, (at + shift, check)) for oid, at, check in pack.ids())
        self._write(body)

    def _write(self, content: bytes) -> None:
        self.end += len(content)
        if self._file is None and self.end <= _IN_MEMORY:
            self._start += content
        else:
            self._into_file().write(content)

    def _into_file(self) -> UnnamedFile:
        if self._file is None:
            self._file = self._temporary(TEMPORARY[0])
            self._file.write(self._start)
            self._start = bytearray()
        return self._file

    def _temporary(self, prefix: str) -> UnnamedFile:
        made = UnnamedFile(self._folder, prefix)
        self._made.append(made)
        return made

    def read(self, oid: bytes) -> tuple[bytes, bytes]:
        """Return the kind and content of a whole object of this pack."""
        offset = self._index[oid][0]
        if self._file is None:
            written = bytes(self._start[offset:])
        else:
            written = os.pread(self._file.handle(), LONGEST_HEADER, offset)
        kind, size, length = kind_and_size(written)
        if self._file is not None:
            written = os.pread(self._file.handle(), length + size + (size >> 10) + 64, offset)
        return KINDS[kind], inflate(written[length:], size)

    def finish(self, *, durable: bool) -> str:
        """Give the pack and its index their names in the folder; return the pack's.

        The names are on the disk only when the folder was flushed, too.
        """
        checksum, places = self._finish_pack(durable=durable)
        pack = self._into_file()
        index = self._temporary(TEMPORARY[1])
        index.write(self._index_content(places, checksum))
        name = f"pack-{checksum.hex()}"
        for one in (pack, index):  # both are written by now: a disk may flush them in one go
            one.flush(durable=durable)
        index.rename(f"{self._folder}/{name}.idx")
        pack.rename(f"{self._folder}/{name}.pack")
        return f"{name}.pack"

    def abandon(self) -> None:
        """Leave nothing of it, unless it was finished."""
        for one in self._made:
            one.close()

    def _finish_pack(self, *, durable: bool) -> tuple[bytes, bytes]:
        """Write the pack's count and checksum, which covers the count before all else.

        Returns the checksum, and what its index says of the objects.
        """
        head = PACK_START + struct.pack(">I", len(self._index))
        if self._file is None:
            self._start[:PACK_HEADER] = head
            checksum = hashlib.new(self._hash, self._start, usedforsecurity=False).digest()
            self._start += checksum
            return checksum, self._places()
        handle = self._file.handle()
        os.pwrite(handle, head, 0)
        with ThreadPoolExecutor(2) as beside:  # a disk has nothing to do while this is computed
            flushed = beside.submit(os.fsync, handle) if durable else None
            placed = beside.submit(self._places)  # whoever hashes lets others use Python meanwhile
            checksum = self._digest_of(handle)
        if flushed is not None:
            flushed.result()  # the kernel tells of an error only once
        self._file.write(checksum)
        return checksum, placed.result()

    def _digest_of(self, handle: int) -> bytes:
        with mmap.mmap(handle, self.end, access=mmap.ACCESS_READ) as written:
            return hashlib.new(self._hash, written, usedforsecurity=False).digest()

    def _places(self) -> bytes:
        """Return the index as far as it is of the objects: their ids, checks and places."""
        oids = sorted(self._index)
        found = [self._index[oid] for oid in oids]
        large = [offset for offset, _ in found if offset >= LARGE_OFFSET]
        numbers = itertools.count(LARGE_OFFSET)
        places = [offset if offset < LARGE_OFFSET else next(numbers) for offset, _ in found]
        count = len(oids)
        parts = [
            INDEX_START,
            _fanout(oids),
            *oids,
            struct.pack(f">{count}I", *(check for _, check in found)),
            struct.pack(f">{count}I", *places),
            struct.pack(f">{len(large)}Q", *large),
        ]
        return b"".join(parts)

    def _index_content(self, places: bytes, checksum: bytes) -> bytes:
        content = places + checksum
        return content + hashlib.new(self._hash, content, usedforsecurity=False).digest()


class UnnamedFile:
    """A file that is being written, and goes when it is closed without a name of its own."""

    def __init__(self, folder: str, prefix: str) -> None:
        """Make one in a folder, under a name that begins with ``prefix``."""
        try:
            handle, name = tempfile.mkstemp(prefix=prefix, dir=folder)
        except FileNotFoundError:
            Path(folder).mkdir(exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=prefix, dir=folder)
        self._name: str | None = name
        self._file = os.fdopen(handle, "w+b", buffering=_IN_MEMORY)
        self.write = self._file.write

    def handle(self) -> int:
        """Return the descriptor, once all that was written has gone through it."""
        self._file.flush()
        return self._file.fileno()

    def flush(self, *, durable: bool) -> None:
        """Let nobody change it any more, and its content survive where it has to."""
        handle = self.handle()
        os.fchmod(handle, 0o444)
        if durable:
            os.fsync(handle)

    def rename(self, path: str) -> None:
        """Give it its name; the folder it is to lie in may be missing."""
        self._file.close()
        rename_into(self._name or "", path)
        self._name = None

    def close(self) -> None:
        """Remove it, unless it has its name."""
        with contextlib.suppress(OSError):
            self._file.close()
        if self._name is not None:
            Path(self._name).unlink(missing_ok=True)
            self._name = None


def rename_into(name: str, path: str) -> None:
    """Rename a file, into a folder that may be missing."""
    try:
        os.rename(name, path)  # noqa: PTH104 - it is a string
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
        os.rename(name, path)  # noqa: PTH104


def _fanout(oids: list[bytes]) -> bytes:
    """Return, for each first byte of an id, how many of the sorted ids begin with none higher."""
    parts, first = [], 0
    for number, oid in enumerate(oids):
        if oid[0] != first:
            parts.append(struct.pack(">I", number) * (oid[0] - first))
            first = oid[0]
    parts.append(struct.pack(">I", len(oids)) * (256 - first))
    return b"".join(parts)


def _kind_and_size(kind: int, size: int) -> bytes:
    """Return the beginning of an entry: four bits of the size beside the kind, then seven a byte."""
    if 16 <= size < 1 << 11:  # noqa: PLR2004 - as most are: two bytes
        return bytes((kind << 4 | size & 15 | 0x80, size >> 4))
    start = bytearray()
    byte, size = kind << 4 | size & 15, size >> 4
    while size:
        start.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    start.append(byte)
    return bytes(start)


def _distance(back: int) -> bytes:
    """Return how far back a delta's base begins, as git spells it."""
    spelled = [back & 0x7F]
    while back := back >> 7:
        back -= 1
        spelled.append(back & 0x7F | 0x80)
    return bytes(reversed(spelled))
