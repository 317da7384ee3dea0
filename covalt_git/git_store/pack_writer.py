"""Encoder of packs, writer of a pack with its index to a folder, and stream of a pack of selected objects.

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
from collections import deque
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from dulwich.pack import OFS_DELTA, pack_header_chunks, pack_object_header, write_pack_index

from covalt_git.git_store.object_reader import damage_of
from covalt_git.git_store.objects import KINDS, DamagedObjectError
from covalt_git.git_store.pack_file import entry_header
from covalt_git.names import new_id
from covalt_git.system.atomic_write import fsync

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dulwich.object_format import ObjectFormat

    from covalt_git.git_store.object_reader import ObjectReader
    from covalt_git.git_store.pack_file import PackFile

TEMPORARY = "tmp_"
"""Start of the names of files that are being written, which git ignores and prunes, too."""

_LEVEL = 1
"""zlib's level: higher ones take several times as long and save a tenth."""

_LISTED = 64
"""Entries of a pack's index that are listed in the time in which one object is read by itself."""


class PackEncoder:
    """Encoder that returns the bytes of a pack in parts, and collects the index of its entries.

    Attributes:
        entries: the offset and CRC-32 of each entry by its raw object id.
    """

    def __init__(self, object_format: ObjectFormat) -> None:
        self.entries: dict[bytes, tuple[int, int]] = {}
        self._format = object_format
        self._hasher = object_format.new_hash()
        self._end = 0

    def header(self, count: int) -> bytes:
        """Return the start of a pack of ``count`` objects."""
        return self._append(b"".join(pack_header_chunks(count)))

    def undeltified(self, oid: bytes, kind: bytes, content: bytes) -> bytes:
        """Return the entry of an object that is not a delta."""
        return self.entry(oid, KINDS.index(kind), len(content), zlib.compress(content, _LEVEL))

    def delta(self, oid: bytes, delta: bytes, base: bytes) -> bytes:
        """Return the entry of a delta; its base must be encoded already."""
        return self.entry(oid, OFS_DELTA, len(delta), zlib.compress(delta, _LEVEL), base)

    def entry(
        self, oid: bytes, kind: int, size: int, compressed: bytes, base: bytes | None = None
    ) -> bytes:
        """Return the entry of an object, or of a delta: ``compressed`` has ``size`` bytes after inflating."""
        distance = None if base is None else self._end - self.entries[base][0]
        kind = kind if base is None else OFS_DELTA
        content = bytes(pack_object_header(kind, distance, size, self._format)) + compressed
        self.entries[oid] = self._end, zlib.crc32(content)
        return self._append(content)

    def trailer(self) -> bytes:
        """Return the checksum, with which a pack ends."""
        return self._hasher.digest()

    def _append(self, content: bytes) -> bytes:
        self._hasher.update(content)
        self._end += len(content)
        return content


def write_pack(
    folder: Path,
    object_format: ObjectFormat,
    entries: Callable[[PackEncoder], Iterable[bytes]],
    *,
    durable: bool,
) -> Path:
    """Write a pack with its index to a folder of packs, with an fsync of each if ``durable``; return its path.

    ``entries`` returns the parts of the pack that the encoder returned to it, all but the trailer.
    """
    folder.mkdir(exist_ok=True)
    encoder = PackEncoder(object_format)
    with _temporary_file(folder, "pack") as pack, _temporary_file(folder, "idx") as index:
        pack.writelines(entries(encoder))
        checksum = encoder.trailer()
        pack.write(checksum)
        rows = sorted((oid, offset, crc) for oid, (offset, crc) in encoder.entries.items())
        write_pack_index(index, rows, checksum)
        for file in (pack, index):
            file.flush()
            os.fchmod(file.fileno(), 0o444)
            if durable:
                os.fsync(file.fileno())
        path = folder / f"pack-{checksum.hex()}.pack"
        Path(index.name).rename(path.with_suffix(".idx"))
        Path(pack.name).rename(path)
    if durable:
        fsync(folder)
    return path


@contextlib.contextmanager
def _temporary_file(folder: Path, kind: str) -> Iterator[IO[bytes]]:
    path = folder / f"{TEMPORARY}{kind}_{new_id()}"
    try:
        with path.open("xb") as file:
            yield file
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def pack_stream(reader: ObjectReader, ids: Iterable[str]) -> Iterator[bytes]:
    """Yield a pack of some objects.

    Raises:
        BrokenStoreError: when an object is missing or damaged.
    """
    encoder = PackEncoder(reader.format)
    yield from _entries(reader, ids, encoder)
    yield encoder.trailer()


def store_pack(reader: ObjectReader, ids: Iterable[str], folder: Path, *, durable: bool) -> None:
    """Write a pack of some objects with its index to a folder of packs, durably if ``durable``.

    Raises:
        BrokenStoreError: when an object is missing or damaged.
    """
    write_pack(folder, reader.format, partial(_entries, reader, ids), durable=durable)


def _entries(reader: ObjectReader, ids: Iterable[str], encoder: PackEncoder) -> Iterator[bytes]:
    """Yield a pack of some objects without its trailer."""
    left = dict.fromkeys(map(bytes.fromhex, ids))
    yield encoder.header(len(left))
    for pack in reader.packs:
        with (
            damage_of(f"in {pack.path.name}", reader.path),
            # If gc has removed the pack, its objects are read one by one below.
            contextlib.suppress(FileNotFoundError),
        ):
            yield from _packed(pack, left, reader, encoder)
    for oid in left:
        yield encoder.undeltified(oid, *reader.read_object(oid.hex()))


def _packed(
    pack: PackFile, left: dict[bytes, None], reader: ObjectReader, encoder: PackEncoder
) -> Iterator[bytes]:
    """Yield the entries of one pack whose ids are in ``left``, and remove the ids from ``left``."""
    if len(pack.index) > _LISTED * len(left):
        return
    rows = pack.entries()
    ids = {offset: oid for offset, oid, _, _ in rows}
    chosen = [row for row in rows if row[1] in left]
    here = {oid for _, oid, _, _ in chosen}
    waiting = deque(chosen)
    deferred = 0
    while waiting:
        offset, oid, crc, end = row = waiting.popleft()
        stored = pack.stored(offset, end)
        if zlib.crc32(stored) != crc:
            raise DamagedObjectError(f"its entry of {oid.hex()} does not match the index")
        kind, size, base, length = entry_header(stored, pack.format.oid_length)
        base = ids[offset - base] if isinstance(base, int) else base
        # A base may have a higher offset, as in a thin pack that was completed.
        if base in here and base not in encoder.entries and deferred < len(waiting):
            waiting.append(row)
            deferred += 1
            continue
        deferred = 0
        del left[oid]
        if base is None or base in encoder.entries:
            yield encoder.entry(oid, kind, size, stored[length:], base)
        else:
            yield encoder.undeltified(oid, *reader.read_object(oid.hex()))
