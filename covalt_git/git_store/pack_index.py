"""Indexes of packs, versions 1 and 2, mapped for reading.

Dulwich looks an id up in several times the time, which is a quarter of a log.  Format: ``gitformat-pack(5)``.
"""

from __future__ import annotations

import mmap
import struct
from bisect import bisect_left
from typing import TYPE_CHECKING

from covalt_git.git_store.objects import DamagedObjectError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
        if len(self._map) < self._offsets + len(self) * self._offset_step:
            raise DamagedObjectError("the index of the pack is cut off")

    def __len__(self) -> int:
        return self._fan_out[-1]

    def find(self, oid: bytes) -> int | None:
        """Return the offset of an entry; None if the pack does not have it."""
        low, high = self._fan_out[oid[0] : oid[0] + 2]
        row = bisect_left(range(high), oid, low, high, key=self._id)
        return self._offset(row) if row < high and self._id(row) == oid else None

    def ids(self) -> Iterator[bytes]:
        """Yield the ids of all entries, sorted."""
        return map(self._id, range(len(self)))

    def rows(self) -> Iterator[tuple[int, bytes, int | None]]:
        """Yield the offset, id and CRC-32 (None in version 1) of each entry, sorted by id."""
        for row, oid in enumerate(self.ids()):
            yield self._offset(row), oid, self._crc(row)

    def _id(self, row: int) -> bytes:
        at = self._ids + row * self._id_step
        return self._map[at : at + self._id_length]

    def _crc(self, row: int) -> int | None:
        if self._offset_step != _LONG.size:
            return None
        return int(_LONG.unpack_from(self._map, self._offsets + (row - len(self)) * _LONG.size)[0])

    def _offset(self, row: int) -> int:
        (offset,) = _LONG.unpack_from(self._map, self._offsets + row * self._offset_step)
        if offset >= _IN_TABLE and self._offset_step == _LONG.size:
            table = self._offsets + len(self) * _LONG.size
            (offset,) = _QUAD.unpack_from(self._map, table + (offset - _IN_TABLE) * _QUAD.size)
        return int(offset)
