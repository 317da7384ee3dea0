"""Whether a history that others made may come in: every object, path and link of it.

An import and a push ask this one function, before any ref of the chat leads to what came::

    admit(store: GitStore, new: Iterable[str], known: Iterable[str] = (), *,
          config: WorkspaceConfig) -> Admitted

``new`` are the ids of the commits that refs shall be at, ``known`` those that refs are at already;
the store has to be able to read all of them.  Everything is looked at that is reachable from ``new``
and not from ``known``: each object once, its bytes against its id.  What comes in is what a snapshot
might have made, and ``git fsck --strict`` has nothing to say about it.  What only some systems can
check out is admitted and told in ``Admitted.unportable``.
"""

from __future__ import annotations

import heapq
import os
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError, Problem
from covalt_git.git_store import FOLDER, LINK, SUBMODULE, BrokenStoreError
from covalt_git.models.commit_record import PathNote
from covalt_git.paths import MAX_DEPTH, Verdict, check_element, collisions
from covalt_git.workspaces.git_files import why_git_refuses
from covalt_git.workspaces.snapshot import link_stays_inside, why_not_stored

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.git_store import CommitObject, GitStore, TreeEntry
    from covalt_git.models.project_config import WorkspaceConfig

MOST_FILES = 1_000_000
"""Paths that one state may have: a few small trees can spell any number of them."""

MOST_BYTES = 64 << 30
"""What the files of one state may have together."""

_MOST_MESSAGE = 16 << 20
_MOST_TOLD = 20


class NotAdmittedError(CovaltError):
    """A history holds what must not come into a chat; ``problems`` names the paths and commits."""

    code = "not_admitted"


@dataclass(frozen=True, slots=True)
class Admitted:
    """A history that may come in.

    Attributes:
        commits: the ids of the commits that are new, none before a child of it.
        unportable: the paths that some system cannot check out, each where it was met first.
    """

    commits: tuple[str, ...]
    unportable: tuple[PathNote, ...]


def admit(
    store: GitStore, new: Iterable[str], known: Iterable[str] = (), *, config: WorkspaceConfig
) -> Admitted:
    """Look at everything that is reachable from ``new`` and not from ``known``.

    Raises:
        NotAdmittedError: with every path and commit that is refused, up to some twenty.
    """
    inspection = _Inspection(store, config)
    found, boundary = _new_commits(store, list(new), list(known))
    for oid in boundary:
        inspection.trust(store.read_commit(oid).tree)
    for oid in reversed(found):  # the oldest first, which is where a path came in
        inspection.commit(oid)
        if len(inspection.refused) >= _MOST_TOLD:
            break
    if inspection.refused:
        raise _not_admitted(inspection.refused)
    return Admitted(tuple(found), tuple(inspection.unportable.values()))


def _not_admitted(refused: list[Problem]) -> NotAdmittedError:
    count = "something" if len(refused) == 1 else f"{len(refused)} things"
    return NotAdmittedError(
        f"the history holds {count} that must not come into a chat",
        hint="mend every commit that has it with git, and try again",
        problems=refused,
    )


def _new_commits(store: GitStore, new: list[str], known: list[str]) -> tuple[list[str], list[str]]:
    """Return the commits that only ``new`` reaches, children first, and the known ones below them.

    The youngest are looked at first, so that the walk ends where both histories have met; a clock
    that was wrong makes it look at a known commit as if it were new, never the other way round.
    """
    reached = set(known)
    commits: dict[str, CommitObject] = {}
    waiting: list[tuple[int, str]] = []
    unknown: set[str] = set()
    found: dict[str, tuple[str, ...]] = {}

    def meet(oid: str) -> None:
        if oid not in commits:
            commits[oid] = _commit(store, oid, is_known=oid in reached)
            heapq.heappush(waiting, (-commits[oid].time, oid))
            unknown.add(oid)
        if oid in reached:
            unknown.discard(oid)

    for oid in [*known, *new]:
        meet(oid)
    while unknown:
        _, oid = heapq.heappop(waiting)
        unknown.discard(oid)
        parents = commits[oid].parents
        if oid in reached:
            reached.update(parents)
        else:
            found[oid] = parents
        for parent in parents:
            meet(parent)
    fresh = {oid: parents for oid, parents in found.items() if oid not in reached}
    boundary = {parent for parents in fresh.values() for parent in parents if parent not in fresh}
    return _children_first(fresh), sorted(boundary)


def _commit(store: GitStore, oid: str, *, is_known: bool) -> CommitObject:
    try:
        return store.read_commit(oid)
    except BrokenStoreError:
        if is_known:
            raise
        raise NotAdmittedError(
            f"the commit {oid} is not there, or it is none",
            hint="a part of a history cannot come in alone; a shallow clone has only a part: "
            "git fetch --unshallow",
        ) from None


def _children_first(parents: dict[str, tuple[str, ...]]) -> list[str]:
    """Return commits so that none stands before a child of it."""
    children = dict.fromkeys(parents, 0)
    for line in parents.values():
        for parent in line:
            if parent in children:
                children[parent] += 1
    ready = [oid for oid, count in children.items() if count == 0]
    ordered = []
    while ready:
        oid = ready.pop()
        ordered.append(oid)
        for parent in parents[oid]:
            if parent in children:
                children[parent] -= 1
                if children[parent] == 0:
                    ready.append(parent)
    return ordered


@dataclass(frozen=True, slots=True)
class _Extent:
    """What a tree needs of the place where it stands, whichever that is.

    ``longest`` and ``deepest`` are paths below it; ``climber`` is the link that leads up furthest
    and ``climb`` how many folders have to stand above this tree so that it stays inside.
    """

    files: int = 0
    size: int = 0
    longest: bytes = b""
    deepest: bytes = b""
    climb: int = 0
    climber: bytes = b""

    def beside(self, other: _Extent) -> _Extent:
        """Return the extent of both together in one tree."""
        climbs = self if self.climb >= other.climb else other
        return _Extent(
            self.files + other.files,
            self.size + other.size,
            max(self.longest, other.longest, key=len),
            max(self.deepest, other.deepest, key=lambda path: path.count(b"/") + bool(path)),
            climbs.climb,
            climbs.climber,
        )

    def below(self, name: bytes) -> _Extent:
        """Return the extent of a tree that has this one under ``name``."""
        start = name + b"/"
        return _Extent(
            self.files,
            self.size,
            start + self.longest if self.longest else b"",
            start + self.deepest if self.deepest else b"",
            max(0, self.climb - 1),
            start + self.climber if self.climb > 1 else b"",
        )


@dataclass(slots=True)
class _Inspection:
    """One look at a history; each tree and each blob is looked at once, wherever else it stands."""

    store: GitStore
    config: WorkspaceConfig
    refused: list[Problem] = field(default_factory=list)
    unportable: dict[str, PathNote] = field(default_factory=dict)
    _commit: str = ""
    _extents: dict[str, _Extent] = field(default_factory=dict)
    _sizes: dict[str, int] = field(default_factory=dict)

    def trust(self, tree: str) -> _Extent:
        """Learn the extent of a tree that is in the chat already, and so was looked at."""
        if tree not in self._extents:
            extent = _Extent()
            for name, mode, oid in self.store.read_tree(tree):
                if mode == FOLDER:
                    extent = extent.beside(self.trust(oid).below(name))
                elif mode != SUBMODULE:
                    size = self._sizes.get(oid)
                    if size is None:
                        size = self._sizes[oid] = self.store.blob_size(oid)
                    climb = self._climb(oid) if mode == LINK else 0
                    extent = extent.beside(_Extent(1, size, name, name, climb, name))
            self._extents[tree] = extent
        return self._extents[tree]

    def commit(self, oid: str) -> None:
        """Look at a commit, and at all in its tree that was not looked at yet."""
        self._commit = oid
        commit = self.store.read_commit(oid)
        reason = self.store.check_commit(oid)
        if not reason and len(commit.message) > _MOST_MESSAGE:
            reason = f"its message is longer than {_MOST_MESSAGE >> 20} MiB"
        if reason:
            self._refuse("", reason)
            return
        extent = self.tree(commit.tree, ())
        if not self.refused:
            self._check_extent(extent)

    def tree(self, oid: str, path: tuple[str, ...]) -> _Extent:
        """Look at a tree that was met at ``path`` first; return its extent."""
        if oid in self._extents:
            return self._extents[oid]
        extent = _Extent()
        if len(path) > MAX_DEPTH:
            self._refuse("/".join(path), "its path is too long")
            return extent
        names = []
        for entry in self._entries(oid, path):
            if len(self.refused) >= _MOST_TOLD:
                break
            name = entry.name.decode("utf-8", "surrogateescape")
            names.append(name)
            extent = extent.beside(self.entry(entry, (*path, name)))
        for first, second in collisions(names):
            self._note((*path, second), f"some systems take it for {first!r}")
        self._extents[oid] = extent
        return extent

    def entry(self, entry: TreeEntry, path: tuple[str, ...]) -> _Extent:
        """Look at one entry of a tree."""
        verdict, special = _judged(path[-1])
        if verdict.kind == "refused":
            self._refuse("/".join(path), verdict.reason)
            return _Extent()
        if verdict.kind == "unportable":
            self._note(path, verdict.reason)
        if entry.mode == SUBMODULE:
            reason = "it is a submodule, another repository, which a chat cannot hold"
            self._refuse("/".join(path), reason)
            return _Extent()
        if entry.mode == FOLDER:
            if special and (reason := why_git_refuses(path[-1], FOLDER, b"")):
                self._refuse("/".join(path), reason)
            return self.tree(entry.oid, path).below(entry.name)
        return self._file(entry, path, special=special)

    def _file(self, entry: TreeEntry, path: tuple[str, ...], *, special: bool) -> _Extent:
        climb = 0
        try:
            if special or entry.mode == LINK or entry.oid not in self._sizes:
                content = self.store.read_blob(entry.oid)
                self._sizes[entry.oid] = len(content)
                if special and (reason := why_git_refuses(path[-1], entry.mode, content)):
                    self._refuse("/".join(path), reason)
                if entry.mode == LINK:
                    climb = _climb(content)
        except BrokenStoreError:
            self._refuse("/".join(path), "its content is not there, or damaged")
            return _Extent()
        size = self._sizes[entry.oid]
        if size > self.config.max_file_mb << 20:
            self._refuse("/".join(path), f"it is larger than {self.config.max_file_mb} MiB")
        return _Extent(1, size, entry.name, entry.name, climb, entry.name)

    def _entries(self, oid: str, path: tuple[str, ...]) -> list[TreeEntry]:
        try:
            reason = self.store.check_tree(oid)
            if not reason:
                return self.store.read_tree(oid)
        except BrokenStoreError:
            reason = "its tree is not there, or damaged"
        self._refuse("/".join(path), reason)
        return []

    def _climb(self, oid: str) -> int:
        return _climb(self.store.read_blob(oid))

    def _check_extent(self, extent: _Extent) -> None:
        """Judge a whole state: what is good in one folder may not be in another."""
        if extent.climb:
            self._refuse(os.fsdecode(extent.climber), "it is a link that may lead outside")
        everything = self.config.model_copy(update={"ignore": ()})
        for path in {os.fsdecode(extent.longest), os.fsdecode(extent.deepest)} - {""}:
            if reason := why_not_stored(path, b"", everything):
                self._refuse(path, reason)
        if extent.files > MOST_FILES:
            self._refuse("", f"it has more than {MOST_FILES:,} files")
        if extent.size > MOST_BYTES:
            self._refuse("", f"its files have more than {MOST_BYTES >> 30} GiB together")

    def _refuse(self, path: str, reason: str) -> None:
        readable = os.fsencode(path).decode("utf-8", "backslashreplace")
        told = f"{reason} (commit {self._commit[:12]})"
        self.refused.append(Problem(readable or self._commit, 0, 0, "not_admitted", told))

    def _note(self, path: tuple[str, ...], reason: str) -> None:
        readable = os.fsencode("/".join(path)).decode("utf-8", "backslashreplace")
        self.unportable.setdefault(readable, PathNote(path=readable, reason=reason))


@lru_cache(maxsize=1 << 16)
def _judged(name: str) -> tuple[Verdict, bool]:
    """Return the verdict on a name, and whether it is one of git's own files."""
    return check_element(name), bool(why_git_refuses(name, LINK, b""))


def _climb(target: bytes) -> int:
    """Return how many folders have to stand above a link so that it stays inside."""
    for depth in range(MAX_DEPTH):
        if link_stays_inside(target, depth=depth):
            return depth
    return MAX_DEPTH
