"""The commits of a chat that came by a push or an import and look like our records.

A commit message is text that any git can write, so a record counts only where it was made.
``refs/covalt/foreign`` is a blob with the full ids of those that were made elsewhere: one a line, sorted.
Whatever lets a branch come to such commits lists them first, under the chat's lock.  So a process that
is killed in between leaves ids too many, which is harmless, and never a commit that is believed wrongly.
Ids are never removed.
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
    """Return those of some commits that look like our records."""
    return {oid for oid in oids if commits.looks_like_record(store.read_commit(oid))}


@dataclass(slots=True)
class ForeignCommits:
    """The list of one open store, read again when the ref has moved."""

    store: GitStore
    _at: str | None = None
    _ids: frozenset[str] = frozenset()
    _covered: set[str] = field(default_factory=set)

    def __contains__(self, oid: str) -> bool:
        """Tell whether a commit, to which a ref leads already, is listed.

        The ref of the list is read once a commit, and not for those that :meth:`cover` named.
        """
        if oid not in self._covered:
            self.ids()
            self._covered.add(oid)
        return oid in self._ids

    def cover(self, parents: Iterable[str]) -> None:
        """Note the parents of a commit that was asked about: they were listed no later than it."""
        self._covered.update(parents)

    def add(self, oids: Collection[str]) -> None:
        """List some commits; durable when this returns.

        Only whoever holds the chat's lock may, before any ref leads to them.
        """
        known = self.ids()
        if known.issuperset(oids):
            return
        lines = "".join(f"{oid}\n" for oid in sorted(known.union(oids)))
        if not self.store.swap_ref(REF, self._at, self.store.write_blob(lines.encode())):
            raise CovaltError("another process lists this chat's foreign commits", hint="try again")

    def ids(self) -> frozenset[str]:
        """Return the ids of all commits that are listed now."""
        at = self.store.read_ref(REF)
        if at != self._at:
            lines = b"" if at is None else self.store.read_blob(at)
            self._ids = frozenset(lines.decode("utf-8", "replace").split())
            self._at = at
            self._covered.clear()
        return self._ids
