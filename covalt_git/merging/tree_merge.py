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
        old, mine, other = (
            {entry.name: entry for entry in self.store.read_tree(tree)} if tree is not None else {}
            for tree in (base, ours, theirs)
        )
        entries: list[TreeEntry] = []
        clashes: list[Clash] = []
        for name in sorted(old.keys() | mine.keys() | other.keys()):
            path = below + name.decode("utf-8", "surrogateescape")
            entry, clashes_below = self._entry(path, old.get(name), mine.get(name), other.get(name))
            entries += [entry] if entry else []
            clashes += clashes_below
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
        # The lines of a link's target are not an earlier version of a file's.
        base_file = base if base is not None and base.mode in _REGULAR else None
        # Modes and contents are merged separately, so that chmod on one side and an edit on the other do not
        # conflict.  A file that both sides added is executable if it is on one side.
        mode = _changed(base_file and base_file.mode, ours.mode, theirs.mode) or EXECUTABLE
        oid = _changed(base_file and base_file.oid, ours.oid, theirs.oid)
        if oid is None:
            contents = [
                self.store.read_blob(side.oid) if side else b""
                for side in (base_file, ours, theirs)
            ]
            if not line_merge.is_text(*contents):
                return ours, "binary" if base_file else "add_add"
            merged = line_merge.merge(*contents)
            # Two files that may be stored can be too large together
            # (test_lines_that_make_too_large_a_file_together_are_a_conflict).
            if merged is None or self.refused(path, merged):
                return ours, "text" if base_file else "add_add"
            oid = self.store.write_blob(merged)
        return TreeEntry(ours.name, mode, oid), None


def _folder(side: Entry) -> str | None:
    """Return the tree of a folder; None for the empty tree, which a scan never stores."""
    is_folder = side is not None and side.mode == FOLDER and side.oid not in EMPTY
    return side.oid if side is not None and is_folder else None


def _changed(base: Value | None, ours: Value, theirs: Value) -> Value | None:
    """Return the value of the side that changed it, or of both; None if both changed it differently."""
    if theirs in (ours, base):
        return ours
    return theirs if base == ours else None
