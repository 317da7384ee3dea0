"""Stream of a pack of given objects, which copies the compressed entries of existing packs.

Used for clone, fetch, export, import and push.  A delta is copied if its base is in
the stream before it; every other object is sent whole.  Format: ``gitformat-pack(5)``.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from dulwich.pack import (
    OFS_DELTA,
    PackFileDisappeared,
    pack_header_chunks,
    pack_object_header,
    write_pack_index,
)

from covalt_git.git_store.object_reader import ObjectReader, damage_of
from covalt_git.git_store.objects import KINDS
from covalt_git.names import new_id
from covalt_git.system.atomic_write import fsync

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
    index: list[tuple[bytes, int, int]] | None = None,
) -> Iterator[bytes]:
    """Yield a pack of some objects.

    ``read`` returns the kind and content of an object, by default from ``objects``.  The raw id,
    offset and CRC-32 of each entry are appended to ``index``, unsorted.

    Raises:
        BrokenStoreError: when an object is missing or damaged.
    """
    read = read or ObjectReader(objects).read_object
    stream = _PackStream(objects, read, [] if index is None else index)
    left = dict.fromkeys(map(bytes.fromhex, ids))
    yield stream.append(b"".join(pack_header_chunks(len(left))))
    for pack in objects.packs:
        with damage_of(f"in {pack!r}", Path(objects.path).parent):
            yield from stream.packed(pack, left)
    for oid in left:
        yield stream.whole(oid)
    yield stream.hasher.digest()


def store_pack(
    objects: DiskObjectStore,
    ids: Iterable[str],
    folder: Path,
    *,
    read: ReadObject | None = None,
    durable: bool,
) -> None:
    """Write a pack of some objects with its index to a folder of packs, durably if ``durable``.

    Both are written under names that git ignores and prunes; the pack is renamed last.

    Raises:
        BrokenStoreError: when an object is missing or damaged.
    """
    name = new_id()
    pack, index = folder / f"tmp_pack_{name}", folder / f"tmp_idx_{name}"
    rows: list[tuple[bytes, int, int]] = []
    folder.mkdir(exist_ok=True)
    try:
        with pack.open("wb") as file:
            checksum = b""
            for checksum in pack_stream(objects, ids, read=read, index=rows):
                file.write(checksum)
        with index.open("wb") as file:
            write_pack_index(file, sorted(rows), checksum)
        for path in (pack, index):
            path.chmod(0o444)
            if durable:
                fsync(path)
        for path, suffix in ((index, "idx"), (pack, "pack")):
            path.rename(folder / f"pack-{checksum.hex()}.{suffix}")
    finally:
        pack.unlink(missing_ok=True)
        index.unlink(missing_ok=True)
    if durable:
        fsync(folder)


class _PackStream:
    """Position, checksum and index of a pack that is being sent."""

    def __init__(
        self, objects: DiskObjectStore, read: ReadObject, index: list[tuple[bytes, int, int]]
    ) -> None:
        self.hasher = hashlib.new(objects.object_format.name, usedforsecurity=False)
        self._format = objects.object_format
        self._read = read
        self._index = index
        self._offsets: dict[bytes, int] = {}
        self._end = 0

    def append(self, content: bytes) -> bytes:
        """Return the next bytes of the pack."""
        self.hasher.update(content)
        self._end += len(content)
        return content

    def entry(
        self, oid: bytes, kind: int, size: int, compressed: bytes, base: int | None = None
    ) -> bytes:
        """Return an object as the next entry; ``base`` is the distance to that of a delta."""
        content = bytes(pack_object_header(kind, base, size, self._format)) + compressed
        self._offsets[oid] = self._end
        self._index.append((oid, self._end, zlib.crc32(content)))
        return self.append(content)

    def whole(self, oid: bytes) -> bytes:
        """Return an object as the next entry, not as a delta."""
        kind, content = self._read(oid.hex())
        return self.entry(oid, KINDS.index(kind), len(content), zlib.compress(content, 1))

    def packed(self, pack: Pack, left: dict[bytes, None]) -> Iterator[bytes]:
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
            if base in here and base not in self._offsets and deferred < len(todo):
                todo.append(offset)
                deferred += 1
                continue
            deferred = 0
            oid = ids[offset]
            del left[oid]
            if base is not None and base not in self._offsets:
                yield self.whole(oid)
                continue
            kind, back = found.pack_type_num, None
            if base is not None:
                kind, back = OFS_DELTA, self._end - self._offsets[base]
            assert found.decomp_len is not None
            compressed = b"".join(found.comp_chunks or ())
            yield self.entry(oid, kind, found.decomp_len, compressed, back)
