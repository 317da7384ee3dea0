"""Workspace notes of a commit that is made from trees, equal to those of a scan of its files."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING

from covalt_git.git_store import FOLDER
from covalt_git.models.commit_record import PathNote, WorkspaceNotes
from covalt_git.paths import check_element, collisions
from covalt_git.workspaces import trees

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from covalt_git.git_store import GitStore
    from covalt_git.workspaces.trees import FolderState


def notes(
    store: GitStore, scanned: WorkspaceNotes, before: str | None, after: FolderState
) -> WorkspaceNotes:
    """Return the notes of a folder that was ``scanned`` at the tree ``before`` and goes to ``after``.

    Files that could not be stored stay in place.  Names are checked only in folders with changes.
    """
    changed = {
        above
        for path in trees.changed_paths(store, before, after.tree)
        for above in ("", *_ways(path.rpartition("/")[0]))
    }
    same = [note for note in scanned.unportable if note.path.rpartition("/")[0] not in changed]
    fresh = [note for folder in changed for note in _unportable(store, after.tree, folder)]
    return WorkspaceNotes(
        empty_folders=after.empty_folders,
        not_stored=scanned.not_stored,
        unportable=tuple(sorted([*same, *fresh], key=lambda note: note.path)),
    )


def still_empty(store: GitStore, tree: str | None, folders: Iterable[str]) -> tuple[str, ...]:
    """Return those of the folders that stay empty with the files of a tree."""
    wanted = set(folders)
    above = {way for path in wanted for way in _ways(path) if way != path}
    return tuple(path for path in sorted(wanted - above) if _has_room(store, tree, path))


def _has_room(store: GitStore, tree: str | None, path: str) -> bool:
    *above, itself = (trees.find_entry(store, tree, way) for way in _ways(path))
    return itself is None and all(one is None or one.mode == FOLDER for one in above)


def _unportable(store: GitStore, tree: str | None, folder: str) -> Iterator[PathNote]:
    names = sorted(trees.names(store, tree, folder))
    for name in names:
        verdict = check_element(name)
        if verdict.kind == "unportable":
            yield _note(folder, name, verdict.reason)
    for first, second in collisions(names):
        yield _note(folder, second, f"some systems take it for {first!r}")


def _note(folder: str, name: str, reason: str) -> PathNote:
    path = f"{folder}/{name}" if folder else name
    return PathNote(path=os.fsencode(path).decode("utf-8", "backslashreplace"), reason=reason)


def _ways(path: str) -> Iterator[str]:
    """Yield the folders above a path, and the path."""
    return itertools.accumulate(path.split("/"), lambda above, name: f"{above}/{name}")
