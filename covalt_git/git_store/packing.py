"""Packing up: loose objects and the small packs of single snapshots become one pack.

Larger packs are copied as they stand.  What single snapshots stored is written anew, as deltas of
what the parent commit has at the same path, wherever that is in the new pack by then; so a file of
which one line changes costs some bytes a snapshot.  The new pack is on the disk before the first of
the old ones goes: whoever is killed, or reads meanwhile, finds every object in one of them.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.git_store.deltas import delta
from covalt_git.git_store.gathering import MANY
from covalt_git.git_store.objects import (
    DamagedObjectError,
    decode_commit,
    object_id,
    tree_differences,
)
from covalt_git.git_store.pack_writing import PackWriter, delta_entry, object_entry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.git_store.gathering import Objects
    from covalt_git.git_store.object_folder import ObjectFolder
    from covalt_git.git_store.packs import Pack

MOST_PACKS = 50
MOST_LOOSE = 512

_STEP = 4 << 20
_STEP_COUNT = 10_000
_CHEAP_COUNT = 1_000
_SINGLE = 256 << 10
_SMALL = 64 << 10  # a loose object of more would take its time, and is one file for much content
_FEW = 2 * MANY
_LONGEST_CHAIN = 20  # more saves little, and every link makes reading slower
_LARGEST_DELTA = 1 << 20
_A_WEEK = 7 * 24 * 3600


def is_due(objects: ObjectFolder) -> bool:
    """Tell whether there are so many packs or loose objects that they are to be packed up."""
    if len(objects.packs) > MOST_PACKS:
        small = [pack for pack in objects.packs if pack.size <= _STEP // 4]
        if sum(pack.count <= _STEP_COUNT // 4 for pack in small) > MOST_PACKS:
            return True  # each step leaves fewer of them
    # Ids are evenly spread, so one of 256 folders tells; git goes by it, too.
    few = MOST_LOOSE // 256
    found = _files(objects, "17")
    return len(found) > few and len(list(_settled(objects, found, _SMALL))) > few


def pack_up(objects: ObjectFolder, *, seconds: float | None = None) -> None:
    """Put packs and loose objects into one pack: all of them, or small ones for some ``seconds``.

    With a limit, the smaller packs are copied, and what single snapshots stored is added until the
    time is over, but never nothing; then the pack has to be flushed, which the disk takes its time
    for.
    """
    end = None if seconds is None else time.monotonic() + seconds
    objects.refresh()
    packs = [pack for pack in objects.packs if is_ours(pack)]
    single = [pack for pack in packs if pack.count <= MANY and pack.size <= _SINGLE]
    packing = _Packing(objects, PackWriter(objects.pack_folder, objects.object_format))
    try:
        larger = sorted((pack for pack in packs if pack not in single), key=lambda pack: pack.count)
        packing.copy(larger if end is None else _worth_a_copy(larger))
        for group in itertools.chain(_packs_by_age(single), _loose_by_age(objects, end)):
            packing.rewrite(group)
            if end is not None and packing.is_a_gain and time.monotonic() > end:
                break
        packing.finish()
        if end is None:  # else they are wanted again soon, and take their time to make
            _remove_empty_folders(objects)
    finally:
        packing.writer.abandon()


def is_ours(pack: Pack) -> bool:
    """Tell whether a pack may be replaced: git keeps some, and counts on those of a wider index."""
    kept = map(pack.file, (".keep", ".promisor", ".mtimes"))
    wider = f"{pack.folder}/multi-pack-index"
    return not any(os.access(path, os.F_OK) for path in (*kept, wider))


def remove_pack(pack: Pack) -> None:
    """Remove the files of a pack whose objects are all in another one, or are needed no more."""
    # The pack goes first: an index alone is what the next writer clears away.
    for suffix in (".pack", ".idx", ".rev", ".bitmap"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(pack.file(suffix))  # noqa: PTH108 - it is a string


@dataclass(frozen=True, slots=True)
class _Group:
    """Objects that were stored together: in one pack, or as loose ones at about the same time."""

    ids: list[str]
    pack: Pack | None = None
    loose: tuple[Path, ...] = ()


def _worth_a_copy(packs: list[Pack]) -> list[Pack]:
    """Return those of packs, the smallest first, that a step of packing up may copy.

    A larger one is left until there is half as much beside it, so that nothing is copied often
    (as ``git repack --geometric`` does it).
    """
    chosen, count, size = 0, _CHEAP_COUNT, 0
    for number, pack in enumerate(packs, start=1):
        if pack.count <= 2 * count:
            chosen = number
        count += pack.count
        size += pack.size
        if count > _STEP_COUNT or size > _STEP:
            return packs[: min(chosen, number - 1)]
    return packs[:chosen]


def _packs_by_age(packs: list[Pack]) -> Iterator[_Group]:
    for pack in sorted(packs, key=lambda pack: os.stat(pack.file(".pack")).st_mtime_ns):  # noqa: PTH116
        yield _Group([oid.hex() for oid, _, _ in pack.ids()], pack)


def _loose_by_age(objects: ObjectFolder, end: float | None) -> Iterator[_Group]:
    """Yield loose objects, some at a time: all, or a few small ones of those found in half of the time.

    They are few because to remove a file may take longer than to make it.
    """
    most, half = (None, None) if end is None else (_SMALL, (time.monotonic() + end) / 2)
    found: list[_File] = []
    first = random.randrange(256)  # noqa: S311 - so that every folder has its turn
    for number in range(first, first + 256):
        found += _settled(objects, _files(objects, f"{number % 256:02x}"), most)
        if half is not None and len(found) > 1 and time.monotonic() > half:
            break
    found.sort(key=lambda one: one.mtime)
    for at in range(0, len(found) if end is None else min(len(found), _FEW), MANY):
        some = found[at : at + MANY]
        yield _Group([one.oid for one in some], loose=tuple(Path(one.path) for one in some))


def _remove_empty_folders(objects: ObjectFolder) -> None:
    for folder in objects.path.glob("[0-9a-f][0-9a-f]"):
        with contextlib.suppress(OSError):
            folder.rmdir()


class _File(NamedTuple):
    """The file of a loose object: its age in seconds since 1970, its size in bytes."""

    oid: str
    path: str
    mtime: float
    size: int


def _files(objects: ObjectFolder, start: str) -> list[_File]:
    """Return the loose objects whose id begins with two digits."""
    folder = f"{objects.at}/{start}"
    if not os.access(folder, os.F_OK):  # asked by every writer, mostly in vain
        return []
    try:
        with os.scandir(folder) as entries:
            found = [(entry.name, entry.path, entry.stat()) for entry in entries]
    except FileNotFoundError:
        return []
    return [_File(start + name, path, at.st_mtime, at.st_size) for name, path, at in found]


def _settled(objects: ObjectFolder, files: list[_File], most: int | None) -> Iterator[_File]:
    """Yield those of at most so many bytes; notes only once nobody will discard them any more."""
    old = time.time() - _A_WEEK
    for file in files:
        if (most is None or file.size <= most) and (
            file.mtime < old or objects.loose_kind(file.oid) not in {b"tag", b""}
        ):
            yield file


@dataclass(slots=True)
class _Packing:
    """A pack that is being made of others."""

    objects: ObjectFolder
    writer: PackWriter
    replaced: list[Pack] = field(default_factory=list)
    loose: list[Path] = field(default_factory=list)
    _copied: list[Pack] = field(default_factory=list)
    _depths: dict[str, int] = field(default_factory=dict)

    @property
    def is_a_gain(self) -> bool:
        """Whether it takes the place of more than one file."""
        return len(self.replaced) + len(self.loose) > 1

    def copy(self, packs: list[Pack]) -> None:
        """Copy packs as they stand; those that are damaged or share an object with another stay."""
        for pack in packs:
            if self.writer.has_none_of(pack) and pack.is_whole():
                self.writer.append_pack(pack)
                self._copied.append(pack)
                self.replaced.append(pack)

    def rewrite(self, group: _Group) -> None:
        """Write objects anew, as deltas where that is worth it; damaged ones stay where they are."""
        waiting: Objects = {}
        for oid in group.ids:
            try:
                found = self.objects.read(oid)
            except DamagedObjectError:
                return
            if found is None or object_id(*found, self.objects.object_format) != oid:
                return
            if bytes.fromhex(oid) not in self.writer:
                waiting[oid] = found
        with contextlib.suppress(ValueError):  # a commit or tree that is none: it gains nothing
            self._follow_commits(waiting)
        for oid, (kind, content) in waiting.items():
            self._append(oid, kind, content, base=None)
        self.loose += group.loose
        if group.pack is not None:
            self.replaced.append(group.pack)

    def finish(self) -> None:
        """Give the new pack its name and remove what it replaces, unless it would be no gain."""
        if not self.is_a_gain:
            return
        new = self.writer.finish(durable=True)  # even where the old ones were not: they are by now
        self.objects.flush_names()  # the folder of packs may be new, too
        for pack in self.replaced:
            if pack.name != new:
                remove_pack(pack)
        for path in self.loose:
            path.unlink(missing_ok=True)
        self.objects.flush_names()  # what was never flushed would come back without content
        self.objects.refresh()

    def _follow_commits(self, waiting: Objects) -> None:
        """Write the commits that wait, each after what it made, which starts from its parent's."""
        for oid in _parents_first(waiting):
            commit = decode_commit(waiting[oid][1])
            parent = self._commit_tree(commit.parents[0]) if commit.parents else None
            self._tree(waiting, parent, commit.tree)
            self._append(oid, *waiting.pop(oid), base=None)

    def _tree(self, waiting: Objects, old: str | None, new: str) -> None:
        """Write a tree that waits, after all in it that waits; ``old`` is what it came from."""
        if new not in waiting:
            return
        found = None if old is None else self._read(old)
        before = found[1] if found is not None and found[0] == b"tree" else b""
        for _, was, now in tree_differences(before, waiting[new][1], self.objects.id_length):
            if now is None or now.oid not in waiting:
                continue
            base = None if was is None else was.oid
            if waiting[now.oid][0] == b"tree":
                self._tree(waiting, base, now.oid)
            else:
                self._append(now.oid, *waiting.pop(now.oid), base=base)
        self._append(new, *waiting.pop(new), base=old)

    def _append(self, oid: str, kind: bytes, content: bytes, *, base: str | None) -> None:
        raw = bytes.fromhex(oid)
        if base is not None and bytes.fromhex(base) in self.writer:
            found = self._read(base)
            depth = self._depth(base)
            if (
                found is not None
                and found[0] == kind
                and depth < _LONGEST_CHAIN
                and max(len(content), len(found[1])) <= _LARGEST_DELTA
            ):
                change = delta(found[1], content)
                if len(change) < len(content) // 2:
                    distance = self.writer.end - self.writer.offset_of(bytes.fromhex(base))
                    self.writer.append(raw, delta_entry(distance, change))
                    self._depths[oid] = depth + 1
                    return
        self.writer.append(raw, object_entry(kind, content))

    def _depth(self, oid: str) -> int:
        """Return how many deltas an object of the new pack is away from a whole one."""
        raw = bytes.fromhex(oid)
        for pack in self._copied:
            offset = pack.find(raw)
            if offset is not None:
                return pack.depth(offset)
        return self._depths.get(oid, 0)

    def _read(self, oid: str) -> tuple[bytes, bytes] | None:
        """Return an object that something starts from, or None where it cannot be had."""
        with contextlib.suppress(DamagedObjectError):
            found = self.objects.read(oid)
            if found is not None and object_id(*found, self.objects.object_format) == oid:
                return found
        return None

    def _commit_tree(self, oid: str) -> str | None:
        found = self._read(oid)
        return None if found is None or found[0] != b"commit" else decode_commit(found[1]).tree


def _parents_first(waiting: Objects) -> list[str]:
    """Return the commits among some objects, each after those of its parents that are there, too."""
    ordered: dict[str, None] = {}
    for oid, (kind, _) in waiting.items():
        line = [oid] if kind == b"commit" else []
        while line:
            above = [
                parent
                for parent in decode_commit(waiting[line[-1]][1]).parents
                if parent in waiting and parent not in ordered
            ]
            if above:
                line += above
            else:
                ordered[line.pop()] = None
    return list(ordered)
