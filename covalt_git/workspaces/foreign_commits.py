"""The list of the foreign commits of a chat whose messages look like records of covalt-git.

Anyone can write such a message with git, so a record counts only in the chat that created it.
``refs/covalt/foreign`` is a blob with the full ids of such commits, one a line, sorted.  A push adds its commits to
the list under the chat's lock, before a branch moves to them.  If the push is killed in between, ids of missing
commits stay in the list, which is harmless.  Ids are never removed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.workspaces import commits

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from covalt_git.git_store import GitStore
    from covalt_git.git_store.object_reader import ObjectReader

REF = "refs/covalt/foreign"


def lookalikes(store: ObjectReader, oids: Iterable[str]) -> set[str]:
    """Return the commits that look like records."""
    return {oid for oid in oids if commits.looks_like_record(store.read_commit(oid))}


@dataclass(slots=True)
class ForeignCommits:
    """The list of foreign commits of one open store; it is read again when its ref has moved."""

    store: GitStore
    _at: str | None = None
    _ids: frozenset[str] = frozenset()
    _covered: set[str] = field(default_factory=set)

    def __contains__(self, oid: str) -> bool:
        """Return whether a commit that a ref reaches is listed.

        The list is read again for each commit that is not covered (:meth:`cover`), because a push may have changed it.
        """
        if oid not in self._covered:
            self.ids()
            self._covered.add(oid)
        return oid in self._ids

    def cover(self, parents: Iterable[str]) -> None:
        """Note that the list need not be read for the parents of a commit: foreign parents were listed before it."""
        self._covered.update(parents)

    def add(self, oids: Collection[str]) -> None:
        """Add commits to the list, durably, before a ref reaches them; the caller holds the chat's lock."""
        known = self.ids()
        if known.issuperset(oids):
            return
        lines = "".join(f"{oid}\n" for oid in sorted(known.union(oids)))
        if not self.store.swap_ref(REF, self._at, self.store.write_blob(lines.encode())):
            raise CovaltError("another process lists this chat's foreign commits", hint="try again")

    def ids(self) -> frozenset[str]:
        """Return the listed ids."""
        at = self.store.read_ref(REF)
        if at != self._at:
            lines = b"" if at is None else self.store.read_blob(at)
            self._ids = frozenset(lines.decode("utf-8", "replace").split())
            self._at = at
            self._covered.clear()
        return self._ids
