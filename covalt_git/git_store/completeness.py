"""Check that received objects are complete: all that they reach is received or in the store, and of the right kind.

It is the connectivity check of git (``connected.c``).  Files and folders that a commit shares with its parent are not read
again, nor are objects that the refs of the store reach.  So the time depends on the received objects only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.git_store.graph import CommitGraph
from covalt_git.git_store.objects import FOLDER, SUBMODULE, BrokenStoreError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from covalt_git.git_store.incoming import Quarantine
    from covalt_git.git_store.objects import TreeEntry


def reached(quarantine: Quarantine, wanted: Iterable[str], heads: Collection[str]) -> set[str]:
    """Return the objects that ``wanted`` reach, without some of those that ``heads`` in the store reach.

    Raises:
        BrokenStoreError: if an object is missing, damaged, or not of the kind that another one names.
    """
    search = _Search(quarantine, heads)
    for oid in wanted:
        search.add(oid, quarantine.read_object(oid)[0])
    return set(search.kinds)


class _Search:
    """A walk from objects to all that they reach; ``kinds`` are those of the objects, by their ids."""

    def __init__(self, quarantine: Quarantine, heads: Collection[str]) -> None:
        self.kinds: dict[str, bytes] = {}
        self._quarantine = quarantine
        self._graph = CommitGraph(quarantine)
        self._heads = heads
        self._complete: Collection[str] | None = None

    def add(self, oid: str, kind: bytes) -> None:
        """Add an object that is there, and what it reaches."""
        if kind == b"commit":
            self._add_commits(oid)
        elif kind == b"tree":
            self._add_trees(oid, [])
        else:  # a file; a tag is of the store, because a fetch refuses received tags
            self._see(oid, kind)

    def _add_commits(self, tip: str) -> None:
        waiting = [tip]
        for oid in waiting:  # the loop adds parents to it
            if oid in self.kinds or self._is_complete(oid):
                continue
            commit = self._graph.commit(oid)
            self._see(oid, b"commit")
            # The parents are in the store with all that they reach, or this loop checks them too.  So what a parent has at
            # the same path is not checked again.
            bases = [self._graph.commit(parent).tree for parent in commit.parents]
            self._add_trees(commit.tree, bases)
            waiting += commit.parents

    def _is_complete(self, oid: str) -> bool:
        """Return whether a commit is one that the refs of the store reach."""
        if oid in self._heads:
            return True
        if oid in self._quarantine.ids:
            return False
        if self._complete is None:
            kinds = {head: self._quarantine.read_object(head)[0] for head in self._heads}
            commits = [head for head, kind in kinds.items() if kind == b"commit"]
            self._complete = self._graph.ancestors(commits)
        return oid in self._complete

    def _add_trees(self, top: str, parents: list[str]) -> None:
        walks = [(top, parents)]
        while walks:
            tree, bases = walks.pop()
            if tree in bases or self._see(tree, b"tree"):
                continue
            earlier: dict[bytes, list[TreeEntry]] = {}
            for base in bases:
                for entry in self._quarantine.read_tree(base):
                    earlier.setdefault(entry.name, []).append(entry)
            for entry in self._quarantine.read_tree(tree):
                others = earlier.get(entry.name, [])
                # Equal with its mode: a file that has the id of a folder of the parent must not pass
                # (test_an_object_of_another_kind_than_its_name_says_is_not_stored).
                if entry.mode == SUBMODULE or entry in others:
                    continue
                if entry.mode == FOLDER:
                    folders = [other.oid for other in others if other.mode == FOLDER]
                    walks.append((entry.oid, folders))
                else:
                    self._see(entry.oid, b"blob")

    def _see(self, oid: str, kind: bytes) -> bool:
        """Return whether an object has been added already; add it if not, after a check of its kind."""
        is_old = oid in self.kinds
        actual = self.kinds[oid] if is_old else self._quarantine.read_object(oid)[0]
        if actual != kind:
            raise BrokenStoreError(
                f"the object {oid} is a {actual.decode()}, not a {kind.decode()}"
            )
        self.kinds[oid] = actual
        return is_old
