"""Notes on the workspace for a commit that is computed, as by a merge or a restore, and not scanned.

They are the notes that a scan would find if the workspace had the files of this commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.git_store import FOLDER
from covalt_git.models.commit_record import WorkspaceNotes
from covalt_git.workspaces import rules, trees
from covalt_git.workspaces.folders import folders_above
from covalt_git.workspaces.rules import path_note

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.git_store import GitStore
    from covalt_git.workspaces.trees import FolderState


def notes(
    store: GitStore, scanned: WorkspaceNotes, before: str | None, after: FolderState
) -> WorkspaceNotes:
    """Return the notes for the content ``after``; ``scanned`` are those of the last scan, which found ``before``.

    Files that could not be stored stay in place.  Names are checked only in folders with changes.
    """
    paths = trees.changed_paths(store, before, after.tree)
    changed = {folder for path in paths for folder in ("", *folders_above(path))}
    unportable = [
        note for note in scanned.unportable if note.path.rpartition("/")[0] not in changed
    ]
    for folder in changed:
        for name, reason in rules.unportable(trees.names(store, after.tree, folder)):
            unportable.append(path_note(f"{folder}/{name}" if folder else name, reason))
    return WorkspaceNotes(
        empty_folders=after.empty_folders,
        not_stored=scanned.not_stored,
        unportable=tuple(sorted(unportable, key=lambda note: note.path)),
    )


def still_empty(store: GitStore, tree: str | None, folders: Iterable[str]) -> tuple[str, ...]:
    """Return the folders among ``folders`` that stay empty with the files of a tree."""
    wanted = set(folders)
    above = {folder for path in wanted for folder in folders_above(path)}
    return tuple(path for path in sorted(wanted - above) if _has_room(store, tree, path))


def _has_room(store: GitStore, tree: str | None, path: str) -> bool:
    above = (trees.find_entry(store, tree, folder) for folder in folders_above(path))
    has_folders = all(entry is None or entry.mode == FOLDER for entry in above)
    return has_folders and trees.find_entry(store, tree, path) is None
