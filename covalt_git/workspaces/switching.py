"""Switches of a chat's workspace from the files of one commit to the files of another.

Each step of a switch is durable before the next one begins:

1. the new content of all changed files, and the journal, are written into ``staging/``;
2. the journal is renamed to ``switch.json``, which announces the switch;
3. each path that still has the content of the old commit, or is missing, is replaced or removed; any other content
   is a user's edit, which stays;
4. if the switch brings a new commit, the branch moves to it; then HEAD changes;
5. ``switch.json`` is removed.

If a process dies after step 2, the next holder of the chat's lock repeats the switch
(:meth:`WorkingFolder.roll_forward`).  Paths that have their new content already do not change again.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ValidationError

from covalt_git.errors import CovaltError
from covalt_git.git_store.objects import EXECUTABLE, FILE, FOLDER, LINK, BrokenStoreError
from covalt_git.models.base import One, StrictModel
from covalt_git.paths import check_path, typed
from covalt_git.system.atomic_write import fsync_many, fsync_tree
from covalt_git.system.remove_tree import remove_tree
from covalt_git.workspaces import trees
from covalt_git.workspaces.chat import HEADS, MovedError, move_branch
from covalt_git.workspaces.folders import Folder, create, folders_above, unless_changed
from covalt_git.workspaces.rules import link_climb

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

    from covalt_git.git_store.objects import TreeEntry
    from covalt_git.git_store.store import GitStore
    from covalt_git.models.chats import FileChange, FileState
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.trees import FolderState

_STAGING = "staging"
_JOURNAL = "switch.json"


class Journal(StrictModel):
    """An announced switch: from the commit ``old`` to ``new``, after which HEAD names the branch ``head``.

    If the switch ``moves`` that branch, it moves from the commit ``before`` (None: it is new) to ``new``.  A switch
    that ``undoes`` another one is the way back to the files from before it.
    """

    v: One = 1
    old: str | None
    new: str | None
    head: str
    moves: bool = False
    before: str | None = None
    undoes: bool = False

    @property
    def branch(self) -> str:
        """The name of the branch that HEAD goes to."""
        return self.head.removeprefix(HEADS)


class Switch:
    """The ``changes`` of files and links that bring a workspace from the content ``old`` to the content ``new``."""

    def __init__(self, chat: ChatStore, old: FolderState, new: FolderState) -> None:
        """Compare the two trees."""
        self.chat = chat
        self.changes = trees.changes(chat.store, old.tree, new.tree)
        self._new_empty = set(new.empty_folders) - set(old.empty_folders)
        self._old_empty = set(old.empty_folders) - set(new.empty_folders)
        self._staged: dict[str, Path] = {}

    def check(self, unstored: Collection[str] = ()) -> None:
        """Check that the switch is possible, before anything is changed.

        Args:
            unstored: the untracked paths in the folder.

        Raises:
            CovaltError: with the code ``in_the_way`` if an untracked path is where a file must be written, with
                ``unsafe_tree`` if the new state contains a path that a scan never stores.
        """
        arriving = {change.path: change.new for change in self.changes if change.new is not None}
        for path, entry in arriving.items():
            _check_safe(self.chat.store, path, entry)
        blocking = sorted(unstored)
        for path in sorted(arriving.keys() | self._new_empty) if blocking else ():
            above = {path, *folders_above(path)}
            for other in blocking:
                # A new empty folder may have untracked files in it already; a new file cannot.
                if other in above or (path in arriving and other.startswith(f"{path}/")):
                    message = f"{other!r} is in the way of {path!r}"
                    if other == path and path in arriving:
                        message = f"{path!r} is not overwritten, because the file in the workspace is not stored in the last commit"
                    raise CovaltError(
                        message,
                        hint="move it out of the workspace, for example: "
                        f"mv {typed(self.chat.workspace / other)} /tmp/",
                        code="in_the_way",
                        http_status=409,
                    )

    def stage(self, staging: Path) -> list[Path]:
        """Write the new content of each changed file into the folder ``staging``; nothing is fsynced."""
        for number, change in enumerate(self.changes):
            if change.new is not None:
                file = self._staged[change.path] = staging / str(number)
                create(str(file), change.new.mode, self.chat.store.read_blob(change.new.oid))
        return [*self._staged.values()]

    def place(self, root: Folder) -> bool:
        """Change each path that still has its old content, and fsync; return whether no path had other content."""
        store, is_complete = self.chat.store, True
        # A folder whose only file gives way to another one, or to nothing, stays the folder that it was: its mode is
        # in no commit, and a process may have it as its current folder
        # (test_a_folder_that_loses_its_files_and_stays_is_the_same_folder).
        stay = self._new_empty.union(*map(folders_above, (*self._staged, *self._new_empty)))
        hollow = set(self._old_empty)
        # Removals come before moves: a file can be where a new file needs a folder (`f`, then `f/i`), and a
        # folder where a new file comes (`g/h`, then `g`), which no rename replaces, not even an empty one
        # (STEPS in test_roll_forward.py).
        for change in self.changes:
            if change.new is None:
                present = root.state(change.path, store.object_format)
                # No system call removes a file only if it has a certain content. The chat's lock excludes tools and
                # other commands, but an editor can save between the read and the unlink, and that edit is lost.
                # So the content is read just before, and not once for all files.
                # If a folder takes its place at this moment, it stays, and the next scan finds it.
                if present == change.old:
                    root.unlink(change.path)
                # None: a switch that was killed has removed it, or a user has; its folder may still be left.
                if present in (None, change.old):
                    hollow.add(change.path.rpartition("/")[0])
                else:
                    is_complete = False
        # Folders after all files: before, one that loses all its files still has some of them.
        for path in sorted(hollow):
            root.remove_empty(path, but=stay)
        for change in self.changes:
            if change.new is not None:
                present = root.state(change.path, store.object_format)
                # None: a new file, or one that was deleted after the scan; it comes back, because that loses no content.
                is_old = present in (None, change.old)
                if present is not None and is_old:
                    _take_narrow_mode(root, change.path, self._staged[change.path])
                # As with the removals, an edit that is saved between the read and the rename is lost.
                is_placed = is_old and root.move_in(self._staged[change.path], change.path)
                # The new content is there already if this switch is repeated after a kill.
                is_complete &= is_placed or present == change.new
        # An empty folder can come where a file had to go first.
        for path in sorted(self._new_empty):
            is_complete &= root.make(path)
        empty = self._old_empty | self._new_empty
        paths = empty.union(change.path for change in self.changes)
        # Only the names: the content was fsynced in staging.  HEAD and the journal follow when these are durable.
        if paths and store.durable:
            root.fsync(empty.union(*map(folders_above, paths), {""}))
        return is_complete


def _take_narrow_mode(root: Folder, path: str, staged: Path) -> None:
    """Restrict a staged file as the file that it replaces: others must not get access to it by an edit or undo."""
    # Git stores of a mode only whether the file is executable, so an undo turned 0600 into 0644 without a word
    # (test_a_narrow_mode_stays_as_long_as_the_file_does). In staging, because after the rename others could open the file before
    # its mode changes.  Only narrower: a mode wider than that of a new file is not kept.  A link has no rights of its own,
    # and chmod would follow it.
    with unless_changed(), root.parent_of(path) as (parent, name):
        mode, new = (os.lstat(name, dir_fd=parent).st_mode, staged.lstat().st_mode)
        # If a plain file becomes a program, each user who may read it may execute it.
        usual = mode | (mode & 0o444) >> 2
        if stat.S_ISREG(mode) and stat.S_ISREG(new) and new & ~usual & 0o777:
            staged.chmod(new & usual & 0o777)


def write_folder(store: GitStore, state: FolderState, folder: Path) -> None:
    """Create ``folder`` with the files of a state; nothing is fsynced.

    Raises:
        CovaltError: with the code ``unsafe_tree`` if the state contains a path that a scan never stores.
    """
    folder.mkdir()
    with Folder.opened(folder) as root:
        _write_tree(store, root, state.tree)
        for path in state.empty_folders:
            root.make(path)


def _write_tree(store: GitStore, folder: Folder, tree: str | None, prefix: str = "") -> None:
    for entry in () if tree is None else store.read_tree(tree):
        name = os.fsdecode(entry.name)
        _check_safe(store, prefix + name, entry)
        if entry.mode != FOLDER:
            create(name, entry.mode, store.read_blob(entry.oid), parent=folder.handle)
            continue
        os.mkdir(name, dir_fd=folder.handle)
        with folder.inside(name) as below:
            _write_tree(store, below, entry.oid, f"{prefix}{name}/")


def _check_safe(store: GitStore, path: str, entry: FileState | TreeEntry) -> None:
    """Check that a scan would store an entry that was perhaps created with git alone."""
    verdict = check_path(path)
    reason = verdict.reason if verdict.kind == "refused" else ""
    if entry.mode not in {FILE, EXECUTABLE, LINK, FOLDER}:
        reason = "it is neither a file, a link nor a folder"
    elif entry.mode == LINK and link_climb(store.read_blob(entry.oid)) > path.count("/"):
        reason = "it is a link that may lead outside"
    if reason:
        raise CovaltError(
            f"{path!r} of that commit cannot be written to the workspace: {reason}",
            hint="remove it from the branch with git, or check out another branch",
            code="unsafe_tree",
        )


class WorkingFolder(NamedTuple):
    """The workspace folder of a chat.  Only the holder of the chat's lock may call methods that change it."""

    chat: ChatStore

    @property
    def journal(self) -> Path:
        """The file that announces a switch."""
        return self.chat.folder / _JOURNAL

    @contextlib.contextmanager
    def _staging(self) -> Iterator[Path]:
        """Yield a new folder for files on their way into the workspace; remove it after the block."""
        self.clear_staging()
        folder = self.chat.folder / _STAGING
        folder.mkdir()
        try:
            yield folder
        finally:
            self.clear_staging()

    def clear_staging(self) -> None:
        """Remove the staged files of a killed process."""
        remove_tree(self.chat.folder / _STAGING)

    def exists(self) -> bool:
        """Return whether the workspace exists.

        Raises:
            CovaltError: when another kind of file is in its place.
        """
        try:
            mode = self.chat.workspace.lstat().st_mode
        except FileNotFoundError:
            return False
        if not stat.S_ISDIR(mode):
            raise CovaltError(
                f"{self.chat.workspace} is not a folder",
                hint=f"move it away, and the next command restores the folder: "
                f"mv {typed(self.chat.workspace)} /tmp/",
            )
        return True

    def remove_non_folder(self) -> None:
        """Remove a file or link that the tool of an interrupted call put in the place of the workspace.

        A user's own one is refused by :meth:`exists`.
        """
        with contextlib.suppress(OSError):  # unlink() fails for a folder, which must stay
            self.chat.workspace.unlink()

    def restore_if_missing(self) -> bool:
        """Write the files of the active branch if the workspace is missing, for example in a clone of the project.

        Returns whether it was missing.
        """
        if self.exists():
            return False
        self._write(self.chat.state(self.chat.head()))
        return True

    def _write(self, state: FolderState) -> None:
        """Create the workspace with all its files by one rename; an empty workspace would look like a user's edit."""
        with self._staging() as staging:
            folder = staging / self.chat.workspace.name
            # Before the rename, so that a damaged object or a full disk leaves no part of a workspace
            # (test_folder_that_cannot_be_brought_back_whole_is_not_taken_for_emptied).
            write_folder(self.chat.store, state, folder)
            if self.chat.store.durable:
                fsync_tree(folder)
            folder.rename(self.chat.workspace)
        self._fsync([self.chat.folder])

    def switch(self, journal: Journal, unstored: Collection[str] = ()) -> list[FileChange]:
        """Switch the folder, the branch and HEAD, and return the changes of the folder.

        ``unstored`` are the untracked paths in the folder.  After each of these errors, the folder has its old
        files.

        Raises:
            CovaltError: with the code ``in_the_way`` if an untracked path is where a file must be written, with
                ``unsafe_tree`` if the new commit contains a path that a scan never stores.
            BrokenStoreError: if the store is damaged; a switch that was announced is undone.
            MovedError: if a push moved the branch in the meantime; the switch is undone.
        """
        store = self.chat.store
        new = self.chat.state(journal.new)
        switch = Switch(self.chat, self.chat.state(journal.old), new)
        try:
            # An undo is not checked: it writes only files that were in this workspace before.
            if not journal.undoes:
                switch.check(unstored)
            # A workspace that is missing was restored when the chat was opened, except for a switch that a killed process
            # has announced.
            if not self.exists():
                self._write(new)
            self._carry_out(switch, journal)
            # The branch after the files, so that the way back has only files to undo.  It has moved already if
            # this switch is repeated after a kill.
            if journal.moves and store.read_ref(journal.head) != journal.new:
                move_branch(store, journal.branch, journal.before, journal.new)
            # Only if it changes, so that an upload or a merge needs no lock of HEAD
            # (test_switch_that_keeps_head_needs_no_lock_of_it).
            if store.head() != journal.head:
                store.set_head(journal.head)
        # After an OSError, such as a full disk, an announced switch keeps its journal, and the next writer repeats it.
        except (BrokenStoreError, MovedError):
            # Without a journal, no file has changed yet.  A way back that fails keeps its journal for the next
            # writer, which repeats it; a way back of it would lead forward again.
            if self.journal.exists() and not journal.undoes:
                way_back = Journal(old=journal.new, new=journal.old, head=store.head(), undoes=True)
                self.switch(way_back)
            raise
        if journal.undoes and journal.new is None:
            with contextlib.suppress(OSError):  # an empty folder would count as a user's edit
                self.chat.workspace.rmdir()
        self.journal.unlink()
        self._fsync([self.chat.folder])
        return switch.changes

    def _carry_out(self, switch: Switch, journal: Journal) -> None:
        """Stage the files, announce the switch and place the files."""
        # All that can fail (a full disk, a damaged object) comes before the announcement, and one fsync is
        # enough for all: the journal is staged with the files, and only its rename makes it count.
        with self._staging() as staging:
            announced = staging / _JOURNAL
            announced.write_text(journal.model_dump_json(), encoding="utf-8")
            self._fsync([*switch.stage(staging), announced])
            announced.replace(self.journal)
            self._fsync([self.chat.folder])
            with Folder.opened(self.chat.workspace) as root:
                if not switch.place(root):
                    # The next scan reads every file: one with other content can have the stat that the cache knows
                    # (a write by mmap).
                    self.chat.stat_cache.clear()

    def _fsync(self, paths: Iterable[Path]) -> None:
        """Fsync files and folders if the chat is durable."""
        if self.chat.store.durable:
            fsync_many([str(path) for path in paths])

    def announced(self) -> Journal | None:
        """Return the journal of an announced, unfinished switch, if there is one.

        Raises:
            CovaltError: if ``switch.json`` is not a journal.
        """
        try:
            return Journal.model_validate_json(self.journal.read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError:
            raise CovaltError(
                f"{self.journal} is not a switch journal",
                hint=f"inspect it, then remove it: rm {typed(self.journal)}",
            ) from None

    def roll_forward(self) -> None:
        """Complete the unfinished switch of a killed process, if there is one."""
        journal = self.announced()
        if journal is not None:
            self.switch(journal)

    def edits(self, scanned: str | None, announced: Journal | None) -> list[FileChange]:
        """Return the uncommitted changes of the folder; ``scanned`` is the tree of its scan.

        During an ``announced`` switch, the changes are relative to the new commit, and a path that still has the
        content of the old commit does not count as changed.
        """
        chat = self.chat
        new = chat.head() if announced is None else announced.new
        changes = chat.tree_changes(chat.state(new).tree, scanned)
        if announced is None:
            return changes
        old = chat.state(announced.old).tree
        return [
            change for change in changes if change.new != trees.find(chat.store, old, change.path)
        ]
