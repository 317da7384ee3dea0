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
from covalt_git.git_store.object_reader import damage_of
from covalt_git.git_store.objects import (
    FOLDER,
    KINDS,
    DamagedObjectError,
    decode_commit,
    object_id,
    tree_differences,
)
from covalt_git.git_store.pack_writer import write_pack

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from collections.abc import Set as AbstractSet
    from pathlib import Path

    from covalt_git.git_store.object_reader import ObjectReader
    from covalt_git.git_store.pack_file import PackFile
    from covalt_git.git_store.pack_writer import PackEncoder

MOST_PACKS = 24
"""Number of small packs that a store may have; each is searched when an object is read."""

SMALL = 4 << 20
"""Bytes below which a pack is small."""

_SUFFIXES = (".pack", ".idx", ".rev", ".bitmap", ".mtimes")
_PROTECTED_BY_GIT = (".keep", ".promisor")
_TOGETHER = 16 << 20
_LARGEST_DELTA = 1 << 20
_LONGEST_CHAIN = 20
_MOST_UNLIKE = 16 << 10
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
        packed = sum(len(pack.index) for pack in packs.values())
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


def _replaceable_packs(store: ObjectReader) -> dict[Path, PackFile]:
    """Return the packs without a ``.keep`` or ``.promisor`` file by their paths."""
    return {
        pack.path: pack
        for pack in store.packs
        if not any(pack.path.with_suffix(suffix).exists() for suffix in _PROTECTED_BY_GIT)
    }


def combine(store: ObjectReader, *, most: int = MOST_PACKS) -> None:
    """Combine small packs into one if a store has more than ``most`` packs.

    The smallest packs are combined, up to 16 MiB in total.  The next larger pack is included only if the packs
    before it have together at least half its size, so that no object is copied often (as in ``git repack
    --geometric``).
    """
    if len(store.packs) <= most:
        return
    sizes = {path: path.stat().st_size for path in _replaceable_packs(store)}
    small = sorted((path for path in sizes if sizes[path] < SMALL), key=sizes.__getitem__)
    if len(small) <= max(most, 1):
        return
    chosen, total = 0, 0
    for number, path in enumerate(small, start=1):
        total += sizes[path]
        if total > _TOGETHER:
            break
        if 3 * sizes[path] <= 2 * total or number <= len(small) // 2:
            chosen = number
    if chosen > 1:
        _replace(store, small[:chosen], {}, lambda *_: True)


def rewrite(store: ObjectReader, live: AbstractSet[str], *, until: float) -> None:
    """Write one pack of all objects that are ``live`` or in files newer than ``until``; remove all others.

    ``until`` is in seconds since 1970.  Packs with a ``.keep`` file stay.
    """
    loose = store.loose_objects()
    _replace(
        store, list(_replaceable_packs(store)), loose, lambda oid, at: oid in live or at >= until
    )


def _replace(
    store: ObjectReader,
    paths: Collection[Path],
    loose: Mapping[str, Path],
    keep: Callable[[str, float], bool],
) -> None:
    """Replace packs and ``loose`` objects by one pack of the objects that ``keep`` selects.

    ``keep`` is called with the id of an object and the time at which its file was written.
    """
    packs = _replaceable_packs(store)
    found: dict[str, float] = {}
    made = None
    with damage_of("of a pack", store.path):
        for path in sorted(paths, key=lambda path: path.stat().st_mtime_ns):
            found |= dict.fromkeys(map(bytes.decode, packs[path].index), path.stat().st_mtime)
        for oid, path in loose.items():
            found[oid] = max(path.stat().st_mtime, found.get(oid, 0))
        if oids := [oid for oid, written in found.items() if keep(oid, written)]:
            # Durable also if the store does not fsync, because the old packs are deleted.
            made = write_pack(
                store.pack_folder,
                store.format,
                lambda encoder: _Repacking(store, encoder, oids).run(),
                durable=True,
            )
        # A multi-pack-index would name removed packs; git writes a new one.
        (store.pack_folder / "multi-pack-index").unlink(missing_ok=True)
        for path in paths:
            # The index last: an index without its pack is ignored, and deleted.
            for suffix in _SUFFIXES if path != made else ():
                path.with_suffix(suffix).unlink(missing_ok=True)
        for path in loose.values():
            path.unlink(missing_ok=True)
    store.refresh()


class _Repacking:
    """Encoder of objects as a new pack, in the order of the history."""

    def __init__(self, store: ObjectReader, encoder: PackEncoder, oids: Iterable[str]) -> None:
        self._store = store
        self._encoder = encoder
        self._left = dict.fromkeys(oids)
        self._depths: dict[str, int] = {}
        self._cache = LRUSizeCache[str, tuple[bytes, bytes]](
            _CACHE_BYTES, compute_size=lambda found: len(found[1])
        )

    def run(self) -> Iterator[bytes]:
        """Yield the pack: a commit after its parents and after its tree, and a tree after its files."""
        yield self._encoder.header(len(self._left))
        objects = ((oid, *self._read(oid)) for oid in self._left)
        commits = {
            oid: decode_commit(content) for oid, kind, content in objects if kind == b"commit"
        }
        for oid in parents_first({oid: commits[oid].parents for oid in commits}):
            commit = commits[oid]
            before = self._find(commit.parents[0]) if commit.parents else None
            yield from self._tree(commit.tree, decode_commit(before).tree if before else None)
            yield from self._object(oid, None)
        for oid in list(self._left):
            yield from self._object(oid, None)

    def _tree(self, oid: str, base: str | None) -> Iterator[bytes]:
        """Yield a tree after its entries; ``base`` is the tree at the same path in the parent commit."""
        if oid not in self._left:
            return
        before = b"" if base is None else self._find(base)
        length = self._store.format.oid_length
        for _, was, now in tree_differences(before, self._read(oid)[1], length):
            if now is not None and now.oid in self._left:
                entries = self._tree if now.mode == FOLDER else self._object
                yield from entries(
                    now.oid, was.oid if was is not None and was.mode == now.mode else None
                )
        yield from self._object(oid, base)

    def _object(self, oid: str, base: str | None) -> Iterator[bytes]:
        """Yield the entry of an object: a delta if ``base`` was already yielded and is similar."""
        if oid not in self._left:
            return
        del self._left[oid]
        raw = bytes.fromhex(oid)
        kind, content = self._read(oid)
        depth = self._depths.get(base or "", 0) + 1
        if base and bytes.fromhex(base) in self._encoder.entries and depth <= _LONGEST_CHAIN:
            delta = _delta(self._read(base)[1], content)
            if delta is not None:
                self._depths[oid] = depth
                yield self._encoder.delta(raw, delta, bytes.fromhex(base))
                return
        if len(content) > _LARGE and (found := self._store.find_packed(oid)):
            pack, offset = found
            if compressed := pack.compressed(offset):  # the compressed bytes are copied unchanged
                yield self._encoder.entry(raw, KINDS.index(kind), len(content), compressed)
                return
        yield self._encoder.undeltified(raw, kind, content)

    def _find(self, oid: str) -> bytes:
        """Return the content of an object; nothing if a shallow or damaged history lacks it."""
        with contextlib.suppress(KeyError):
            return self._read(oid)[1]
        return b""

    def _read(self, oid: str) -> tuple[bytes, bytes]:
        """Return the kind and content of an object; cached, because most objects are read several times."""
        if oid not in self._cache:
            kind, content = self._store.find_object(oid)
            if object_id(kind, content, self._store.object_format) != oid:
                raise DamagedObjectError(f"the content of {oid} does not match its id")
            if len(content) > _LARGE:
                return kind, content
            self._cache[oid] = kind, content
        return self._cache[oid]


def _delta(base: bytes, content: bytes) -> bytes | None:
    """Return the delta from ``base`` to ``content``; None if they share too little.

    Dulwich's time grows with the square of the difference (11 ms for 4 KiB), so larger differences are refused.
    """
    shared = _shared(base, content)
    longest = max(len(base), len(content))
    if 2 * shared <= len(content) or longest - shared > _MOST_UNLIKE or longest > _LARGEST_DELTA:
        return None
    change = b"".join(create_delta(base, content))
    return change if 2 * len(change) < len(content) else None


def _shared(base: bytes, content: bytes) -> int:
    """Return how many bytes two contents share at their beginning and end, in steps of 64 bytes."""
    most = min(len(base), len(content)) // _STEP * _STEP
    start = _shared_start(base, content, most)
    return start + _shared_start(base[::-1], content[::-1], most - start)


def _shared_start(one: bytes, other: bytes, most: int) -> int:
    steps = range(0, most, _STEP)
    return next((at for at in steps if one[at : at + _STEP] != other[at : at + _STEP]), most)
