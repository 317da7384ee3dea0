"""Trees of a workspace: reading, comparing and editing them without reading equal or untouched parts.

Paths use ``/``.  The empty tree is None.  :func:`notes` returns the notes of a commit that is computed, as by a merge or
a restore, and not scanned: those that a scan would find if the workspace had the files of this commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from covalt_git.git_store.objects import FOLDER, TreeEntry
from covalt_git.models.chats import FileChange, FileState
from covalt_git.models.commit_record import WorkspaceNotes
from covalt_git.workspaces import rules
from covalt_git.workspaces.folders import folders_above
from covalt_git.workspaces.narrow_modes import noted_mode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from covalt_git.git_store.store import GitStore

EMPTY = frozenset(
    {
        "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
        "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
    }
)
"""Git's empty tree in either hash, which everywhere else in this package is None."""

Edits = dict[str, TreeEntry | None]
"""The file, link or folder for each path, whatever its entry is named, or None to remove it."""


class FolderState(NamedTuple):
    """Content of a working folder."""

    tree: str | None = None
    empty_folders: tuple[str, ...] = ()


def files(store: GitStore, tree: str | None) -> dict[str, FileState]:
    """Return every file of a tree by its path, in git's order."""
    return {path: _state(entry) for path, entry in walk(store, tree) if entry.mode != FOLDER}


def walk(store: GitStore, tree: str | None, prefix: str = "") -> Iterator[tuple[str, TreeEntry]]:
    """Yield every file, link and folder of a tree with its path, in git's order; trees are read on demand."""
    for entry in () if tree is None else store.read_tree(tree):
        path = prefix + _text(entry.name)
        yield path, entry
        if entry.mode == FOLDER:
            yield from walk(store, entry.oid, f"{path}/")


def find(store: GitStore, tree: str | None, path: str) -> FileState | None:
    """Return the file or link at a path, or None."""
    entry = find_entry(store, tree, path)
    return None if entry is None or entry.mode == FOLDER else _state(entry)


def find_entry(store: GitStore, tree: str | None, path: str) -> TreeEntry | None:
    """Return the file, link or folder at a path, or None; the empty path is the tree itself."""
    entry = None if tree is None else TreeEntry(b"", FOLDER, tree)
    for name in rules.encoded(path).split(b"/") if path else ():
        if entry is None or entry.mode != FOLDER:
            return None
        entry = store.find_in_tree(entry.oid, name)
    return entry


def names(store: GitStore, tree: str | None, folder: str) -> list[str]:
    """Return the names in a folder; the empty path is the tree itself."""
    place = find_entry(store, tree, folder)
    if place is None or place.mode != FOLDER:
        return []
    return [_text(entry.name) for entry in store.read_tree(place.oid)]


def changes(store: GitStore, old: str | None, new: str | None) -> list[FileChange]:
    """Return the files and links that differ between two trees, sorted by path; equal subtrees are not read."""
    return [
        FileChange(
            path=path, old=old_entry and _state(old_entry), new=new_entry and _state(new_entry)
        )
        for path, old_entry, new_entry in sorted(_differences(store, old, new))
    ]


def changed_paths(store: GitStore, old: str | None, new: str | None) -> list[str]:
    """Return the paths that differ between two trees, sorted, without their content."""
    return sorted(path for path, _, _ in _differences(store, old, new))


def _differences(
    store: GitStore, old: str | None, new: str | None, prefix: str = ""
) -> Iterator[tuple[str, TreeEntry | None, TreeEntry | None]]:
    if old == new:
        return
    for raw, old_entry, new_entry in store.tree_differences(old, new):
        path = prefix + _text(raw)
        old_folder = old_entry.oid if old_entry is not None and old_entry.mode == FOLDER else None
        new_folder = new_entry.oid if new_entry is not None and new_entry.mode == FOLDER else None
        if old_folder or new_folder:
            yield from _differences(store, old_folder, new_folder, f"{path}/")
        old_file, new_file = None if old_folder else old_entry, None if new_folder else new_entry
        if old_file != new_file:
            yield path, old_file, new_file


def edited(store: GitStore, tree: str | None, edits: Mapping[str, TreeEntry | None]) -> str | None:
    """Write a tree with all ``edits`` applied, and return its id.

    A folder without files is removed.  A file is removed if a path needs a folder in its place.
    """
    if not edits:
        return tree
    entries: dict[bytes, TreeEntry | None] = {}
    if tree is not None:
        entries |= {entry.name: entry for entry in store.read_tree(tree)}
    below: dict[bytes, Edits] = {}
    for path, entry in edits.items():
        name, _, rest = path.partition("/")
        raw = rules.encoded(name)
        if rest:
            below.setdefault(raw, {})[rest] = entry
        else:
            entries[raw] = entry and entry._replace(name=raw)
    for raw, further in below.items():
        old = entries.get(raw)
        folder = old.oid if old is not None and old.mode == FOLDER else None
        subtree = edited(store, folder, further)
        if subtree is not None:
            entries[raw] = TreeEntry(raw, FOLDER, subtree)
        # A file or link in its place stays: an edit that removes a path below it has nothing to remove.
        elif folder is not None:
            entries[raw] = None
    left = [entry for entry in entries.values() if entry is not None]
    return store.write_tree(left) if left else None


def edited_state(
    store: GitStore, state: FolderState, edits: Mapping[str, TreeEntry | None]
) -> FolderState:
    """Write the tree of a state with all ``edits`` applied; return the new state, with the folders that stay empty."""
    tree = edited(store, state.tree, edits)
    parents = {folder for path in state.empty_folders for folder in folders_above(path)}
    empty = (
        path
        for path in sorted({*state.empty_folders} - parents)
        if find_entry(store, tree, path) is None
        and not any(find(store, tree, folder) for folder in folders_above(path))
    )
    return FolderState(tree, tuple(empty))


def notes(
    store: GitStore, scanned: WorkspaceNotes, before: str | None, after: FolderState
) -> WorkspaceNotes:
    """Return the notes for the content ``after``; ``scanned`` are those of the last scan, which found ``before``.

    Files that could not be stored stay in place.  Names are checked only in folders with changes.  A file or folder
    with a narrow mode keeps it as long as the kind of its entry is the same.
    """
    narrow = [note for note in scanned.unportable if noted_mode(note.reason) is not None]
    paths = changed_paths(store, before, after.tree)
    changed = {folder for path in paths for folder in ("", *folders_above(path))}
    unportable = [
        note
        for note in scanned.unportable
        if note not in narrow and note.path.rpartition("/")[0] not in changed
    ]
    unportable += [note for note in narrow if _stays(store, before, after, note.path)]
    for folder in changed:
        for name, reason in rules.unportable(names(store, after.tree, folder)):
            unportable.append(rules.path_note(f"{folder}/{name}" if folder else name, reason))
    return WorkspaceNotes(
        empty_folders=after.empty_folders,
        not_stored=scanned.not_stored,
        unportable=tuple(sorted(unportable, key=lambda note: note.path)),
    )


def _stays(store: GitStore, before: str | None, after: FolderState, path: str) -> bool:
    """Return whether the content ``after`` has the same kind of entry at a path as the tree ``before``."""
    old, new = find_entry(store, before, path), find_entry(store, after.tree, path)
    if old is None or new is None:
        return old is new and path in after.empty_folders
    return old.mode == new.mode


def _state(entry: TreeEntry) -> FileState:
    return FileState(mode=entry.mode, oid=entry.oid)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
