"""Repacking: objects of several packs are written as one pack, with deltas between versions of a path.

The new pack is durable before the first old one is removed, so that readers find every object at any
time, and a killed process loses none.  If an object or a pack is damaged, ``BrokenStoreError`` is raised and
nothing is removed.  Only the holder of the chat's lock may call this.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

from dulwich.lru_cache import LRUSizeCache
from dulwich.pack import create_delta

from covalt_git.git_store.graph import parents_first
from covalt_git.git_store.object_reader import damage_of, tree_differences
from covalt_git.git_store.objects import FILE, FOLDER, KINDS, decode_commit
from covalt_git.git_store.packs import PackEntry, new_entry, write_pack

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from covalt_git.git_store.object_reader import ObjectReader
    from covalt_git.git_store.packs import PackFile

MOST_PACKS = 24
"""Number of small packs that a store may have; each is searched when an object is read."""

SMALL = 4 << 20
"""Bytes below which a pack is small."""

_SUFFIXES = (".pack", ".idx", ".rev", ".bitmap", ".mtimes")
_PROTECTED_BY_GIT = (".keep", ".promisor")
# Packs are combined after a call, under the chat's lock: the next call waits for it.
_TOGETHER = 16 << 20
_LARGEST_DELTA = 1 << 20
_LONGEST_CHAIN = 20  # reading an object applies the deltas of its chain
_MOST_UNLIKE = 16 << 10
# Content of this size is copied as its pack has it compressed, and not cached: it would push out the trees, which are
# read many times.
_LARGE = 64 << 10
_CACHE_BYTES = 32 << 20
_STEP = 64


class ObjectUsage(NamedTuple):
    """Usage of a store: bytes of its files, number of objects and of packs."""

    size: int
    objects: int
    packs: int


def usage(store: ObjectReader) -> ObjectUsage:
    """Return the usage of a store."""
    files = [path for path in store.folder.rglob("*") if path.is_file()]
    packs = _replaceable_packs(store)
    with damage_of("of a pack", store.path):
        packed = sum(len(pack.index) for pack in packs)
    return ObjectUsage(
        size=sum(path.stat().st_size for path in files),
        objects=packed + len(store.loose_objects()),
        packs=len(packs),
    )


def pack_bytes(store: ObjectReader) -> int:
    """Return the bytes of the packs of a store, which have nearly all objects of a chat."""
    with contextlib.suppress(FileNotFoundError):  # another process removed a pack
        return sum(path.stat().st_size for path in store.pack_folder.glob("*.pack"))
    return pack_bytes(store)


def stored_sizes(store: ObjectReader) -> dict[str, int]:
    """Return the stored bytes of each object by its id: in a pack, or as a loose file."""
    sizes = {oid: path.stat().st_size for oid, path in store.loose_objects().items()}
    for pack in store.packs:
        sizes |= {oid.hex(): end - offset for offset, oid, _, end in pack.entries()}
    return sizes


def _replaceable_packs(store: ObjectReader) -> list[PackFile]:
    """Return the packs without a ``.keep`` or ``.promisor`` file."""
    return [
        pack
        for pack in store.packs
        if not any(pack.path.with_suffix(suffix).exists() for suffix in _PROTECTED_BY_GIT)
    ]


def combine(store: ObjectReader, *, most: int = MOST_PACKS) -> None:
    """Combine small packs into one if a store has more than ``most`` packs.

    The smallest packs are combined, up to 16 MiB in total.  The next larger pack is included only if the packs
    before it have together at least half its size, so that no object is copied often (as in ``git repack
    --geometric``).
    """
    if len(store.packs) <= most:
        return
    sizes = {pack: pack.path.stat().st_size for pack in _replaceable_packs(store)}
    small = sorted((pack for pack in sizes if sizes[pack] < SMALL), key=sizes.__getitem__)
    if len(small) <= max(most, 1):
        return
    chosen, total = 0, 0
    for number, pack in enumerate(small, start=1):
        total += sizes[pack]
        if total > _TOGETHER:
            break
        if 3 * sizes[pack] <= 2 * total or number <= len(small) // 2:
            chosen = number
    if chosen > 1:
        with damage_of("of a pack", store.path):
            oids = dict.fromkeys(oid for pack in small[:chosen] for oid in pack.ids())
        _replace(store, oids, small[:chosen])


def rewrite(store: ObjectReader, live: AbstractSet[str], *, until: float) -> None:
    """Write one pack of all objects that are ``live`` or in files newer than ``until``; remove all others.

    ``until`` is in seconds since 1970.  Packs with a ``.keep`` file stay.
    """
    packs, loose = _replaceable_packs(store), store.loose_objects()
    oids: dict[str, None] = {}
    with damage_of("of a pack", store.path):
        files = [(pack.path, pack.ids()) for pack in packs]
        files += [(path, [oid]) for oid, path in loose.items()]
        for path, ids in files:
            # A git that does not take the lock stores objects before it moves a ref to them.
            is_young = path.stat().st_mtime >= until
            oids |= dict.fromkeys(oid for oid in ids if is_young or oid in live)
    _replace(store, oids, packs, loose.values())


def _replace(
    store: ObjectReader,
    oids: Collection[str],
    packs: Iterable[PackFile],
    loose: Iterable[Path] = (),
) -> None:
    """Replace packs and loose objects by one pack of some of their objects."""
    new = None
    if oids:
        # Durable also if the store does not fsync, because the old packs are deleted.
        entries = _Repacking(store, oids).entries()
        new = write_pack(store.pack_folder, store.format, entries, len(oids), durable=True)
    # A multi-pack-index would name removed packs; git writes a new one.
    (store.pack_folder / "multi-pack-index").unlink(missing_ok=True)
    for pack in packs:
        # The index last: an index without its pack is ignored, and deleted.  A pack is named by its checksum,
        # so the same objects in the same order make the old pack again, which has to stay then.
        for suffix in _SUFFIXES if pack.path != new else ():
            pack.path.with_suffix(suffix).unlink(missing_ok=True)
    for path in loose:
        path.unlink(missing_ok=True)
    store.refresh()


class _Repacking:
    """Encoder of objects as entries of a new pack, in the order of the history."""

    def __init__(self, store: ObjectReader, oids: Iterable[str]) -> None:
        self._store = store
        self._left = dict.fromkeys(oids)
        self._depths: dict[str, int] = {}  # of the encoded objects in their chains of deltas
        self._cache = LRUSizeCache[str, tuple[bytes, bytes]](
            _CACHE_BYTES, compute_size=lambda row: len(row[1])
        )

    def entries(self) -> Iterator[PackEntry]:
        """Yield the entries: a commit after its parents and after its tree, and a tree after its files."""
        with damage_of("of a pack", self._store.path):
            objects = ((oid, *self._read(oid)) for oid in self._left)
            commits = {
                oid: decode_commit(content) for oid, kind, content in objects if kind == b"commit"
            }
            for oid in parents_first({oid: commit.parents for oid, commit in commits.items()}):
                parent = self._find(next(iter(commits[oid].parents), None))
                base = decode_commit(parent).tree if parent else None
                yield from self._object(commits[oid].tree, base, FOLDER)
                yield from self._object(oid)
            for oid in list(self._left):
                yield from self._object(oid)

    def _object(self, oid: str, base: str | None = None, mode: int = FILE) -> Iterator[PackEntry]:
        """Yield the entry of an object, and before it those of a folder's new content.

        It is a delta if ``base``, the object at the same path in the parent commit, is similar and was yielded.
        """
        if oid not in self._left:
            return
        if mode == FOLDER:
            length = self._store.format.oid_length
            for _, old, new in tree_differences(self._find(base), self._read(oid)[1], length):
                if new is not None:
                    old_oid = old.oid if old is not None and old.mode == new.mode else None
                    yield from self._object(new.oid, old_oid, new.mode)
        del self._left[oid]
        kind, content = self._read(oid)
        # A base that was not yielded counts as the end of the longest chain, so that no delta starts from it:
        # the reader of the new pack would not find it.
        depth = self._depths.get(base or "", _LONGEST_CHAIN) + 1
        delta = None
        if base is not None and depth <= _LONGEST_CHAIN:
            delta = _delta(self._read(base)[1], content)
        self._depths[oid] = 0 if delta is None else depth
        if delta is not None:
            yield new_entry(oid, kind, delta, base)
        elif len(content) > _LARGE and (compressed := self._compressed(oid)):
            yield PackEntry(bytes.fromhex(oid), KINDS.index(kind), len(content), compressed)
        else:
            yield new_entry(oid, kind, content)

    def _compressed(self, oid: str) -> bytes | None:
        """Return the compressed content of an object, which is copied unchanged; None if it is not packed as such."""
        place = self._store.find_packed(oid)
        return place and place[0].compressed(place[1])

    def _find(self, oid: str | None) -> bytes:
        """Return the content of an object; empty if a shallow or damaged history lacks it."""
        if oid is None or not (oid in self._cache or self._store.has(oid)):
            return b""
        return self._read(oid)[1]

    def _read(self, oid: str) -> tuple[bytes, bytes]:
        """Return the kind and content of an object; cached, because most objects are read several times."""
        if oid in self._cache:
            return self._cache[oid]
        kind, content = self._store.read_object(oid)
        if len(content) <= _LARGE:
            self._cache[oid] = kind, content
        return kind, content


def _delta(base: bytes, content: bytes) -> bytes | None:
    """Return the delta from ``base`` to ``content``; None if they share too little.

    Dulwich's time grows with the square of the difference (11 ms for 4 KiB), so larger differences are refused.
    """
    shared = _shared(base, content)
    longest = max(len(base), len(content))
    if 2 * shared <= len(content) or longest - shared > _MOST_UNLIKE or longest > _LARGEST_DELTA:
        return None
    delta = b"".join(create_delta(base, content))
    return delta if 2 * len(delta) < len(content) else None


def _shared(base: bytes, content: bytes) -> int:
    """Return how many bytes two contents share at their beginning and end, in steps of 64 bytes."""
    most = min(len(base), len(content)) // _STEP * _STEP
    start = _shared_start(base, content, most)
    return start + _shared_start(base[::-1], content[::-1], most - start)


def _shared_start(base: bytes, content: bytes, most: int) -> int:
    steps = range(0, most, _STEP)
    return next((at for at in steps if base[at : at + _STEP] != content[at : at + _STEP]), most)
