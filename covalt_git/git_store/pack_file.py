"""Packs, mapped into memory for reading; headers and zlib streams of entries.

Dulwich reads the indexes, and applies deltas.  Its reader of packs is not used: it inflates an entry before the size in
the header can be checked.  Only indexes of version 2 are read, which git writes since 2008.

Format: ``gitformat-pack(5)``.  Malformed packs raise ``DamagedObjectError`` or ``zlib.error``, malformed indexes
``AssertionError`` or ``struct.error``.
"""

from __future__ import annotations

import functools
import mmap
import zlib
from typing import TYPE_CHECKING, NamedTuple

from dulwich.lru_cache import LRUSizeCache
from dulwich.objects import RawObjectID
from dulwich.pack import DELTA_TYPES, OFS_DELTA, REF_DELTA, PackIndex2, apply_delta

from covalt_git.git_store.objects import KINDS, DamagedObjectError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dulwich.object_format import ObjectFormat

    Read = Callable[[str], tuple[bytes, bytes]]

MOST_DEPTH = 4_095
"""Length of the longest chain of deltas that git makes."""

_MOST_HEADER_BYTES = 64  # of a header with its base, and of the two sizes before a delta
_STEP = 4_096  # bytes that are passed to zlib beyond those that a stream should have
_START = 1024  # enough for zlib to return the first bytes of a stream
_CACHE_BYTES = 4 << 20
_LISTED = 256  # entries of an index that are listed in memory


class EntryHeader(NamedTuple):
    """The header of one entry.

    ``size`` is the size of the inflated entry, ``length`` the length of the header.  ``base`` is the distance
    back to the base of a delta, or the raw id of the base.
    """

    kind: int
    size: int
    base: int | bytes | None
    length: int


def entry_header(start: bytes, id_length: int) -> EntryHeader:
    """Return the header at the start of an entry; ids have ``id_length`` bytes."""
    start = start[:_MOST_HEADER_BYTES]
    base: int | bytes | None = None
    try:
        kind = start[0] >> 4 & 7
        size, length = _size(start, 1, start[0] & 0x0F, 4)
        if kind == OFS_DELTA:
            digit = start[length]
            length, base = length + 1, digit & 0x7F
            while digit & 0x80:
                digit = start[length]
                length, base = length + 1, (base + 1) << 7 | digit & 0x7F
    except IndexError:
        raise DamagedObjectError("an entry of the pack is cut off") from None
    if kind == REF_DELTA:
        base = start[length : length + id_length]
        length += id_length
        if len(base) < id_length:
            raise DamagedObjectError("an entry of the pack is cut off")
    elif kind not in DELTA_TYPES and not 0 < kind < len(KINDS):
        raise DamagedObjectError(f"the pack has an entry of the unknown kind {kind}")
    return EntryHeader(kind, size, base, length)


def inflate(pack: mmap.mmap | bytes, at: int, size: int) -> tuple[bytes, int]:
    """Return the ``size`` bytes of the zlib stream at an offset, and the offset after the stream."""
    stream = zlib.decompressobj()
    content = b""
    while not stream.eof:
        part = pack[at : at + size + _STEP]
        at += len(part)
        content += stream.decompress(part, size + 1 - len(content))
        if not part or len(content) > size:
            break
    if not stream.eof or len(content) != size:
        raise DamagedObjectError("an entry of the pack does not have the size in its header")
    return content, at - len(stream.unused_data)


def result_size(start: bytes) -> int:
    """Return the size of the result of a delta from its first bytes."""
    start = start[:_MOST_HEADER_BYTES]
    try:
        _, at = _size(start, 1, start[0] & 0x7F, 7)
        return _size(start, at + 1, start[at] & 0x7F, 7)[0]
    except IndexError:
        raise DamagedObjectError("a delta of the pack is cut off") from None


def _size(start: bytes, at: int, size: int, shift: int) -> tuple[int, int]:
    """Continue to read a size that is encoded in several bytes, from ``at``; return it and the offset after it."""
    while start[at - 1] & 0x80:
        size |= (start[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return size, at


def mapped(path: Path) -> mmap.mmap:
    """Return the content of a file, mapped into memory for reading."""
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


class PackFile:
    """One pack.  Its two files are opened at the first read; after that, the files may be removed.

    Results of deltas, and objects that deltas start from, are cached up to ``cache_bytes``.
    """

    _pack: mmap.mmap

    def __init__(
        self, path: Path, object_format: ObjectFormat, cache_bytes: int = _CACHE_BYTES
    ) -> None:
        self.path = path
        self.format = object_format
        self._cache = LRUSizeCache[int, tuple[bytes, bytes]](
            cache_bytes, compute_size=lambda found: len(found[1])
        )

    @functools.cached_property
    def index(self) -> PackIndex2:
        """The index of the pack; both files are opened together.

        Raises:
            FileNotFoundError: when another process removed the pack before it was read.
        """
        path = self.path.with_suffix(".idx")
        with path.open("rb") as file:  # is mapped, so that it need not stay open
            index = PackIndex2(path, self.format, file)
        self._pack = mapped(self.path)
        return index

    def find(self, oid: bytes) -> int | None:
        """Return the offset of an object by its raw id; None if the pack does not have it."""
        if self._listed is not None:
            return self._listed.get(oid)
        try:
            return self.index.object_offset(RawObjectID(oid))
        except KeyError:
            return None
        except TypeError:  # an entry of the index is cut off
            raise DamagedObjectError("the index of the pack is damaged") from None

    @functools.cached_property
    def _listed(self) -> dict[bytes, int] | None:
        """The offsets of a small pack; None for a larger one.  Most lookups are in small packs without the object."""
        if len(self.index) > _LISTED:
            return None
        return {bytes(oid): offset for oid, offset, _ in self.index.iterentries()}

    def ids(self) -> list[str]:
        """Return the ids of all objects."""
        return list(map(bytes.decode, self.index))

    def entries(self) -> list[tuple[int, bytes, int, int]]:
        """Return the offset, id, CRC-32 and end of each entry, sorted by offset."""
        rows = sorted((offset, oid, crc or 0) for oid, offset, crc in self.index.iterentries())
        ends = [offset for offset, _, _ in rows[1:]] + [len(self._pack) - self.format.oid_length]
        return [(*row, end) for row, end in zip(rows, ends, strict=True)]

    def stored(self, offset: int, end: int) -> bytes:
        """Return the bytes of an entry."""
        return self._pack[offset:end]

    def read(self, offset: int, read_base: Read) -> tuple[bytes, bytes]:
        """Return the kind and content of the object at an offset, not verified.

        If the base of a delta is not in this pack, ``read_base`` returns its kind and content by its id.
        """
        chain: list[int] = []
        while (found := self._cache.get(offset)) is None:
            header = self._header(offset)
            if header.base is None:
                found = KINDS[header.kind], self._inflated(offset)
                if chain:
                    self._cache[offset] = found
                break
            chain.append(offset)
            if len(chain) > MOST_DEPTH:
                raise DamagedObjectError(f"it is a chain of more than {MOST_DEPTH:,} deltas")
            if isinstance(header.base, int):
                offset -= header.base
            elif (at := self.find(header.base)) is not None:
                offset = at
            else:
                found = read_base(header.base.hex())
                break
        for at in reversed(chain):  # one delta in memory at a time, however long the chain is
            found = found[0], b"".join(apply_delta(found[1], self._inflated(at)))
            self._cache[at] = found
        return found

    def size(self, offset: int) -> int:
        """Return the size of the object at an offset, without reading all of it."""
        header = self._header(offset)
        if header.base is None:
            return header.size
        start = self._pack[offset + header.length : offset + _START]
        return result_size(zlib.decompressobj().decompress(start, _MOST_HEADER_BYTES))

    def compressed(self, offset: int) -> bytes | None:
        """Return the compressed content of the object at an offset; None if it is a delta."""
        header = self._header(offset)
        if header.base is not None:
            return None
        start = offset + header.length
        return self._pack[start : inflate(self._pack, start, header.size)[1]]

    def _header(self, offset: int) -> EntryHeader:
        return entry_header(
            self._pack[offset : offset + _MOST_HEADER_BYTES], self.format.oid_length
        )

    def _inflated(self, offset: int) -> bytes:
        """Return the inflated entry at an offset: the content of an object, or a delta."""
        header = self._header(offset)
        return inflate(self._pack, offset + header.length, header.size)[0]
