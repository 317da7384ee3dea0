"""Snapshot of a workspace: its tree, and notes on everything in the folder that is not in the tree."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import stat
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from covalt_git.models.commit_record import WorkspaceNotes
from covalt_git.workspaces import narrow_modes, scan
from covalt_git.workspaces.folders import Folder, clear_set_id
from covalt_git.workspaces.rules import path_note
from covalt_git.workspaces.stat_cache import NOT_SCANNED, FolderScan
from covalt_git.workspaces.trees import FolderState

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_MOST_LISTED = 2000


class UnstoredFile(NamedTuple):
    """A file or folder that is not stored, the reason, and what changes with it and with the files below it.

    ``below`` is None if it has too many files.
    """

    reason: str
    identity: tuple[int, ...]
    below: frozenset[tuple[Any, ...]] | None

    @property
    def changed_ns(self) -> int:
        """The latest change time of the listed files, in ns; programs cannot set it."""
        times: list[int] = [row[-1] for row in self.below or ()]
        return max(self.identity[-1], *times) if times else self.identity[-1]

    def is_same(self, other: UnstoredFile) -> bool:
        """Return whether it is unchanged, with the files below it if both have a list of them."""
        is_listed = self.below is not None and other.below is not None
        return self.identity == other.identity and (not is_listed or self.below == other.below)


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
    def of(cls, scanned: FolderScan) -> Self:
        """Return the snapshot of a scan of the workspace."""
        notes = [*scanned.all_notes()]
        narrow = [(path, int(mode, 8)) for kind, path, mode in notes if kind == scan.MODE]
        if narrow:  # the scan notes them for any umask, so that processes with several ones can share its cache
            umask, folders = narrow_modes.current_umask(), scanned.folder_paths()
            for path, mode in narrow:
                reason = narrow_modes.why_not_restored(mode, umask, folder=path in folders)
                if reason:
                    notes.append((scan.UNPORTABLE, path, reason))
        not_stored, unportable = (
            sorted(
                (path_note(path, reason) for kind, path, reason in notes if kind == noted),
                key=lambda note: note.path,
            )
            for noted in (scan.NOT_STORED, scan.UNPORTABLE)
        )
        recorded = WorkspaceNotes(
            empty_folders=tuple(sorted(path for kind, path, _ in notes if kind == scan.EMPTY)),
            not_stored=tuple(not_stored),
            unportable=tuple(unportable),
        )
        return cls(scanned.tree, recorded, scanned)

    @property
    def state(self) -> FolderState:
        """The content of the workspace."""
        return FolderState(self.tree, self.notes.empty_folders)

    def holds(self, state: FolderState) -> bool:
        """Return whether the workspace has the content ``state``; there, a hollow folder may be an empty one."""
        empty, recorded = set(self.notes.empty_folders), set(state.empty_folders)
        # Python writes a __pycache__ into an empty folder, and no commit shall be made of that.
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

    def unstored_files(self, workspace: Path) -> dict[str, UnstoredFile]:
        """Return the files and folders that are not stored, by path, without those that ``workspace.ignore`` matches.

        At most 2,000 entries of folders are listed, so that large nested repositories do not slow each call down.
        """
        notes = self.scan.all_notes()
        reasons = {path: reason for kind, path, reason in notes if kind == scan.NOT_STORED}
        files, budget = {}, _MOST_LISTED
        with contextlib.suppress(OSError), Folder.opened(workspace) as root:
            for path in sorted(reasons):
                with contextlib.suppress(OSError), root.parent_of(path) as (parent, name):
                    status = os.lstat(name, dir_fd=parent)
                    below: frozenset[tuple[Any, ...]] | None = frozenset()
                    if stat.S_ISDIR(status.st_mode):
                        rows = itertools.islice(root.files_below([path]), budget + 1)
                        below = frozenset((row[0], *_identity(row[3])) for row in rows)
                        left = budget - len(below)
                        budget, below = max(left, 0), below if left >= 0 else None
                    files[path] = UnstoredFile(reasons[path], _identity(status), below)
        return files

    def with_lost(self, before: Mapping[str, UnstoredFile], workspace: Path) -> Snapshot:
        """Return the snapshot with notes on what was not stored ``before``, and was then changed or removed."""
        unstored = self.unstored_files(workspace)
        lost = []
        for path, was in before.items():
            if path in unstored and was.is_same(unstored[path]):
                continue
            what = "was changed"
            if path not in unstored:
                status = _status(workspace, path)
                if status is not None and _identity(status)[:3] == was.identity[:3]:
                    continue  # the same file can be stored now, for example because its mode was changed
                what = "is gone" if status is None else "was replaced"
            lost.append(path_note(path, f"{what}, and {_where_not(was.reason)}: {was.reason}"))
        return replace(self, notes=self.notes.model_copy(update={"lost": tuple(lost)}))

    def with_gone(self, before: WorkspaceNotes, workspace: Path) -> Snapshot:
        """Return the snapshot with notes on what the last commit lists as not stored, and is gone."""
        there = {note.path for note in self.notes.not_stored}
        gone = tuple(
            path_note(note.path, f"is gone, and {_where_not(note.reason)}: {note.reason}")
            for note in before.not_stored
            if note.path not in there and not os.path.lexists(workspace / note.path)
        )
        return replace(self, notes=self.notes.model_copy(update={"lost": gone}))

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


def _identity(status: os.stat_result) -> tuple[int, ...]:
    """Return what changes with a file; the last one, the change time, also with its mode."""
    return (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _status(workspace: Path, path: str) -> os.stat_result | None:
    try:
        with Folder.opened(workspace) as root, root.parent_of(path) as (parent, name):
            return os.lstat(name, dir_fd=parent)
    except OSError:
        return None


def _where_not(reason: str) -> str:
    """Return where a file is not; an earlier commit may have one that cannot be read now."""
    is_unreadable = reason.startswith("it cannot be read")
    return "is not in the last commit" if is_unreadable else "is in no commit"
