"""The commits of a store as a graph, and which objects a commit has that its parents had not."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from covalt_git.git_store.objects import FOLDER, TreeEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from covalt_git.git_store.objects import CommitObject
    from covalt_git.git_store.store import GitStore

_TREES = 4096


class Ancestry:
    """What leads where in a store.  What was read is kept, so it is for one question or two.

    ``cut`` are commits that are taken to have no parents, as git's shallow clones have it.
    """

    def __init__(self, store: GitStore) -> None:
        self.commit: Callable[[str], CommitObject] = lru_cache(maxsize=None)(store.read_commit)
        self._tree: Callable[[str], list[TreeEntry]] = lru_cache(_TREES)(store.read_tree)

    def closure(self, tips: Iterable[str], cut: Collection[str] = ()) -> dict[str, None]:
        """Return some commits and all their ancestors, each after one of its children."""
        met: dict[str, None] = {}
        waiting = list(tips)
        while waiting:
            oid = waiting.pop()
            if oid not in met:
                met[oid] = None
                waiting.extend(() if oid in cut else self.commit(oid).parents)
        return met

    def parents_first(self, oids: Collection[str]) -> dict[str, None]:
        """Return some commits, each after those of its parents that are among them."""
        ordered: dict[str, None] = {}
        for start in oids:
            line = [] if start in ordered else [start]
            while line:
                above = [
                    parent
                    for parent in self.commit(line[-1]).parents
                    if parent in oids and parent not in ordered
                ]
                if above:
                    line += above
                else:
                    ordered[line.pop()] = None
        return ordered

    def is_ancestor(self, old: str, new: str) -> bool:
        """Tell whether ``new`` is ``old`` or comes after it."""
        met = {new}
        waiting = [new]
        while waiting and old not in met:
            fresh = set(self.commit(waiting.pop()).parents) - met
            met |= fresh
            waiting.extend(fresh)
        return old in met

    def rings(self, tips: Iterable[str], depth: int) -> list[list[str]]:
        """Return the commits that are 0, 1, ... and at most ``depth`` steps away from ``tips``."""
        found = [list(dict.fromkeys(tips))]
        met = set(found[0])
        while len(found) <= depth:
            above = (parent for oid in found[-1] for parent in self.commit(oid).parents)
            ring = [oid for oid in dict.fromkeys(above) if oid not in met]
            if not ring:
                break
            met.update(ring)
            found.append(ring)
        return found

    def new_entries(
        self, tree: str, parents: Sequence[str], met: set[tuple[str, bool]]
    ) -> Iterator[tuple[bytes, TreeEntry]]:
        """Yield what a tree and all below it have that none of its parents' has at the same path.

        What is in ``met`` is left out, and what is found is added: its id, and whether it is a
        folder.  The tree itself is yielded first, a folder before what is in it; with each entry
        comes its path.  Of several commits, parents have to be asked about first: a folder that was
        met says of what is in it only that its commit's parents have the rest.
        """
        waiting = [(b"", TreeEntry(b"", FOLDER, tree), list(parents))]
        while waiting:
            path, entry, before = waiting.pop()
            key = (entry.oid, entry.mode == FOLDER)
            if key in met or (entry.mode == FOLDER and entry.oid in before):
                continue
            met.add(key)
            yield path, entry
            if entry.mode != FOLDER:
                continue
            known = [{was.name: was for was in self._tree(oid)} for oid in before]
            for below in reversed(self._tree(entry.oid)):
                found = [was for names in known if (was := names.get(below.name)) is not None]
                if any((was.oid, was.mode) == (below.oid, below.mode) for was in found):
                    continue
                folders = [was.oid for was in found if was.mode == FOLDER]
                start = path + b"/" if path else b""
                waiting.append((start + below.name, below, folders))
