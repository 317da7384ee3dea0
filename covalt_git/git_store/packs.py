"""Packs: files of git objects that are mapped into memory for reading, and new packs.

A new pack and its index are written under temporary names (and fsynced, if durable).  Then the index is
renamed, and the pack last, so that git never finds a pack without an index.

Dulwich reads and writes the indexes, and applies deltas.  Its reader of packs is not used: it inflates an entry before
the size in the header can be checked.  Neither is its ``add_objects``: it names the pack before its index and does not
fsync the folder.  Only indexes of version 2 are read, which git writes since 2008.

Format: ``gitformat-pack(5)``.  Malformed packs raise ``DamagedObjectError`` or ``zlib.error``, malformed indexes
``AssertionError`` or ``struct.error``.
"""

from __future__ import annotations

import functools
import mmap
import os
import zlib
from typing import TYPE_CHECKING, NamedTuple

from dulwich.lru_cache import LRUSizeCache
from dulwich.objects import RawObjectID
from dulwich.pack import (
    DELTA_TYPES,
    OFS_DELTA,
    REF_DELTA,
    PackIndex2,
    apply_delta,
    pack_header_chunks,
    pack_object_header,
    write_pack_index,
)

from covalt_git.git_store.objects import KINDS, DamagedObjectError
from covalt_git.names import new_id
from covalt_git.system.atomic_write import fsync

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from pathlib import Path

    from dulwich.object_format import ObjectFormat

    Read = Callable[[str], tuple[bytes, bytes]]

TEMPORARY = "tmp_"
"""Start of the names of files that are being written, which git ignores and prunes, too."""

MOST_DEPTH = 4_095
"""Length of the longest chain of deltas that git makes."""

# A size of 64 bits takes 10 bytes, and a base at most 32.  Without the bound, a pack of nothing but
# continuation bytes would make one number of all of them, in the square of their length.
_MOST_HEADER_BYTES = 64
# Bytes for zlib beyond the size of the content: enough for the overhead of what cannot be compressed.  Each
# part of the mapping is copied, so a part is not the rest of the pack.
_STEP = 4_096
_START = 1024  # enough for zlib to return the first bytes of a stream
# A store may have 24 small packs, each with its cache: 16 MiB each added up to a third of a GiB.
_CACHE_BYTES = 4 << 20
# The objects of a log are in one pack, and are looked for in a dozen: a miss takes 0.2 us in a dict, 1.7 us in
# the index.
_LISTED = 256

_LEVEL = 1
"""zlib's level: higher ones take several times as long and save a tenth."""

_LISTED_PER_ID = 64
"""Entries of a pack's index that are listed in the time in which one object is read by itself."""


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
        # One byte more than the header says is enough to see that it lies, however much the stream inflates to.
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

    def __init__(
        self, path: Path, object_format: ObjectFormat, cache_bytes: int = _CACHE_BYTES
    ) -> None:
        self.path = path
        self.format = object_format
        self._cache = LRUSizeCache[int, tuple[bytes, bytes]](
            cache_bytes, compute_size=lambda row: len(row[1])
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
        # An offset must not outlive its pack: gc of another process may remove the pack before it is read.
        self._pack  # noqa: B018 - opens it
        return index

    @functools.cached_property
    def _pack(self) -> mmap.mmap:
        return mapped(self.path)

    def find(self, oid: bytes) -> int | None:
        """Return the offset of an object by its raw id; None if the pack does not have it.

        Raises:
            FileNotFoundError: as :attr:`index`; not if the offset was found, because the pack is open then.
        """
        if self._listed is not None:
            offset = self._listed.get(oid)
            if offset is not None:
                self._pack  # noqa: B018 - opens it, because another process can remove it before it is read
            return offset
        try:
            return self.index.object_offset(RawObjectID(oid))
        except KeyError:
            return None
        except TypeError:  # an entry of the index is cut off
            raise DamagedObjectError("the index of the pack is damaged") from None

    @functools.cached_property
    def _listed(self) -> dict[bytes, int] | None:
        """The offsets of a small pack; None for a larger one.  Most lookups are in small packs without the object."""
        path = f"{os.fspath(self.path)[:-5]}.idx"
        status = os.stat(path)  # noqa: PTH116 - of each pack, at each call
        return _listing(path, self.format, status.st_ino, status.st_mtime_ns, status.st_size)

    def ids(self) -> list[str]:
        if self._listed is not None:
            return [oid.hex() for oid in self._listed]
        return list(map(bytes.decode, self.index))

    def entries(self) -> list[tuple[int, bytes, int, int]]:
        """Return the offset, id, CRC-32 and end of each entry, sorted by offset."""
        rows = sorted((offset, oid, crc or 0) for oid, offset, crc in self.index.iterentries())
        ends = [offset for offset, _, _ in rows[1:]] + [len(self._pack) - self.format.oid_length]
        return [(*row, end) for row, end in zip(rows, ends, strict=True)]

    def read(self, offset: int, read_base: Read) -> tuple[bytes, bytes]:
        """Return the kind and content of the object at an offset, not verified.

        If the base of a delta is not in this pack, ``read_base`` returns its kind and content by its id.
        """
        chain: list[tuple[int, EntryHeader]] = []
        while (result := self._cache.get(offset)) is None:
            header = self._header(offset)
            if header.base is None:
                result = KINDS[header.kind], self._inflated(offset, header)
                if chain:
                    self._cache[offset] = result
                break
            chain.append((offset, header))
            # In a damaged pack, a delta can be its own base, or two can be based on each other.
            if len(chain) > MOST_DEPTH:
                raise DamagedObjectError(f"it is a chain of more than {MOST_DEPTH:,} deltas")
            if isinstance(header.base, int):
                offset -= header.base
            elif (at := self.find(header.base)) is not None:
                offset = at
            else:
                result = read_base(header.base.hex())
                break
        # One delta in memory at a time, however long the chain is.
        for at, header in reversed(chain):
            result = result[0], b"".join(apply_delta(result[1], self._inflated(at, header)))
            self._cache[at] = result
        return result

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

    def copies(self, ids: Collection[bytes]) -> Iterator[PackEntry]:
        """Yield the entries of some objects as they are stored, if the pack has them; none of a large pack for a few ids."""
        if len(self.index) > _LISTED_PER_ID * len(ids):
            return
        rows = self.entries()
        at = {offset: oid for offset, oid, _, _ in rows}
        for offset, oid, crc, end in rows:
            if oid in ids:
                stored = self._pack[offset:end]
                # It is copied without being inflated, so nothing else would notice damage, and a repack would
                # spread it.
                if zlib.crc32(stored) != crc:
                    raise DamagedObjectError(f"its entry of {oid.hex()} does not match the index")
                kind, size, base, length = entry_header(stored, self.format.oid_length)
                base = at[offset - base] if isinstance(base, int) else base
                yield PackEntry(oid, kind, size, stored[length:], base)

    def _header(self, offset: int) -> EntryHeader:
        return entry_header(
            self._pack[offset : offset + _MOST_HEADER_BYTES], self.format.oid_length
        )

    def _inflated(self, offset: int, header: EntryHeader) -> bytes:
        """Return the inflated entry at an offset: the content of an object, or a delta."""
        return inflate(self._pack, offset + header.length, header.size)[0]


@functools.lru_cache(maxsize=1024)
def _listing(
    path: str, object_format: ObjectFormat, _inode: int, _changed_ns: int, _size: int
) -> dict[bytes, int] | None:
    """Return the offsets of the objects in the index of a small pack; None for a larger one.

    A pack never changes under its name, and each call opens the store of its chat again.  With the facts of the file as
    part of the key, a new chat at the path of a deleted one does not get the listings of its packs.
    """
    with open(path, "rb") as file:  # noqa: PTH123 - the path is a text, as a key
        index = PackIndex2(path, object_format, file)
    if len(index) > _LISTED:
        return None
    return {bytes(oid): offset for oid, offset, _ in index.iterentries()}


class PackEntry(NamedTuple):
    """Entry of a new pack: an object of a kind; or a delta if it has a ``base``, whose entry precedes it.

    Ids are raw.  ``compressed`` has ``size`` bytes after inflating.
    """

    oid: bytes
    kind: int
    size: int
    compressed: bytes
    base: bytes | None = None


def new_entry(oid: str, kind: bytes, content: bytes, base: str | None = None) -> PackEntry:
    """Return the entry of an object with its content, or with its delta from ``base`` as ``content``."""
    compressed = zlib.compress(content, _LEVEL)
    raw_base = None if base is None else bytes.fromhex(base)
    return PackEntry(bytes.fromhex(oid), KINDS.index(kind), len(content), compressed, raw_base)


def encoded(
    entries: Iterable[PackEntry],
    count: int,
    object_format: ObjectFormat,
    index: dict[bytes, tuple[int, int]],
) -> Iterator[bytes]:
    """Yield a pack of ``count`` entries, its checksum last; add the offset and CRC-32 of each to ``index``."""
    hasher = object_format.new_hash()
    start = b"".join(pack_header_chunks(count))
    hasher.update(start)
    yield start
    end = len(start)
    for oid, kind, size, compressed, base in entries:
        distance = None if base is None else end - index[base][0]
        header = pack_object_header(OFS_DELTA if base else kind, distance, size, object_format)
        content = bytes(header) + compressed
        index[oid] = end, zlib.crc32(content)
        hasher.update(content)
        yield content
        end += len(content)
    yield hasher.digest()


def write_pack(
    folder: Path,
    object_format: ObjectFormat,
    entries: Iterable[PackEntry],
    count: int,
    *,
    durable: bool,
) -> Path:
    """Write a pack of ``count`` entries with its index to a folder of packs; return its path.

    Both files are fsynced if ``durable``.
    """
    folder.mkdir(exist_ok=True)
    # Two processes may write packs at the same time, and a pack's own name, its checksum, is known at the end only.
    name = new_id()
    pack, index = folder / f"{TEMPORARY}pack_{name}", folder / f"{TEMPORARY}idx_{name}"
    offsets: dict[bytes, tuple[int, int]] = {}
    checksum = b""
    try:
        with pack.open("xb") as pack_file, index.open("xb") as index_file:
            for checksum in encoded(entries, count, object_format, offsets):  # it is the last part
                pack_file.write(checksum)
            rows = sorted((oid, offset, crc) for oid, (offset, crc) in offsets.items())
            write_pack_index(index_file, rows, checksum)
            for file in (pack_file, index_file):
                file.flush()
                os.fchmod(file.fileno(), 0o444)  # read-only, because forks share it by hard links
                # Before the rename: after a power cut, a name may be there and the content behind it may not.
                if durable:
                    os.fsync(file.fileno())
        path = folder / f"pack-{checksum.hex()}.pack"
        index.rename(path.with_suffix(".idx"))
        pack.rename(path)
    except BaseException:
        # Also for Ctrl-C: only the next recovery would remove what has filled the disk.
        pack.unlink(missing_ok=True)
        index.unlink(missing_ok=True)
        raise
    if durable:
        fsync(folder)
    return path
