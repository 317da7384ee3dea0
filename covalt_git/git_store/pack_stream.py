"""Stream of a pack of selected objects, which copies the compressed entries of existing packs.

Used for clone, fetch, export, import and push.  A delta is copied if its base precedes it in the stream;
every other object is sent completely.  Format: ``gitformat-pack(5)``.
"""

from __future__ import annotations

import contextlib
import zlib
from collections import deque
from typing import TYPE_CHECKING

from covalt_git.git_store.object_reader import damage_of
from covalt_git.git_store.objects import DamagedObjectError
from covalt_git.git_store.pack_entries import entry_header
from covalt_git.git_store.pack_writer import PackEncoder, PackWriter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from covalt_git.git_store.object_reader import ObjectReader
    from covalt_git.git_store.pack_file import PackFile

_LISTED = 64
"""Entries of a pack's index that are listed in the time in which one object is read by itself."""


def pack_stream(reader: ObjectReader, ids: Iterable[str]) -> Iterator[bytes]:
    """Yield a pack of some objects.

    Raises:
        BrokenStoreError: when an object is missing or damaged.
    """
    encoder = PackEncoder(reader.objects.object_format)
    yield from _entries(reader, ids, encoder)
    yield encoder.trailer()


def store_pack(reader: ObjectReader, ids: Iterable[str], folder: Path, *, durable: bool) -> None:
    """Write a pack of some objects with its index to a folder of packs, durably if ``durable``.

    Raises:
        BrokenStoreError: when an object is missing or damaged.
    """
    with PackWriter(folder, reader.objects.object_format) as writer:
        writer.write(_entries(reader, ids, writer.encoder))
        writer.finish(durable=durable)


def _entries(reader: ObjectReader, ids: Iterable[str], encoder: PackEncoder) -> Iterator[bytes]:
    """Yield a pack of some objects without its trailer."""
    left = dict.fromkeys(map(bytes.fromhex, ids))
    yield encoder.header(len(left))
    for pack in reader.objects.packs:
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
        kind, size, base, length = entry_header(stored, pack.id_length)
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
