"""Snapshot of a workspace: its tree, and notes on everything in the folder that is not in the tree."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from covalt_git.models.commit_record import WorkspaceNote, WorkspaceNotes
from covalt_git.workspaces import narrow_modes, scan
from covalt_git.workspaces.folders import Folder, clear_set_id
from covalt_git.workspaces.rules import path_note
from covalt_git.workspaces.stat_cache import NOT_SCANNED, FolderScan
from covalt_git.workspaces.trees import FolderState

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A workspace at one time.

    Attributes:
        tree: the id of its tree; None if it has no files.
        notes: the notes of its commit record.
        scan: the scan that found it; that of nothing if the snapshot was computed.
    """

    tree: str | None
    notes: WorkspaceNotes
    scan: FolderScan = field(default=NOT_SCANNED, compare=False, repr=False)

    @classmethod
    def of(cls, found: FolderScan) -> Self:
        """Return the snapshot of a scan of the workspace."""
        notes = [*found.all_notes()]
        narrow = [(path, int(mode, 8)) for kind, path, mode in notes if kind == scan.MODE]
        if narrow:  # the scan notes them for any umask, so that processes with several ones can share its cache
            umask, folders = narrow_modes.current_umask(), found.folder_paths()
            for path, mode in narrow:
                reason = narrow_modes.why_not_restored(mode, umask, folder=path in folders)
                if reason:
                    notes.append((scan.UNPORTABLE, path, reason))
        not_stored, unportable = (
            sorted(
                (path_note(path, reason) for kind, path, reason in notes if kind == wanted),
                key=lambda note: note.path,
            )
            for wanted in (scan.NOT_STORED, scan.UNPORTABLE)
        )
        recorded = WorkspaceNotes(
            empty_folders=tuple(sorted(path for kind, path, _ in notes if kind == scan.EMPTY)),
            not_stored=tuple(not_stored),
            unportable=tuple(unportable),
        )
        return cls(found.tree, recorded, found)

    @property
    def state(self) -> FolderState:
        """The content of the workspace."""
        return FolderState(self.tree, self.notes.empty_folders)

    def holds(self, state: FolderState) -> bool:
        """Return whether the workspace has the content ``state``; there, a hollow folder may be an empty one."""
        empty, recorded = set(self.notes.empty_folders), set(state.empty_folders)
        if self.tree != state.tree or not empty <= recorded:
            return False
        return empty == recorded or recorded <= empty.union(self.paths(scan.HOLLOW))

    def paths(self, *kinds: str) -> list[str]:
        """Return the paths that the scan noted for one of these reasons, as the file system spells them, sorted."""
        return sorted(path for kind, path, _ in self.scan.all_notes() if kind in kinds)

    def unstored(self) -> list[str]:
        """Return the untracked paths: those in the folder and not in the tree."""
        return self.paths(*scan.LEFT_IN_PLACE)

    def unstored_digest(self, workspace: Path) -> str:
        """Return the digest of a list of all untracked files, such as those in ``node_modules``.

        An approval covers them, because the call may load them.  Their contents are not read.  Instead, the list
        has their change times, which programs cannot set.
        """
        with Folder.opened(workspace) as root:
            files = sorted(
                (path, status) for path, _, _, status in root.files_below(self.unstored())
            )
        rows = hashlib.sha256()
        for path, status in files:
            times = status.st_mtime_ns, status.st_ctime_ns
            row = os.fsencode(path), (status.st_mode, status.st_size, status.st_ino, *times)
            rows.update(repr(row).encode())
        return f"sha256:{rows.hexdigest()}"

    def with_lost(self, before: WorkspaceNotes, workspace: Path) -> Snapshot:
        """Return the snapshot with notes on what was not stored ``before``, and was then removed or replaced."""
        remaining = {note.path for note in self.notes.not_stored}
        lost = tuple(
            WorkspaceNote(
                path=note.path,
                reason=f"{_what_happened(workspace / note.path)}, and was in no commit: {note.reason}",
            )
            for note in before.not_stored
            if note.path not in remaining
        )
        notes = self.notes.model_copy(update={"lost": lost}) if lost else self.notes
        return replace(self, notes=notes)

    def usage(self, workspace: Path) -> tuple[int, int]:
        """Return the number of files, and the sum of their lengths in bytes; without files in ignored folders."""
        sizes = [file[3] for file in self.scan.all_files()]
        with contextlib.suppress(OSError), Folder.opened(workspace) as root:
            for path in self.paths(scan.NOT_STORED):
                with contextlib.suppress(OSError), root.parent_of(path) as (parent, name):
                    status = os.lstat(name, dir_fd=parent)
                    sizes.append(status.st_size if stat.S_ISREG(status.st_mode) else 0)
        return len(sizes), sum(sizes)

    def clear_set_id(self, workspace: Path) -> None:
        """Clear set-user-ID and set-group-ID bits of the untracked files, which scans do not read."""
        with Folder.opened(workspace) as root:
            for _, parent, name, _ in root.files_below(self.unstored()):
                clear_set_id(parent, name)


def _what_happened(path: Path) -> str:
    return "was replaced" if os.path.lexists(path) else "is gone"
