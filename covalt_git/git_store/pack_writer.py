"""Writer of a pack with its index to a folder, and stream of a pack of selected objects.

The pack and its index are written under temporary names (and fsynced, if durable).  Then the index is
renamed, and the pack last, so that git never finds a pack without an index.

Dulwich's ``add_objects`` names the pack before its index and does not fsync the folder.

A stream copies the compressed entries of existing packs.  A delta is copied if its base precedes it in the stream;
every other object is sent completely.

Format: ``gitformat-pack(5)``.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from typing import TYPE_CHECKING, NamedTuple

from dulwich.pack import OFS_DELTA, pack_header_chunks, pack_object_header, write_pack_index

from covalt_git.git_store.object_reader import damage_of
from covalt_git.git_store.objects import KINDS, DamagedObjectError
from covalt_git.git_store.pack_file import entry_header
from covalt_git.names import new_id
from covalt_git.system.atomic_write import fsync

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

    from dulwich.object_format import ObjectFormat

    from covalt_git.git_store.object_reader import ObjectReader
    from covalt_git.git_store.pack_file import PackFile

TEMPORARY = "tmp_"
"""Start of the names of files that are being written, which git ignores and prunes, too."""

_LEVEL = 1
"""zlib's level: higher ones take several times as long and save a tenth."""

_LISTED = 64
"""Entries of a pack's index that are listed in the time in which one object is read by itself."""


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


def _encoded(
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
    name = new_id()
    pack, index = folder / f"{TEMPORARY}pack_{name}", folder / f"{TEMPORARY}idx_{name}"
    offsets: dict[bytes, tuple[int, int]] = {}
    checksum = b""
    try:
        with pack.open("xb") as pack_file, index.open("xb") as index_file:
            for checksum in _encoded(entries, count, object_format, offsets):  # it is the last part
                pack_file.write(checksum)
            rows = sorted((oid, offset, crc) for oid, (offset, crc) in offsets.items())
            write_pack_index(index_file, rows, checksum)
            for file in (pack_file, index_file):
                file.flush()
                os.fchmod(file.fileno(), 0o444)
                if durable:
                    os.fsync(file.fileno())
        path = folder / f"pack-{checksum.hex()}.pack"
        index.rename(path.with_suffix(".idx"))
        pack.rename(path)
    except BaseException:
        pack.unlink(missing_ok=True)
        index.unlink(missing_ok=True)
        raise
    if durable:
        fsync(folder)
    return path


def pack_stream(reader: ObjectReader, ids: Iterable[str]) -> Iterator[bytes]:
    """Yield a pack of some objects.

    Raises:
        BrokenStoreError: when an object is missing or damaged.
    """
    wanted = dict.fromkeys(ids)
    return _encoded(stored_entries(reader, wanted), len(wanted), reader.format, {})


def stored_entries(reader: ObjectReader, ids: Iterable[str]) -> Iterator[PackEntry]:
    """Yield the entries of some objects, each once.

    Raises:
        BrokenStoreError: when an object is missing or damaged.
    """

    def complete(oid: bytes) -> PackEntry:
        return new_entry(oid.hex(), *reader.read_object(oid.hex()))

    left = dict.fromkeys(map(bytes.fromhex, ids))
    sent: set[bytes] = set()
    for pack in reader.packs:
        with (
            damage_of(f"in {pack.path.name}", reader.path),
            # If gc has removed the pack, its objects are read one by one below.
            contextlib.suppress(FileNotFoundError),
        ):
            for entry in _packed(pack, left):
                is_complete = entry.base is None or entry.base in sent
                sent.add(entry.oid)
                del left[entry.oid]
                yield entry if is_complete else complete(entry.oid)
    yield from map(complete, left)


def _packed(pack: PackFile, left: Collection[bytes]) -> Iterator[PackEntry]:
    """Yield the entries of some objects, if they are in a pack, as they are stored."""
    if len(pack.index) > _LISTED * len(left):
        return
    rows = pack.entries()
    at = {offset: oid for offset, oid, _, _ in rows}
    for offset, oid, crc, end in rows:
        if oid in left:
            stored = pack.stored(offset, end)
            if zlib.crc32(stored) != crc:
                raise DamagedObjectError(f"its entry of {oid.hex()} does not match the index")
            kind, size, base, length = entry_header(stored, pack.format.oid_length)
            base = at[offset - base] if isinstance(base, int) else base
            yield PackEntry(oid, kind, size, stored[length:], base)
