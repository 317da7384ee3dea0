"""Indexes of packs: reading of versions 1 and 2, and the content of version 2.

Format: ``gitformat-pack(5)``.  Dulwich writes and hashes each number of an index by itself.
"""

from __future__ import annotations

import hashlib
import itertools
import mmap
import struct
from collections import Counter
from typing import TYPE_CHECKING

from covalt_git.git_store.objects import DamagedObjectError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from dulwich.object_format import ObjectFormat

_MAGIC = b"\377tOc"
_FAN_OUT = struct.Struct(">256L")
_LONG, _QUAD = struct.Struct(">L"), struct.Struct(">Q")
_IN_TABLE = 1 << 31  # the offset is in the table of large offsets


def mapped(path: Path) -> mmap.mmap:
    """Return the content of a file, mapped for reading."""
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


class PackIndex:
    """Index of a pack: the offset of each entry by its raw id.  Its length is the number of entries."""

    def __init__(self, path: Path, id_length: int) -> None:
        self._map = mapped(path)
        self._id_length = id_length
        version = 1
        if self._map[:4] == _MAGIC:
            version = _LONG.unpack_from(self._map, 4)[0]
        start = 8 * (version - 1)
        self._fan_out: tuple[int, ...] = (0, *_FAN_OUT.unpack_from(self._map, start))
        names = start + _FAN_OUT.size
        match version:
            case 1:  # rows of an offset and an id
                self._ids, self._id_step = names + 4, id_length + 4
                self._offsets, self._offset_step = names, id_length + 4
            case 2:  # all ids, all CRC-32s, all offsets
                self._ids, self._id_step = names, id_length
                self._offsets, self._offset_step = names + len(self) * (id_length + 4), 4
            case _:
                raise DamagedObjectError(f"the index of the pack has the version {version}")

    def __len__(self) -> int:
        return self._fan_out[-1]

    def find(self, oid: bytes) -> int | None:
        """Return the offset of an entry; None if the pack does not have it."""
        index, ids, step, length = self._map, self._ids, self._id_step, self._id_length
        low, high = self._fan_out[oid[0] : oid[0] + 2]
        while low < high:
            middle = (low + high) // 2
            at = ids + middle * step
            found = index[at : at + length]
            if found == oid:
                return self._offset(middle)
            if found < oid:
                low = middle + 1
            else:
                high = middle
        return None

    def ids(self) -> list[bytes]:
        """Return the ids of all entries, sorted."""
        starts = range(self._ids, self._ids + len(self) * self._id_step, self._id_step)
        return [self._map[at : at + self._id_length] for at in starts]

    def rows(self) -> Iterator[tuple[int, bytes, int | None]]:
        """Yield the offset, id and CRC-32 (None in version 1) of each entry, sorted by id."""
        crcs: Sequence[int | None] = [None] * len(self)
        if self._offset_step == _LONG.size:
            start = self._offsets - len(self) * _LONG.size
            crcs = struct.unpack_from(f">{len(self)}L", self._map, start)
        return zip(map(self._offset, range(len(self))), self.ids(), crcs, strict=True)

    def _offset(self, row: int) -> int:
        (offset,) = _LONG.unpack_from(self._map, self._offsets + row * self._offset_step)
        if offset >= _IN_TABLE and self._offset_step == _LONG.size:
            table = self._offsets + len(self) * _LONG.size
            (offset,) = _QUAD.unpack_from(self._map, table + (offset - _IN_TABLE) * _QUAD.size)
        return int(offset)


def index_content(
    entries: Mapping[bytes, tuple[int, int]], checksum: bytes, object_format: ObjectFormat
) -> bytes:
    """Return the index of a pack with this checksum, given the offset and CRC-32 of each raw id."""
    ids = sorted(entries)
    counts = Counter(oid[0] for oid in ids)
    offsets = [entries[oid][0] for oid in ids]
    large = [at for at in offsets if at >= _IN_TABLE]
    places = {at: _IN_TABLE + number for number, at in enumerate(large)}
    content = b"".join(
        (
            _MAGIC + _LONG.pack(2),
            _FAN_OUT.pack(*itertools.accumulate(counts[first] for first in range(256))),
            *ids,
            struct.pack(f">{len(ids)}L", *(entries[oid][1] for oid in ids)),
            struct.pack(f">{len(ids)}L", *(places.get(at, at) for at in offsets)),
            struct.pack(f">{len(large)}Q", *large),
            checksum,
        )
    )
    return content + hashlib.new(object_format.name, content, usedforsecurity=False).digest()
