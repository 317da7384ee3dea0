"""Files on their way into a folder: all made aside, made durable, and only then put in place.

A folder that is new is made aside as a whole and comes with one rename.  Nothing is put where
somebody's work is.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covalt_git.git_store import TreeEntry
from covalt_git.names import new_id
from covalt_git.workspaces import trees
from covalt_git.workspaces.folders import Folder, create
from covalt_git.workspaces.syncing import sync_within

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Sequence
    from pathlib import Path

    from covalt_git.git_store import GitStore

_OTHERS_WERE_FASTER = {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.ENOENT}

Arrival = tuple[str, TreeEntry | None, TreeEntry]
"""Where a file or link goes, what may be there now, and what it is."""


@dataclass(frozen=True, slots=True)
class Made:
    """What was made aside: a file for ``path``, or a folder with all the files below it."""

    path: str
    aside: Path
    files: Sequence[Arrival]
    is_folder: bool


@dataclass(frozen=True, slots=True)
class Arriving:
    """The files and links that come into a folder; ``staging`` is a folder of their own.

    ``left`` are the paths where something else is, which was left as it is.
    """

    store: GitStore
    root: Folder
    staging: Path
    durable: bool
    left: list[str] = field(default_factory=list)

    def bring(self, files: Sequence[Arrival]) -> set[str]:
        """Put files, sorted by path, where they go; return the folders that have new names.

        Those names are not durable yet.
        """
        return self.place(self.make_aside(files))

    def make_aside(
        self,
        files: Sequence[Arrival],
        leaving: Container[str] = (),
        *,
        others: Iterable[str] = (),
    ) -> list[Made]:
        """Do the first half of :meth:`bring`: nothing in the folder has changed yet.

        What is made is durable, and so is all else that lies beside it, and ``others`` elsewhere.
        Where something is ``leaving``, nothing will stand when it is put there.
        """
        made = list(self._make(files, leaving))
        if self.durable:
            sync_within(self.staging, others)
        return made

    def place(self, made: Sequence[Made]) -> set[str]:
        """Do the second half of :meth:`bring`, for all that was made aside."""
        folders: set[str] = set()
        for one in made:
            if not one.is_folder:
                self._place_file(one)
            elif not self._place_folder(one):
                folders |= self.bring(one.files)
            folders.add(_parent_of(one.path))
        return folders

    def _make(self, files: Sequence[Arrival], leaving: Container[str]) -> Iterator[Made]:
        at = 0
        while at < len(files):
            path, _, now = files[at]
            aside = self.staging / new_id()
            top = self.root.missing_above(path, leaving)
            if not top:
                create(str(aside), now.mode, self.store.read_blob(now.oid))
                yield Made(path, aside, files[at : at + 1], is_folder=False)
                at += 1
                continue
            below = list(itertools.takewhile(_is_below(top), files[at:]))
            aside.mkdir()
            with Folder.opened(aside) as folder:
                self._fill(folder.handle, below, len(top) + 1)
            yield Made(top, aside, below, is_folder=True)
            at += len(below)

    def _fill(self, handle: int, files: Iterable[Arrival], start: int) -> None:
        """Put files into a folder that is being made; their paths in it begin at ``start``."""
        for name, group in itertools.groupby(files, lambda file: file[0][start:].partition("/")[0]):
            below = list(group)
            path, _, now = below[0]
            if len(path) == start + len(name):
                create(name, now.mode, self.store.read_blob(now.oid), parent=handle)
                continue
            os.mkdir(name, dir_fd=handle)
            with Folder(handle).inside(name) as folder:
                assert folder is not None
                self._fill(folder.handle, below, start + len(name) + 1)

    def _place_file(self, made: Made) -> None:
        """Put a file where it goes, if nothing else is there than what was."""
        ((path, was, now),) = made.files
        name = path.rpartition("/")[2]
        with self.root.inside(_parent_of(path)) as folder:
            there = None if folder is None else folder.state(name, self.store.object_format)
            as_it_was = there is not None and there == trees.state_of(was)
            if folder is not None and (as_it_was or folder.is_free(name)):
                # Somebody may remove the folder at this moment, or make one of the name.
                with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                    os.rename(made.aside, name, dst_dir_fd=folder.handle)
                    return
        made.aside.unlink()
        if there != trees.state_of(now):
            self.left.append(path)

    def _place_folder(self, made: Made) -> bool:
        """Put a folder where it goes; return False, with nothing done, where that is not to be.

        Something is there by now, or the folder above it is gone.
        """
        try:
            with self.root.parent_of(made.path) as (parent, name):
                os.rename(made.aside, name, dst_dir_fd=parent)
        except OSError as error:
            if error.errno not in _OTHERS_WERE_FASTER:
                raise
            shutil.rmtree(made.aside)
            return False
        return True


def _is_below(folder: str) -> Callable[[Arrival], bool]:
    return lambda file: file[0].startswith(f"{folder}/")


def _parent_of(path: str) -> str:
    return path.rpartition("/")[0]
