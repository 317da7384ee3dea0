"""Stream of a pack of given objects, which copies the compressed entries of existing packs.

Used for clone, fetch, export, import and push.  A delta is copied if its base is in
the stream before it; every other object is sent whole.  Format: ``gitformat-pack(5)``.
"""

from __future__ import annotations

import contextlib
import io
import zlib
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from dulwich.pack import PackFileDisappeared

from covalt_git.git_store.object_reader import ObjectReader, damage_of
from covalt_git.git_store.objects import DamagedObjectError
from covalt_git.git_store.pack_entries import entry_header
from covalt_git.git_store.pack_writer import PackEncoder, PackWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dulwich.object_store import DiskObjectStore
    from dulwich.pack import Pack

    ReadObject: TypeAlias = Callable[[str], tuple[bytes, bytes]]

_LISTED = 64
"""Entries of a pack's index that are listed in the time in which one object is read by itself."""


def pack_stream(
    objects: DiskObjectStore,
    ids: Iterable[str],
    *,
    read: ReadObject | None = None,
) -> Iterator[bytes]:
    """Yield a pack of some objects.

    ``read`` returns the kind and content of an object, by default from ``objects``.

    Raises:
        BrokenStoreError: when an object is missing or damaged.
    """
    encoder = PackEncoder(objects.object_format)
    yield from _entries(objects, ids, read or ObjectReader(objects).read_object, encoder)
    yield encoder.trailer()


def store_pack(
    objects: DiskObjectStore,
    ids: Iterable[str],
    folder: Path,
    *,
    read: ReadObject | None = None,
    durable: bool,
) -> None:
    """Write a pack of some objects with its index to a folder of packs, durably if ``durable``.

    Raises:
        BrokenStoreError: when an object is missing or damaged.
    """
    with PackWriter(folder, objects.object_format) as writer:
        read = read or ObjectReader(objects).read_object
        writer.write(_entries(objects, ids, read, writer.encoder))
        writer.finish(durable=durable)


def _entries(
    objects: DiskObjectStore, ids: Iterable[str], read: ReadObject, encoder: PackEncoder
) -> Iterator[bytes]:
    """Yield a pack of some objects without its trailer."""
    left = dict.fromkeys(map(bytes.fromhex, ids))
    yield encoder.header(len(left))
    for pack in objects.packs:
        with (
            damage_of(f"in {pack!r}", Path(objects.path).parent),
            # If gc has removed the pack, its objects are read one by one below.
            contextlib.suppress(FileNotFoundError, PackFileDisappeared),
        ):
            yield from _packed(pack, left, read, encoder)
    for oid in left:
        yield encoder.whole(oid, *read(oid.hex()))


def _packed(
    pack: Pack, left: dict[bytes, None], read: ReadObject, encoder: PackEncoder
) -> Iterator[bytes]:
    """Yield the entries of one pack that are ``left``, and remove them from there."""
    if len(pack) > _LISTED * len(left):
        return
    rows = sorted((offset, oid, crc) for oid, offset, crc in pack.index.iterentries())
    with Path(pack.data.path).open("rb") as file:
        id_length = pack.object_format.oid_length
        ends = [offset for offset, _, _ in rows[1:]] + [file.seek(0, io.SEEK_END) - id_length]
        ids = {offset: oid for offset, oid, _ in rows}
        chosen = [(*row, end) for row, end in zip(rows, ends, strict=True) if row[1] in left]
        here = {oid for _, oid, _, _ in chosen}
        waiting = deque(chosen)
        deferred = 0
        while waiting:
            offset, oid, crc, end = row = waiting.popleft()
            file.seek(offset)
            stored = file.read(end - offset)
            if crc is not None and zlib.crc32(stored) != crc:
                raise DamagedObjectError(f"its entry of {oid.hex()} does not match the index")
            kind, size, base, length = entry_header(stored, id_length)
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
                yield encoder.whole(oid, *read(oid.hex()))
