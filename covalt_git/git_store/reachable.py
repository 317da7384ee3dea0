"""What some refs reach: every object once, in an order in which it can be written as deltas.

The order depends on the history alone, never on how the objects lie in a store.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.git_store.checking import SUBMODULE
from covalt_git.git_store.objects import FOLDER, BrokenStoreError, TreeEntry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from covalt_git.git_store.store import GitStore

_TREES = 4096


class Reached(NamedTuple):
    """An object that is reached, and one that was reached before and is probably much like it."""

    oid: str
    base: str | None = None


def reached(store: GitStore, tips: Iterable[str]) -> Iterator[Reached]:
    """Yield all that ``tips`` reach: commits after their parents, each after what it added.

    Raises:
        BrokenStoreError: when some of it is not in the store, or damaged.
    """
    walk = _Walk(store)
    for tip in tips:
        yield from walk.tip(tip)


class _Walk:
    """One walk over what tips reach."""

    def __init__(self, store: GitStore) -> None:
        self._store = store
        self._tree: Callable[[str], list[TreeEntry]] = lru_cache(_TREES)(store.read_tree)
        self._met: set[str] = set()

    def tip(self, oid: str) -> Iterator[Reached]:
        """Yield what a tip of any kind reaches and none before it did."""
        tags = []
        kind = b"tag"
        while kind == b"tag" and oid not in self._met:
            kind, content = self._store.read_object(oid)
            if kind == b"tag":
                tags.append(oid)
                self._met.add(oid)
                oid = _target(oid, content)
        if kind == b"commit":
            yield from self._history(oid)
        elif kind == b"tree":
            yield from self._below(oid, None)
        elif oid not in self._met:
            self._met.add(oid)
            yield Reached(oid)
        yield from (Reached(tag) for tag in reversed(tags))

    def _history(self, tip: str) -> Iterator[Reached]:
        """Yield commits, each after its parents and all that is new in its tree."""
        line = [tip]
        while line:
            oid = line[-1]
            if oid in self._met:
                line.pop()
                continue
            commit = self._store.read_commit(oid)
            above = [parent for parent in commit.parents if parent not in self._met]
            if above:
                line += reversed(above)
                continue
            before = self._store.read_commit(commit.parents[0]).tree if commit.parents else None
            yield from self._below(commit.tree, before)
            self._met.add(oid)
            yield Reached(oid)

    def _below(self, tree: str, before: str | None) -> Iterator[Reached]:
        """Yield a tree and what is new in it; ``before`` is what stood in its place."""
        waiting = [(tree, before, True)]
        while waiting:
            oid, base, is_folder = waiting.pop()
            if oid in self._met:
                continue
            self._met.add(oid)
            yield Reached(oid, base)
            if not is_folder:
                continue
            names = {was.name: was for was in self._tree(base)} if base is not None else {}
            for entry in reversed(self._tree(oid)):
                if entry.oid in self._met or entry.mode == SUBMODULE:
                    continue
                was = names.get(entry.name)
                alike = was is not None and (was.mode == FOLDER) == (entry.mode == FOLDER)
                waiting.append(
                    (entry.oid, was.oid if was and alike else None, entry.mode == FOLDER)
                )


def _target(oid: str, content: bytes) -> str:
    """Return the id of what a tag is of."""
    name, _, target = content.partition(b"\n")[0].partition(b" ")
    if name != b"object":
        raise BrokenStoreError(f"the tag {oid} is of no object")
    return target.decode("ascii", "replace")
