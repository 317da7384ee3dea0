"""Reading trees: every file of one, one file of one, and what differs between two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalt_git.git_store import FOLDER, GitStore, TreeEntry
from covalt_git.models.chats import FileChange, FileState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True, slots=True)
class FolderState:
    """Content of a working folder; a tree of None is the empty one."""

    tree: str | None = None
    empty_folders: tuple[str, ...] = ()


Difference = tuple[str, TreeEntry | None, TreeEntry | None]
"""A path, and what each of two trees has there: a file or link, or nothing."""

EMPTY = frozenset(
    {
        "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
        "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
    }
)
"""Git's empty tree in either hash; everywhere else in this package None stands for it."""


def files(store: GitStore, tree: str | None) -> dict[str, FileState]:
    """Return every file of a tree by its path, in order; None is the empty tree."""
    return dict(_walk(store, tree, ""))


def files_in(store: GitStore, tree: str | None) -> Iterator[str]:
    """Yield the path of every file of a tree, in git's order, reading no more than is asked for."""
    return (path for path, _ in _walk(store, tree, ""))


def find(store: GitStore, tree: str | None, path: str) -> FileState | None:
    """Return one file of a tree, or None where there is none at that path."""
    *folders, name = path.split("/")
    for folder in folders:
        entry = _entries(store, tree).get(folder)
        if entry is None or entry.mode != FOLDER:
            return None
        tree = entry.oid
    entry = _entries(store, tree).get(name)
    if entry is None or entry.mode == FOLDER:
        return None
    return FileState(mode=entry.mode, oid=entry.oid)


def changes(store: GitStore, old: str | None, new: str | None) -> list[FileChange]:
    """Return the paths that differ between two trees, sorted; equal subtrees are never read."""
    return as_changes(sorted(differences(store, old, new)))


def as_changes(found: Iterable[Difference]) -> list[FileChange]:
    """Return differences as people see them."""
    return [FileChange(path=path, old=state_of(was), new=state_of(now)) for path, was, now in found]


def changed_paths(store: GitStore, old: str | None, new: str | None) -> list[str]:
    """Return only the names of the paths that differ, sorted."""
    return sorted(path for path, _, _ in differences(store, old, new))


def differences(
    store: GitStore,
    old: str | None,
    new: str | None,
    prefix: str = "",
) -> Iterator[Difference]:
    """Yield every file that differs between two trees, in no order: its path and entry in each."""
    if old == new:
        return
    for raw, was, now in store.tree_differences(old, new):
        name = raw.decode("utf-8", "surrogateescape")
        was_folder = was.oid if was is not None and was.mode == FOLDER else None
        now_folder = now.oid if now is not None and now.mode == FOLDER else None
        if was_folder or now_folder:
            yield from differences(store, was_folder, now_folder, f"{prefix}{name}/")
        was_file = None if was_folder else was
        now_file = None if now_folder else now
        if was_file != now_file:
            yield prefix + name, was_file, now_file


def _entries(store: GitStore, tree: str | None) -> dict[str, TreeEntry]:
    if tree is None:
        return {}
    return {entry.name.decode("utf-8", "surrogateescape"): entry for entry in store.read_tree(tree)}


def _walk(store: GitStore, tree: str | None, prefix: str) -> Iterator[tuple[str, FileState]]:
    for name, entry in _entries(store, tree).items():
        if entry.mode == FOLDER:
            yield from _walk(store, entry.oid, f"{prefix}{name}/")
        else:
            yield prefix + name, FileState(mode=entry.mode, oid=entry.oid)


def state_of(entry: TreeEntry | None) -> FileState | None:
    """Return the state of a file or link that a tree has; None of nothing."""
    return None if entry is None else FileState(mode=entry.mode, oid=entry.oid)
