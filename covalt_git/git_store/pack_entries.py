"""Headers of the entries of a pack: kind, size and delta base, read without inflating the entry.

Format: ``gitformat-pack(5)``.  Malformed headers raise ``DamagedObjectError``.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dulwich.pack import DELTA_TYPES, OFS_DELTA, REF_DELTA, take_msb_bytes_at

from covalt_git.git_store.objects import KINDS, DamagedObjectError

if TYPE_CHECKING:
    from dulwich.pack import Pack

MOST_HEADER_BYTES = 64
"""Upper bound of the bytes of a header, its base included, and of the two sizes before a delta."""

_START = 1024  # enough for zlib to return the first bytes of a stream


class EntryHeader(NamedTuple):
    """The header of one entry.

    ``size`` is that of the inflated entry, ``length`` that of the header.  ``base`` is the distance
    back to the base of a delta, or its raw id.
    """

    kind: int
    size: int
    base: int | bytes | None
    length: int


def entry_header(start: bytes, id_length: int) -> EntryHeader:
    """Return the header at the start of an entry; ids have ``id_length`` bytes."""
    start = start[:MOST_HEADER_BYTES]
    try:
        first, length, _ = take_msb_bytes_at(start, 0)
        kind, size = first[0] >> 4 & 7, first[0] & 15
        for place, byte in enumerate(first[1:]):
            size |= (byte & 0x7F) << (4 + 7 * place)
        base: int | bytes | None = None
        if kind == OFS_DELTA:
            digits, length, _ = take_msb_bytes_at(start, length)
            base = digits[0] & 0x7F
            for byte in digits[1:]:
                base = (base + 1) << 7 | byte & 0x7F
    except AssertionError:
        raise DamagedObjectError("an entry of the pack is cut off") from None
    if kind == REF_DELTA:
        base = start[length : length + id_length]
        length += id_length
        if len(base) < id_length:
            raise DamagedObjectError("an entry of the pack is cut off")
    elif kind not in DELTA_TYPES and not 0 < kind < len(KINDS):
        raise DamagedObjectError(f"the pack has an entry of the unknown kind {kind}")
    return EntryHeader(kind, size, base, length)


def delta_sizes(start: bytes) -> tuple[int, int]:
    """Return the size of the base and of the result from the first bytes of an inflated delta."""
    sizes, at = [], 0
    for _ in range(2):
        try:
            digits, at, _ = take_msb_bytes_at(start[:MOST_HEADER_BYTES], at)
        except AssertionError:
            raise DamagedObjectError("a delta of the pack is cut off") from None
        sizes.append(sum((byte & 0x7F) << 7 * place for place, byte in enumerate(digits)))
    return sizes[0], sizes[1]


def object_size(pack: Pack, offset: int) -> int:
    """Return the size of the object at an offset of a pack, without reading all of it."""
    with Path(pack.data.path).open("rb") as file:
        file.seek(offset)
        start = file.read(_START)
    header = entry_header(start, pack.object_format.oid_length)
    if header.base is None:
        return header.size
    return delta_sizes(zlib.decompressobj().decompress(start[header.length :], MOST_HEADER_BYTES))[
        1
    ]
