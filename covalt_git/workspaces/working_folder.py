"""The working folder of a chat, as its writer moves it from one state to another."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.git_store import BrokenStoreError
from covalt_git.names import new_id
from covalt_git.paths import typed
from covalt_git.system.atomic_write import fsync
from covalt_git.workspaces import materialize, trees
from covalt_git.workspaces.chats import HEADS, MovedError
from covalt_git.workspaces.folders import Folder, create
from covalt_git.workspaces.materialize import FolderState
from covalt_git.workspaces.syncing import sync_names, sync_within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from covalt_git.models.chats import FileChange
    from covalt_git.workspaces.chats import ChatStore

_STAGING = "staging"
_JOURNAL = "switch.json"


@dataclass(frozen=True, slots=True)
class WorkingFolder:
    """The folder that tools and people work in; only whoever holds the chat's lock moves it."""

    chat: ChatStore

    @property
    def journal(self) -> Path:
        """The file that announces a switch."""
        return self.chat.folder / _JOURNAL

    def staging(self) -> Path:
        """Return the folder where files are made that are on their way into this one, and make it."""
        folder = self.chat.folder / _STAGING
        folder.mkdir(exist_ok=True)
        return folder

    def exists(self) -> bool:
        """Tell whether the workspace is there.

        Raises:
            CovaltError: when something else stands in its place.
        """
        try:
            mode = os.lstat(f"{self.chat.folder}/workspace").st_mode
        except FileNotFoundError:
            return False
        if not stat.S_ISDIR(mode):
            raise CovaltError(
                f"{self.chat.workspace} is no folder",
                hint=f"move it away, and the next command makes it again: "
                f"mv {typed(self.chat.workspace)} /tmp/",
            )
        return True

    def remove_stand_in(self) -> None:
        """Remove what a tool put in the place of the workspace, which is never a link or a file."""
        with contextlib.suppress(FileNotFoundError):
            if not stat.S_ISDIR(self.chat.workspace.lstat().st_mode):
                self.chat.workspace.unlink()

    def put(self, root: Folder, files: Iterable[tuple[str, int, bytes]]) -> None:
        """Write files, by their paths, git's modes and contents, each whole or not at all.

        The folders above them are made; ``root`` is this one, open.
        """
        staging, durable = self.staging(), self.chat.store.durable
        made = [(path, staging / new_id(), mode, content) for path, mode, content in files]
        for _, aside, mode, content in made:
            create(str(aside), mode, content)
        if durable:
            sync_within(staging)
        changed: set[str] = set().union(*(root.move_in(aside, path) for path, aside, _, _ in made))
        if durable:
            sync_names(root, changed)

    def remove(self, root: Folder, path: str) -> None:
        """Remove a file, and the folders above it that are empty then."""
        root.remove(path)
        if self.chat.store.durable:
            sync_names(root, {root.nearest(path)})

    def restore_if_missing(self) -> None:
        """Bring a folder that is not there at all, as after a clone, to the branch's manifest."""
        if self.exists():
            return
        head = self.chat.head()
        state, folder = self.chat.state(head), self.chat.workspace
        way = materialize.check_way(self.chat.store, FolderState(), state, (), folder=folder)
        self._switch(materialize.Journal(old=None, new=head, head=self.chat.store.head()), way)

    def switch(
        self, journal: materialize.Journal, way: list[trees.Difference] | None = None
    ) -> list[FileChange]:
        """Announce a switch and make it; return the paths that differ.

        ``way`` is what :func:`materialize.check_way` returned, if it was asked.
        """
        return trees.as_changes(self._switch(journal, way))

    def _switch(
        self, journal: materialize.Journal, way: list[trees.Difference] | None
    ) -> list[trees.Difference]:
        written = self.staging() / self.journal.name
        materialize.write_journal(written, journal)

        def announce() -> None:
            materialize.announce(written, self.journal, durable=self.chat.store.durable)

        if self.exists():
            return self._finish(journal, way, announce)
        if self.chat.store.durable:
            fsync(written)
        announce()  # before the folder is there: an empty one would be taken for a person's work
        return self._finish(journal, way)

    def _finish(
        self,
        journal: materialize.Journal,
        way: list[trees.Difference] | None,
        announce: Callable[[], None] = materialize.nothing_to_announce,
    ) -> list[trees.Difference]:
        """Make a switch that is announced, or will be; where the store is damaged, take it back.

        Raises:
            BrokenStoreError: when it was taken back.
            MovedError: when it was, because a push had moved the branch.
        """
        store = self.chat.store
        old, new = self.chat.state(journal.old), self.chat.state(journal.new)
        with store.new_head(journal.head) as head:
            try:
                done = self._bring(old, new, way, announce, others=(head.lock,))
                self._move_branch(journal)
            except (BrokenStoreError, MovedError):
                if self.journal.exists():
                    self._take_back(journal, old, new)
                raise
            head.put()
        self._forget(done.folders, str(store.path))
        return done.differences

    def _take_back(self, journal: materialize.Journal, old: FolderState, new: FolderState) -> None:
        folders = self._bring(new, old, None).folders
        if journal.old is None:
            # An empty folder would be taken for a person's work; none is made again.
            with contextlib.suppress(OSError):
                self.chat.workspace.rmdir()
        self._forget(folders)

    def _forget(self, folders: set[str], *others: str) -> None:
        """Forget the switch, once the names in the folders that it changed, and ``others``, are durable."""
        durable = self.chat.store.durable
        if durable and self.exists():
            with Folder.opened(self.chat.workspace) as root:
                sync_names(root, folders, others)
        elif durable:
            for other in others:
                fsync(other)
        materialize.remove_journal(self.journal, durable=durable)

    def _move_branch(self, journal: materialize.Journal) -> None:
        """Bring the branch to the manifest that the switch makes on it, unless it is there."""
        store = self.chat.store
        if not journal.moves or store.read_ref(journal.head) == journal.new:
            return
        if not store.swap_ref(journal.head, journal.before, journal.new):
            name = journal.head.removeprefix(HEADS)
            raise MovedError(f"the branch {name!r} has moved", hint="try again")

    def _bring(
        self,
        old: FolderState,
        new: FolderState,
        way: list[trees.Difference] | None,
        announce: Callable[[], None] = materialize.nothing_to_announce,
        others: Iterable[str] = (),
    ) -> materialize.Switched:
        return materialize.switch(
            self.chat.store,
            self.chat.workspace,
            old,
            new,
            staging=self.staging(),
            durable=self.chat.store.durable,
            differences=way,
            announce=announce,
            others=others,
        )

    def clear_staging(self) -> None:
        """Remove what a process that died was making."""
        try:
            left = list((self.chat.folder / _STAGING).iterdir())
        except FileNotFoundError:
            return
        for path in left:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    def finish_interrupted_switch(self) -> None:
        """Finish the switch that a process which died had announced, if there is one."""
        if not os.access(f"{self.chat.folder}/{_JOURNAL}", os.F_OK):
            return
        journal = materialize.read_journal(self.journal)
        if journal is None:
            return
        if self.exists():
            self._finish(journal, None)
        else:
            self._switch(journal.model_copy(update={"old": None}), None)
