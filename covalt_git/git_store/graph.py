"""Graph of the commits of a store, and the objects that commits reach.

Missing and damaged objects raise ``BrokenStoreError``.
"""

from __future__ import annotations

from functools import lru_cache
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

from covalt_git.git_store.objects import FOLDER, SUBMODULE, BrokenStoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Mapping

    from covalt_git.git_store.object_reader import ObjectReader
    from covalt_git.git_store.objects import CommitObject


class CommitGraph:
    """Commits and their parents, all cached after the first read; create one for each operation."""

    def __init__(self, reader: ObjectReader) -> None:
        self.reader = reader
        self.commit: Callable[[str], CommitObject] = lru_cache(maxsize=None)(reader.read_commit)

    def ancestors(
        self, tips: Iterable[str], shallow: Container[str] = (), *, without: Container[str] = ()
    ) -> dict[str, int]:
        """Return commits and all their ancestors, as :func:`ancestors`; ``shallow`` ones have no parents."""

        def parents(oid: str) -> tuple[str, ...]:
            return () if oid in shallow else self.commit(oid).parents

        return ancestors(parents, tips, without)

    def merge_base(self, ours: str, theirs: str) -> str | None:
        """Return the best common ancestor of two commits; None if they have no common ancestor.

        A common ancestor is best if it is not an ancestor of another common ancestor.  After a criss-cross merge,
        several are best; then the latest one is returned, and of equal times the one with the greatest id.
        """
        common = self.ancestors([ours]).keys() & self.ancestors([theirs])
        above = {parent for oid in common for parent in self.commit(oid).parents}
        return max(common - above, key=lambda oid: (self.commit(oid).time, oid), default=None)


def ancestors(
    parents: Callable[[str], Iterable[str]], tips: Iterable[str], without: Container[str] = ()
) -> dict[str, int]:
    """Return commits and their ancestors, nearest first, with their distance from the nearest of ``tips``.

    Those in ``without``, or only reached through them, are left out.
    """
    distances = {oid: 0 for oid in tips if oid not in without}
    waiting = list(distances)
    for oid in waiting:  # the loop adds parents to it
        for parent in parents(oid):
            if parent not in distances and parent not in without:
                distances[parent] = distances[oid] + 1
                waiting.append(parent)
    return distances


def parents_first(parents: Mapping[str, Collection[str]]) -> list[str]:
    """Return the keys of ``parents``, which maps commits to their parents, each commit after its parents."""
    return [oid for oid in TopologicalSorter(parents).static_order() if oid in parents]


def new_in_tree(reader: ObjectReader, tree: str, listed: set[str]) -> list[str]:
    """Return the ids of a tree and of everything in it, except those in ``listed``; add them to ``listed``."""
    new = []
    # A list, not recursion: an imported repository can nest trees deeper than Python's stack, and is walked
    # before its inspection.
    waiting = [(tree, FOLDER)]
    while waiting:
        oid, mode = waiting.pop()
        if oid not in listed and mode != SUBMODULE:  # the commit of a submodule is in another store
            listed.add(oid)
            new.append(oid)
            if mode == FOLDER:
                waiting += [(entry.oid, entry.mode) for entry in reader.read_tree(oid)]
    return new


def reachable(reader: ObjectReader, tips: Iterable[str]) -> set[str]:
    """Return the ids of all objects that ``tips`` reach; tips may be objects of any kind."""
    commits, objects = peeled(reader, tips)
    graph = CommitGraph(reader)
    for oid in graph.ancestors(commits):
        objects.add(oid)
        new_in_tree(reader, graph.commit(oid).tree, objects)
    return objects


def peeled(reader: ObjectReader, tips: Iterable[str]) -> tuple[list[str], set[str]]:
    """Return the commits among ``tips`` and the commits that their tags name, and all other objects that they reach."""
    commits: list[str] = []
    others: set[str] = set()
    # A client may want one object a thousand times (test_a_commit_that_is_wanted_often_is_read_once).
    waiting = list(dict.fromkeys(tips))
    while waiting:
        oid = waiting.pop()
        kind, content = reader.read_object(oid)
        if kind == b"commit":
            commits.append(oid)
        elif kind == b"tree":
            new_in_tree(reader, oid, others)
        else:
            others.add(oid)
        if kind == b"tag":
            name, _, target = content.partition(b"\n")[0].partition(b" ")
            if name != b"object":
                raise BrokenStoreError(f"the tag {oid} is damaged: it has no object id")
            waiting.append(target.decode("ascii", "replace"))
    return commits, others
