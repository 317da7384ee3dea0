"""Trees with some of their paths changed, made without reading what is not on the way there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.git_store import FOLDER, TreeEntry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from covalt_git.git_store import GitStore

Edits = dict[str, TreeEntry | None]
"""What goes where: a file, link or folder under whatever name, or None for nothing."""


def edited(store: GitStore, tree: str | None, edits: Mapping[str, TreeEntry | None]) -> str | None:
    """Return a tree with each of ``edits`` made; a folder that is left without a file is gone.

    A file that stands where a path needs a folder makes way for it.
    """
    if not edits:
        return tree
    entries = {} if tree is None else {entry.name: entry for entry in store.read_tree(tree)}
    below: dict[str, Edits] = {}
    for path, entry in edits.items():
        name, _, rest = path.partition("/")
        if rest:
            below.setdefault(name, {})[rest] = entry
        else:
            _put(entries, name, entry)
    for name, further in below.items():
        there = entries.get(_raw(name))
        folder = there.oid if there is not None and there.mode == FOLDER else None
        made = edited(store, folder, further)
        if made is not None:
            _put(entries, name, TreeEntry(b"", FOLDER, made))
        elif folder is not None:
            _put(entries, name, None)
    return store.write_tree(entries.values()) if entries else None


def find(store: GitStore, tree: str | None, path: str) -> TreeEntry | None:
    """Return what stands at a path of a tree, be it a folder; None where nothing does."""
    found = None if tree is None else TreeEntry(b"", FOLDER, tree)
    for name in map(_raw, path.split("/")):
        if found is None or found.mode != FOLDER:
            return None
        found = next((one for one in store.read_tree(found.oid) if one.name == name), None)
    return found


def names(store: GitStore, tree: str | None, folder: str) -> list[str]:
    """Return the names in a folder of a tree; an empty path is the tree itself."""
    found = find(store, tree, folder) if folder else tree and TreeEntry(b"", FOLDER, tree)
    if not found or found.mode != FOLDER:
        return []
    return [one.name.decode("utf-8", "surrogateescape") for one in store.read_tree(found.oid)]


def _put(entries: dict[bytes, TreeEntry], name: str, entry: TreeEntry | None) -> None:
    entries.pop(_raw(name), None)
    if entry is not None:
        entries[_raw(name)] = entry._replace(name=_raw(name))


def _raw(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
