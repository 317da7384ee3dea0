"""Fewer and smaller packs: what single commits stored is written anew, as deltas of what it replaced.

A new pack is durable before the first of the old ones is removed, so that whoever is killed, or reads
meanwhile, finds every object in one of them.  Only the holder of the chat's lock may call this.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dulwich.objects import ObjectID
from dulwich.pack import DELTA_TYPES, create_delta

from covalt_git.git_store.objects import (
    FOLDER,
    KINDS,
    DamagedObjectError,
    decode_commit,
    object_id,
    tree_differences,
)
from covalt_git.git_store.pack_store import PackWriter, remove_packs

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Iterable,
        Iterator,
        Mapping,
    )
    from collections.abc import (
        Set as AbstractSet,
    )
    from pathlib import Path

    from covalt_git.git_store.pack_store import PackStore

MOST_PACKS = 24
"""Small packs that a store may have; each costs a search when an object is read."""

SMALL = 4 << 20
"""Bytes below which a pack is small."""

_TOGETHER = 16 << 20
_LARGEST_DELTA = 1 << 20
_LONGEST_CHAIN = 20
_MOST_UNLIKE = 16 << 10
_LARGE = 64 << 10
_MOST_CONTENTS = 4096
_STEP = 64
_COMMIT = 1


@dataclass(frozen=True, slots=True)
class Usage:
    """What a store takes: bytes of its files, objects, and how many packs they lie in."""

    size: int
    objects: int
    packs: int


def usage(store: PackStore) -> Usage:
    """Return what the objects of a store take."""
    files = [path for path in store.pack_folder.parent.rglob("*") if path.is_file()]
    packs = store.open_packs()
    return Usage(
        size=sum(path.stat().st_size for path in files),
        objects=sum(map(len, packs.values())) + store.count_loose_objects(),
        packs=len(packs),
    )


def combine(store: PackStore, most: int) -> None:
    """Combine small packs into one where a store has more than ``most`` of them.

    The smallest are taken, and a larger one only if there is half as much beside it, so that nothing is
    copied often (as ``git repack --geometric`` does it), and at most 16 MiB.
    """
    store.refresh()
    if store.pack_count <= most:
        return
    sizes = {path: path.stat().st_size for path in store.open_packs()}
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
        _replace(store, small[:chosen], loose=False, keep=None)


def rewrite(store: PackStore, live: AbstractSet[str], *, until: float) -> None:
    """Write one pack of all objects that are ``live``, or in files younger than ``until``; remove the rest.

    ``until`` is in seconds since 1970.  Packs that git was told to keep stay.
    """
    _replace(
        store, list(store.open_packs()), loose=True, keep=lambda oid, at: oid in live or at >= until
    )


def _replace(
    store: PackStore,
    paths: Collection[Path],
    *,
    loose: bool,
    keep: Callable[[str, float], bool] | None,
) -> None:
    """Replace packs, and ``loose`` objects, by one pack of those of their objects that are to be kept.

    ``keep`` is called with an object's id and when its file was written.
    """
    packs = store.open_packs()
    found: dict[str, float] = {}
    for path in sorted(paths, key=lambda path: path.stat().st_mtime_ns):
        written = path.stat().st_mtime
        for oid in map(bytes.decode, packs[path]):
            found[oid] = max(written, found.get(oid, 0))
    files = {path.parent.name + path.name: path for path in _loose(store)} if loose else {}
    for oid, path in files.items():
        found[oid] = max(path.stat().st_mtime, found.get(oid, 0))
    oids = [oid for oid, written in found.items() if keep is None or keep(oid, written)]
    made = None
    if oids:
        with PackWriter(store.pack_folder, store.object_format, len(oids)) as writer:
            _Repacking(store, writer, oids).run()
            made = writer.finish(durable=True)  # even in a store that is not: the old ones go
    remove_packs(store.pack_folder, [path for path in paths if path != made])
    for path in files.values():
        path.unlink(missing_ok=True)
    store.refresh()


def _loose(store: PackStore) -> Iterator[Path]:
    return store.pack_folder.parent.glob("[0-9a-f][0-9a-f]/" + "[0-9a-f]" * 38 + "*")


class _Repacking:
    """Objects on their way into a new pack, in the order of the history."""

    def __init__(self, store: PackStore, writer: PackWriter, oids: Iterable[str]) -> None:
        self._store = store
        self._writer = writer
        self._left = dict.fromkeys(oids)
        self._depths: dict[str, int] = {}
        self._contents: dict[str, tuple[int, bytes]] = {}

    def run(self) -> None:
        """Write all of them: a commit after its parents and after its tree, and a tree after its files."""
        commits = {}
        for oid in self._left:
            kind, content = self._read(oid)
            if kind == _COMMIT:
                commits[oid] = decode_commit(content)
        for oid in parents_first({oid: commit.parents for oid, commit in commits.items()}):
            commit = commits[oid]
            before = self._find(commit.parents[0]) if commit.parents else None
            self._add_tree(commit.tree, decode_commit(before[1]).tree if before else None)
            self._add(oid, None)
        for oid in list(self._left):
            self._add(oid, None)

    def _add_tree(self, oid: str, base: str | None) -> None:
        """Add a tree after what is in it; ``base`` is what the parent commit has in its place."""
        if oid not in self._left:
            return
        found = None if base is None else self._find(base)
        before = b"" if found is None else found[1]
        length = self._store.object_format.oid_length
        for _, was, now in tree_differences(before, self._read(oid)[1], length):
            if now is not None and now.oid in self._left:
                add = self._add_tree if now.mode == FOLDER else self._add
                add(now.oid, was.oid if was is not None and was.mode == now.mode else None)
        self._add(oid, base)

    def _add(self, oid: str, base: str | None) -> None:
        """Add an object, as a delta of ``base`` where that was added and is like it."""
        if oid not in self._left:
            return
        del self._left[oid]
        raw = bytes.fromhex(oid)
        kind, content = self._read(oid)
        depth = self._depths.get(base or "", 0) + 1
        if (
            base is not None
            and bytes.fromhex(base) in self._writer.entries
            and depth <= _LONGEST_CHAIN
        ):
            change = _delta(self._read(base)[1], content)
            if change is not None:
                self._depths[oid] = depth
                self._writer.add(raw, kind, change, base=bytes.fromhex(base))
                return
        if len(content) > _LARGE and self._store.is_packed(oid):
            entry = self._store.get_unpacked_object(ObjectID(oid.encode()), include_comp=True)
            if entry.pack_type_num not in DELTA_TYPES:  # its compressed bytes serve as they are
                self._writer.add_compressed(
                    raw, kind, len(content), b"".join(entry.comp_chunks or ())
                )
                return
        self._writer.add(raw, kind, content)

    def _find(self, oid: str) -> tuple[int, bytes] | None:
        with contextlib.suppress(KeyError):  # a history that git cut off, or a damaged one
            return self._read(oid)
        return None

    def _read(self, oid: str) -> tuple[int, bytes]:
        """Return the kind and content of an object; most are asked for several times."""
        if oid in self._contents:
            return self._contents[oid]
        kind, content = self._store.get_raw(ObjectID(oid.encode()))
        content = bytes(content)
        if object_id(KINDS[kind], content, self._store.object_format.name) != oid:
            raise DamagedObjectError(f"{oid} is another object")
        if len(content) <= _LARGE:
            self._contents[oid] = kind, content
            if len(self._contents) > _MOST_CONTENTS:
                del self._contents[next(iter(self._contents))]
        return kind, content


def _delta(base: bytes, content: bytes) -> bytes | None:
    """Return what makes ``content`` of ``base``; None where they are not alike.

    Dulwich's time grows with the square of what differs (11 ms for 4 KiB), so much may not.
    """
    shared = _shared(base, content)
    longest = max(len(base), len(content))
    if 2 * shared <= len(content) or longest - shared > _MOST_UNLIKE or longest > _LARGEST_DELTA:
        return None
    change = b"".join(create_delta(base, content))
    return change if 2 * len(change) < len(content) else None


def _shared(base: bytes, content: bytes) -> int:
    """Return how many bytes two contents share at their beginning and end, counted in steps."""
    most = min(len(base), len(content)) // _STEP * _STEP
    start = next(
        (at for at in range(0, most, _STEP) if base[at : at + _STEP] != content[at : at + _STEP]),
        most,
    )
    base, content = base[::-1], content[::-1]
    most -= start
    end = next(
        (at for at in range(0, most, _STEP) if base[at : at + _STEP] != content[at : at + _STEP]),
        most,
    )
    return start + end


def parents_first(parents: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Yield commits, each after those of its parents that are among them."""
    done: set[str] = set()
    for start in parents:
        line = [start]
        while line:
            above = [one for one in parents[line[-1]] if one in parents and one not in done]
            if above:
                line += above
            elif (oid := line.pop()) not in done:
                done.add(oid)
                yield oid
