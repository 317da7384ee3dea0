"""Where two histories parted: the state that a merge compares both sides with."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from covalt_git.git_store import CommitObject, GitStore


def merge_base(store: GitStore, ours: str, theirs: str) -> str | None:
    """Return the best common ancestor of two commits; None where they have none.

    Best is one that is no ancestor of another common one.  After a criss-cross merge there are
    several: then it is the one with the latest time, and of those the one with the greatest id, so
    that it is the same from either side.
    """
    commits: dict[str, CommitObject] = {}

    def commit(oid: str) -> CommitObject:
        if oid not in commits:
            commits[oid] = store.read_commit(oid)
        return commits[oid]

    found = _candidates(commit, ours, theirs)
    if len(found) > 1:  # a clock that was wrong may have let one pass that another comes from
        found = {oid for oid in found if not _reaches(commit, found - {oid}, oid)}
    return max(found, key=lambda oid: (commit(oid).time, oid), default=None)


def _candidates(commit: Callable[[str], CommitObject], ours: str, theirs: str) -> set[str]:
    """Return common ancestors, the best among them.

    The youngest commits are looked at first, which is the way of git's ``paint_down_to_common``; the
    walk ends where only ancestors of what was found are left.
    """
    reached_by: dict[str, set[str]] = {}
    covered: set[str] = set()
    found: set[str] = set()
    waiting: list[tuple[int, str]] = []

    def reach(oid: str, sides: set[str], *, is_covered: bool) -> None:
        known = reached_by.setdefault(oid, set())
        if sides <= known and (oid in covered or not is_covered):
            return
        known |= sides
        if is_covered:
            covered.add(oid)
        heapq.heappush(waiting, (-commit(oid).time, oid))

    reach(ours, {"ours"}, is_covered=False)
    reach(theirs, {"theirs"}, is_covered=False)
    while any(oid not in covered for _, oid in waiting):
        _, oid = heapq.heappop(waiting)
        sides = reached_by[oid]
        is_common = sides == {"ours", "theirs"}
        if is_common and oid not in covered:
            found.add(oid)
        for parent in commit(oid).parents:
            reach(parent, sides, is_covered=is_common)
    return found - covered


def _reaches(commit: Callable[[str], CommitObject], starts: Iterable[str], wanted: str) -> bool:
    met = set(starts)
    waiting = list(met)
    while waiting:
        for parent in commit(waiting.pop()).parents:
            if parent == wanted:
                return True
            if parent not in met:
                met.add(parent)
                waiting.append(parent)
    return False
