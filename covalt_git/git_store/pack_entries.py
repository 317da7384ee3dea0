"""Entries of a pack: their headers, and the zlib streams after them.

Format: ``gitformat-pack(5)``.  Malformed entries raise ``DamagedObjectError`` or ``zlib.error``.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple

from dulwich.pack import DELTA_TYPES, OFS_DELTA, REF_DELTA

from covalt_git.git_store.objects import KINDS, DamagedObjectError

if TYPE_CHECKING:
    import mmap

MOST_HEADER_BYTES = 64
"""Upper bound of the bytes of a header, its base included, and of the two sizes before a delta."""

MOST_DEPTH = 4_095
"""Length of the longest chain of deltas that git makes."""

_STEP = 4_096  # bytes that are passed to zlib beyond those that a stream should have


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
    start = start[:MOST_HEADER_BYTES]
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
    start = start[:MOST_HEADER_BYTES]
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
