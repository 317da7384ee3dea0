"""Scan of a workspace: stores the folder as a tree, byte for byte, and notes what a tree cannot contain.

No file in the folder changes how it is read: no ``.gitignore``, attribute, filter, hook or nested
repository.  An entry that cannot be stored stays in the folder and gets a note.  Entries that ``workspace.ignore``
matches are left out without a note.  Folders are opened by handle, and links are never followed.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from covalt_git.git_store.objects import FOLDER, BrokenStoreError, TreeEntry
from covalt_git.paths import is_plain
from covalt_git.workspaces import narrow_modes, rules
from covalt_git.workspaces.folders import (
    SET_ID,
    Folder,
    clear_set_id,
    mode_of,
    read_entry,
)
from covalt_git.workspaces.stat_cache import NOT_SCANNED, FolderScan

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from covalt_git.git_store.store import GitStore
    from covalt_git.models.project_config import WorkspaceConfig
    from covalt_git.workspaces.stat_cache import Clock, FileStat, Note

EMPTY: Final = "empty"
HOLLOW: Final = "hollow"
MODE: Final = "mode"
IGNORED: Final = "ignored"
NOT_STORED: Final = "not stored"
UNPORTABLE: Final = "unportable"
"""Kinds of notes.  That on a narrow ``mode`` has the mode as its reason.  A hollow folder, such as one with only a ``__pycache__``, is not empty, but nothing in it is stored.

Creating or deleting hollow folders does not count as a change of the workspace.
"""

LEFT_IN_PLACE: Final = frozenset({IGNORED, NOT_STORED})

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A tool makes terabytes of sparse files in a second, and no limit on the disk stops it; a scan would read zeros
# for hours.
_MAX_HOLES = 256 << 20  # bytes of sparse files that one scan reads
_MIN_SPARSE = 1 << 16  # bytes; smaller files do not count as sparse
_DENSITY = 32  # a file is sparse if its blocks have less than 1/32 of its length


def scan(
    store: GitStore,
    workspace: Path,
    config: WorkspaceConfig,
    last: FolderScan,
    clock: Clock,
    tree: str | None = None,
) -> FolderScan:
    """Store the folder at ``workspace`` and return its scan; objects are durable after a flush.

    Files that have not changed since the scan ``last`` are not read; ``clock`` has the time before this
    scan.  If nothing has changed, the result is ``last`` itself.  The store has all objects of ``tree``, the tree of
    the active branch.
    """
    with Folder.opened(workspace) as folder:
        return _Walk(store, config, clock).folder(folder.handle, "", last, tree)


@dataclass(slots=True)
class _Entries:
    """Entries of one folder during its scan; ``prefix`` is the folder's path with a slash, or empty.

    ``kept`` are the files that have not changed since the last scan; ``read`` those that this one has read.
    ``stored`` has the ids of this folder's files and folders on the branch, by name; the store has these objects.
    """

    handle: int
    prefix: str
    mode: int
    last: FolderScan
    stored: dict[str, str | None]
    kept: Mapping[str, FileStat]
    read: dict[str, FileStat] = field(default_factory=dict)
    folders: dict[str, FolderScan] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)

    def leave(self, kind: str, name: str, reason: str = "") -> None:
        """Note that an entry stays in the folder and is not in the tree."""
        self.notes.append((kind, name, reason))
        clear_set_id(self.handle, name)

    def leave_unreadable(self, name: str, error: OSError) -> None:
        """Note that an entry cannot be read, unless it was removed after the listing."""
        if not isinstance(error, FileNotFoundError):
            reason = os.strerror(error.errno or 0).lower()
            self.leave(NOT_STORED, name, f"it cannot be read: {reason}")

    @property
    def files(self) -> Mapping[str, FileStat]:
        """All stored files, by name."""
        return {**self.kept, **self.read} if self.read else self.kept

    def is_as_last(self) -> bool:
        """Return whether the stored files and folders are those of the last scan."""
        folders, files = self.last.folders, self.files
        same = files is self.last.files or files == self.last.files
        same = same and len(self.folders) == len(folders)
        return same and all(folder is folders.get(name) for name, folder in self.folders.items())


@dataclass(slots=True)
class _Walk:
    """One scan.  ``linked`` has the blobs of files with several hard links, by their stat."""

    store: GitStore
    config: WorkspaceConfig
    clock: Clock
    linked: dict[tuple[int, ...], bytes] = field(default_factory=dict)
    holes: int = 0

    def folder(self, handle: int, prefix: str, last: FolderScan, stored: str | None) -> FolderScan:
        """Store an open folder; ``stored`` is its tree on the branch."""
        status = os.fstat(handle)
        mark = (status.st_ctime_ns, status.st_ino, status.st_dev)
        # Inodes of another file system can be equal by chance, for example after the chat's folder was copied.
        if last.mark[2] != status.st_dev:
            last = NOT_SCANNED
        is_stored = last.tree is not None and last.tree == stored
        changed = _changed(handle, last.files)
        # Most folders in most scans: this alone saves a fifth of the time of a scan of 1,000 files without changes.
        if is_stored and not changed and mark == last.mark and not (last.folders or last.notes):
            return last
        # The branch's tree proves that its objects are in the store.  For all others the store is asked: git's
        # own gc or ours may have removed them
        # (test_what_only_another_branch_held_is_written_again_once_that_is_gone).
        if is_stored:
            ids = {name: folder.tree for name, folder in last.folders.items()}
        else:
            ids = self.ids_in(stored)
            changed |= {
                name
                for name, (*_, oid) in last.files.items()
                if ids.get(name) != oid.hex() and not self.store.has(oid.hex())
            }
        # What this scan reads goes into a dict of its own (`read`): this one is the last scan's, which is compared
        # with the result (test_a_file_that_was_left_out_is_stored_once_it_may_be).
        kept = last.files
        if changed or mark != last.mark:
            kept = {name: file for name, file in kept.items() if name not in changed}
        entries = _Entries(handle, prefix, status.st_mode, last, ids, kept)
        # With the same mark the folder has the same names, and is not listed.  What was left out is tried
        # again, because it can have changed in place.
        if mark == last.mark:
            rest = [*changed, *(name for kind, name, _ in last.notes if kind in LEFT_IN_PLACE)]
            for name in last.folders:
                self.subfolder(entries, name)
        else:
            rest = [name for name in os.listdir(handle) if name not in kept]
        for name in sorted(rest):
            self.entry(entries, name)
        return self.result(entries, mark, is_stored=is_stored)

    def entry(self, entries: _Entries, name: str) -> None:
        """Store one entry, or note why it is not stored."""
        path = entries.prefix + name
        try:
            status = os.lstat(name, dir_fd=entries.handle)
        except OSError as error:
            entries.leave_unreadable(name, error)
            return
        is_folder = stat.S_ISDIR(status.st_mode)
        if rules.is_ignored(self.config.ignore, path, folder=is_folder):
            entries.leave(IGNORED, name)
        elif reason := rules.why_not_named(path, name, folder=is_folder):
            entries.leave(NOT_STORED, name, reason)
        elif is_folder:
            self.subfolder(entries, name)
        else:
            self.file(entries, name, status)

    def subfolder(self, entries: _Entries, name: str) -> None:
        try:
            handle = os.open(name, _DIRECTORY, dir_fd=entries.handle)
        except OSError as error:
            entries.leave_unreadable(name, error)
            return
        last = entries.last.folders.get(name, NOT_SCANNED)
        try:
            entries.folders[name] = self.folder(
                handle, f"{entries.prefix}{name}/", last, entries.stored.get(name)
            )
        finally:
            os.close(handle)

    def file(self, entries: _Entries, name: str, status: os.stat_result) -> None:
        identity = (status.st_ino, status.st_ctime_ns, status.st_mtime_ns, status.st_size)
        # A link is judged by the folder that it is in, and some names by their content: one name of a file may
        # be stored, and another one not.
        may_be_linked = stat.S_ISREG(status.st_mode) and is_plain(name)
        oid = self.linked.get(identity) if may_be_linked else None
        if oid is None:
            try:
                reading = self.read(entries, name, status)
            except OSError as error:
                entries.leave_unreadable(name, error)
                return
            if isinstance(reading, str):
                entries.leave(NOT_STORED, name, reading)
                return
            status, content = reading
            oid = bytes.fromhex(self.store.write_blob(content))
        if status.st_nlink != 1:  # reading each name of a large file could take very long
            self.linked[identity] = oid
        changed = self.clock.trusted(status.st_ctime_ns, status.st_dev)
        rest = (status.st_mtime_ns, status.st_ino, status.st_size, status.st_mode, oid)
        entries.read[name] = (changed, *rest)

    def read(
        self, entries: _Entries, name: str, status: os.stat_result
    ) -> tuple[os.stat_result, bytes] | str:
        """Return the content of a file or link, and its status when it was read; or why it is not stored.

        Sparse files take no disk space, so no limit stops a tool from creating very many.  Only some are read.
        """
        size, used = status.st_size, status.st_blocks * 512
        if size > self.config.max_file_mb << 20:
            return f"it is larger than {self.config.max_file_mb} MiB"
        if size > _MIN_SPARSE and used * _DENSITY < size:
            self.holes += size - used
            if self.holes > _MAX_HOLES:
                return f"it is sparse, and the scan has read {_MAX_HOLES >> 20} MiB of such files"
        entry = read_entry(entries.handle, name, status, most=self.config.max_file_mb << 20)
        if entry is None:
            return "it is neither a file, a folder nor a link"
        status, content = entry
        if status.st_mode & SET_ID:
            clear_set_id(entries.handle, name)
        depth = entries.prefix.count("/")
        if stat.S_ISLNK(status.st_mode) and rules.link_climb(content) > depth:
            return "it is a link that may lead outside"
        if is_plain(name):
            return entry
        return rules.why_git_refuses(name, mode_of(status.st_mode), content) or entry

    def result(
        self, entries: _Entries, mark: tuple[int, int, int], *, is_stored: bool
    ) -> FolderScan:
        """Store the tree of a folder and return its scan."""
        last, notes = entries.last, entries.notes
        same = entries.is_as_last()
        if same:
            notes += [note for note in last.notes if note[0] in {UNPORTABLE, MODE} and note[1]]
        else:
            notes += [
                (MODE, name, f"{file[4] & 0o777:o}")
                for name, file in entries.files.items()
                if narrow_modes.is_narrow(file[4])
            ]
            names = [name for name, folder in entries.folders.items() if folder.tree is not None]
            notes += [(UNPORTABLE, *row) for row in rules.unportable([*entries.files, *names])]
        tree = last.tree if same and is_stored else self.tree(entries)
        below = (note for folder in entries.folders.values() for note in folder.all_notes())
        if tree is None and entries.prefix and not any(kind == EMPTY for kind, _, _ in below):
            notes.append((HOLLOW if entries.folders or notes else EMPTY, "", ""))
        is_stored_folder = tree is not None or (EMPTY, "", "") in notes
        if entries.prefix and is_stored_folder and narrow_modes.is_narrow(entries.mode | 0o100):
            notes.append((MODE, "", f"{entries.mode & 0o777:o}"))
        notes.sort()
        if same and mark == last.mark and (tree, tuple(notes)) == (last.tree, last.notes):
            return last
        changed, inode, device = mark
        mark = (self.clock.trusted(changed, device), inode, device)
        files, folders = MappingProxyType(entries.files), MappingProxyType(entries.folders)
        return FolderScan(mark, tree, files, folders, tuple(notes))

    def tree(self, entries: _Entries) -> str | None:
        """Store the tree of a folder; None if it would be empty."""
        rows = [
            TreeEntry(rules.encoded(name), mode_of(file[4]), file[5].hex())
            for name, file in entries.files.items()
        ]
        rows += [
            TreeEntry(rules.encoded(name), FOLDER, folder.tree)
            for name, folder in entries.folders.items()
            if folder.tree is not None
        ]
        return self.store.write_tree(rows) if rows else None

    def ids_in(self, tree: str | None) -> dict[str, str | None]:
        """Return the ids in a tree of the branch by name; nothing if it cannot be read."""
        with contextlib.suppress(BrokenStoreError):
            entries = self.store.read_tree(tree) if tree else ()
            return {os.fsdecode(entry.name): entry.oid for entry in entries}
        return {}


def _changed(handle: int, files: Mapping[str, FileStat]) -> set[str]:
    """Return the names of an open folder's known files that have changed."""
    changed = set()
    lstat = os.lstat
    for name, (ctime, mtime, inode, size, mode, _) in files.items():
        try:
            status = lstat(name, dir_fd=handle)
        except OSError:
            changed.add(name)
            continue
        # This takes a third less time than a comparison of tuples, which must be created for each file.
        if (
            status.st_ctime_ns != ctime
            or status.st_mtime_ns != mtime
            or status.st_ino != inode
            or status.st_size != size
            or status.st_mode != mode
        ):
            changed.add(name)
    return changed
