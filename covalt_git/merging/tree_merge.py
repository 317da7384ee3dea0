"""Three-way merge of trees: a path that one side changed gets this change; if both sides changed it, it is a clash.

A file and a folder with the same name are merged separately, and clash if both remain.  So no special rule is
needed for a file that became a folder, or the reverse.  Trees are compared by id, and read only if both
sides changed them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from covalt_git.git_store.objects import EXECUTABLE, FILE, FOLDER, LINK, TreeEntry
from covalt_git.merging import line_merge
from covalt_git.workspaces.trees import EMPTY

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.git_store.store import GitStore
    from covalt_git.models.commit_record import ConflictKind

Value = TypeVar("Value")

_REGULAR = (FILE, EXECUTABLE)

Entry = TreeEntry | None
"""The entry of a name in one of the trees, if it has one."""


class Clash(NamedTuple):
    """A path that both sides changed differently."""

    path: str
    kind: ConflictKind
    base: Entry
    ours: Entry
    theirs: Entry


class MergedTree(NamedTuple):
    """A merged tree (None: no files); at the path of a clash it has our version."""

    tree: str | None
    clashes: tuple[Clash, ...] = ()


class TreeMerge(NamedTuple):
    """Merge of trees of one store.

    ``refused`` returns why a file with a path and content cannot be stored; empty if it can.  A file whose merged
    lines cannot be stored is a clash.
    """

    store: GitStore
    refused: Callable[[str, bytes], str]

    def merge(
        self, base: str | None, ours: str | None, theirs: str | None, *, below: str = ""
    ) -> MergedTree:
        """Merge three trees; ``below`` is the path of their folder and a ``/``."""
        if theirs in (ours, base):
            return MergedTree(ours)
        if base == ours:
            return MergedTree(theirs)
        before, mine, other = (self._entries(tree) for tree in (base, ours, theirs))
        entries: list[TreeEntry] = []
        clashes: list[Clash] = []
        for name in sorted(before.keys() | mine.keys() | other.keys()):
            path = below + name.decode("utf-8", "surrogateescape")
            entry, found = self._entry(path, before.get(name), mine.get(name), other.get(name))
            entries += [entry] if entry else []
            clashes += found
        tree = self.store.write_tree(entries) if entries else None
        return MergedTree(tree, tuple(clashes))

    def _entry(
        self, path: str, base: Entry, ours: Entry, theirs: Entry
    ) -> tuple[Entry, tuple[Clash, ...]]:
        """Merge the entries with one name."""
        sides = (base, ours, theirs)
        folder = self.merge(*(_folder(side) for side in sides), below=f"{path}/")
        files = [None if _folder(side) else side for side in sides]
        file, kind = self._file(path, *files)
        if (folder.tree or folder.clashes) and (file or kind):
            return ours, (Clash(path, "file_folder", *sides),)
        if kind:
            return file, (Clash(path, kind, *files),)
        if folder.tree is None:
            return file, folder.clashes
        name = next(side.name for side in sides if side)
        return TreeEntry(name, FOLDER, folder.tree), folder.clashes

    def _file(
        self, path: str, base: Entry, ours: Entry, theirs: Entry
    ) -> tuple[Entry, ConflictKind | None]:
        """Merge the files, or links, at one path; if they conflict, return our version and the kind of the conflict."""
        if theirs in (ours, base):
            return ours, None
        if base == ours:
            return theirs, None
        if ours is None or theirs is None:
            return ours, "modify_delete"
        if ours.mode not in _REGULAR or theirs.mode not in _REGULAR:
            return ours, "link" if ours.mode == theirs.mode == LINK else "type"
        known = base if base is not None and base.mode in _REGULAR else None
        # A file that both sides added is executable if it is on one side.
        mode = _changed(known and known.mode, ours.mode, theirs.mode) or EXECUTABLE
        oid = _changed(known and known.oid, ours.oid, theirs.oid)
        if oid is None:
            contents = [
                self.store.read_blob(one.oid) if one else b"" for one in (known, ours, theirs)
            ]
            if not line_merge.is_text(*contents):
                return ours, "binary" if known else "add_add"
            merged = line_merge.merge(*contents)
            if merged is None or self.refused(path, merged):
                return ours, "text" if known else "add_add"
            oid = self.store.write_blob(merged)
        return TreeEntry(ours.name, mode, oid), None

    def _entries(self, tree: str | None) -> dict[bytes, TreeEntry]:
        return {} if tree is None else {entry.name: entry for entry in self.store.read_tree(tree)}


def _folder(side: Entry) -> str | None:
    """Return the tree of a folder; None for the empty tree, which a scan never stores."""
    is_folder = side is not None and side.mode == FOLDER and side.oid not in EMPTY
    return side.oid if side is not None and is_folder else None


def _changed(base: Value | None, ours: Value, theirs: Value) -> Value | None:
    """Return the value of the side that changed it, or of both; None if both changed it differently."""
    if theirs in (ours, base):
        return ours
    return theirs if base == ours else None
