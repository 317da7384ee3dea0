"""Stream of a pack of given objects, which copies the compressed entries of existing packs.

Used for clone, fetch, export, import and push.  A delta is copied if its base is in
the stream before it; every other object is sent whole.  Format: ``gitformat-pack(5)``.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from dulwich.pack import PackFileDisappeared

from covalt_git.git_store.object_reader import ObjectReader, damage_of
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
    encoder: PackEncoder | None = None,
) -> Iterator[bytes]:
    """Yield a pack of some objects, and leave its index in ``encoder``.

    ``read`` returns the kind and content of an object, by default from ``objects``.

    Raises:
        BrokenStoreError: when an object is missing or damaged.
    """
    encoder = encoder or PackEncoder(objects.object_format)
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
        with damage_of(f"in {pack!r}", Path(objects.path).parent):
            yield from _packed(pack, left, read, encoder)
    for oid in left:
        yield encoder.whole(oid, *read(oid.hex()))


def _packed(
    pack: Pack, left: dict[bytes, None], read: ReadObject, encoder: PackEncoder
) -> Iterator[bytes]:
    """Yield the entries of one pack that are ``left``, and remove them from there."""
    try:
        if len(pack) > _LISTED * len(left):
            return
        ids = {offset: oid for oid, offset, _ in pack.index.iterentries()}
        data = pack.data
    except (FileNotFoundError, PackFileDisappeared):
        return  # gc has replaced it: the caller reads its objects one by one
    todo = deque(offset for offset in sorted(ids) if ids[offset] in left)
    here = {ids[offset] for offset in todo}
    deferred = 0
    while todo:
        offset = todo.popleft()
        found = data.get_unpacked_object_at(offset, include_comp=True)
        base = found.delta_base
        base = ids[offset - base] if isinstance(base, int) else base
        # A base may have a higher offset, as in a thin pack that was completed.
        if base in here and base not in encoder.entries and deferred < len(todo):
            todo.append(offset)
            deferred += 1
            continue
        deferred = 0
        oid = ids[offset]
        del left[oid]
        if base is not None and base not in encoder.entries:
            yield encoder.whole(oid, *read(oid.hex()))
            continue
        assert found.decomp_len is not None
        compressed = b"".join(found.comp_chunks or ())
        yield encoder.entry(oid, found.pack_type_num, found.decomp_len, compressed, base)
