"""Bringing the working folder from one state to another, touching only what differs.

A switch is announced in a journal (``switch.json``) before the first file moves and forgotten after
the last, so that a process killed between them leaves a switch that the next start finishes.  A path
that is neither as it was nor as it should be is somebody's work: it is left as it is.
"""

from __future__ import annotations

import errno
import itertools
import operator
import os
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from covalt_git.errors import CovaltError
from covalt_git.git_objects import EXECUTABLE, FILE, LINK
from covalt_git.models.base import StrictModel
from covalt_git.names import new_id
from covalt_git.paths import check_path
from covalt_git.workspaces import trees
from covalt_git.workspaces.folders import Folder, create
from covalt_git.workspaces.snapshot import link_stays_inside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from covalt_git.git_objects import GitStore, TreeEntry
    from covalt_git.workspaces.trees import Difference

    Arrival = tuple[str, TreeEntry | None, TreeEntry]


class InTheWayError(CovaltError):
    """Something that is not part of any state stands where a file has to go."""

    code = "in_the_way"
    http_status = 409


class UnsafeTreeError(CovaltError):
    """A state that somebody made with git alone holds what must not come into a folder."""

    code = "unsafe_tree"


class Journal(StrictModel):
    """A switch that has begun: the manifests it goes from and to, and the branch HEAD goes to.

    Where ``moves``, that branch comes from the manifest ``before`` (None: it is new) to ``new`` in
    the end, so that files and branch change together.
    """

    v: int = 1
    old: str | None
    new: str | None
    head: str
    moves: bool = False
    before: str | None = None


@dataclass(frozen=True, slots=True)
class FolderState:
    """What the folder holds or should hold; a tree of None is the empty one."""

    tree: str | None = None
    empty_folders: tuple[str, ...] = ()


def switch(
    store: GitStore,
    folder: Path,
    old: FolderState,
    new: FolderState,
    *,
    staging: Path,
    durable: bool,
) -> list[Difference]:
    """Bring the folder at ``folder`` from ``old`` to ``new``; return what differs between them."""
    folder.mkdir(exist_ok=True)
    differences = _sorted_differences(store, old, new)
    with Folder.opened(folder) as root:
        for path, was, now in differences:
            there = root.state(path, store.object_format) if now is None else None
            if now is None and there == trees.state_of(was):
                root.remove(path)
            elif now is None and there is None:
                # Its folder may be left, where a process died between the two.
                root.remove_empty(path.rpartition("/")[0])
        for path in sorted(set(old.empty_folders) - set(new.empty_folders), reverse=True):
            root.remove_empty(path)
        arriving = _Arriving(store, root, staging, durable)
        arriving.put([(path, was, now) for path, was, now in differences if now is not None])
        for path in new.empty_folders:
            if root.is_free(path):
                root.make(path)
    return differences


@dataclass(frozen=True, slots=True)
class _Arriving:
    """The files and links that come into a folder."""

    store: GitStore
    root: Folder
    staging: Path
    durable: bool

    def put(self, files: list[Arrival]) -> None:
        """Put files, sorted by path, where they go, unless somebody's work is there."""
        while files:
            path = files[0][0]
            top = self.root.missing_above(path)
            together = list(itertools.takewhile(_goes_with(path, top), files))
            if not top:
                self._put_in(_parent_of(path), together)
            elif not self._make(top, together):
                continue  # somebody was faster, and something is there now
            files = files[len(together) :]

    def _put_in(self, parent: str, files: list[Arrival]) -> None:
        """Put files into one folder that is there."""
        with self.root.inside(parent) as folder:
            if folder is None:
                return
            for path, was, now in files:
                name = path.rpartition("/")[2]
                as_it_was = was is not None and trees.state_of(was) == folder.state(
                    name, self.store.object_format
                )
                if as_it_was or folder.is_free(name):
                    content = self.store.read_blob(now.oid)
                    folder.put(name, now.mode, content, staging=self.staging, durable=self.durable)
            if self.durable:
                os.fsync(folder.handle)

    def _make(self, top: str, files: list[Arrival]) -> bool:
        """Make a folder with all that goes into it aside, and put it where it goes.

        Return False, with nothing done, where something stands there by then.
        """
        aside = self.staging / new_id()
        aside.mkdir()
        with Folder.opened(aside) as made:
            self._fill(made.handle, files, len(top) + 1)
        try:
            with self.root.parent_of(top) as (parent, name):
                os.rename(aside, name, dst_dir_fd=parent)
                if self.durable:
                    os.fsync(parent)
        except OSError as error:
            if error.errno not in {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR}:
                raise
            shutil.rmtree(aside)
            return False
        return True

    def _fill(self, handle: int, files: Iterable[Arrival], start: int) -> None:
        """Put files into a folder that is being made; their paths in it begin at ``start``."""
        for name, group in itertools.groupby(files, lambda file: file[0][start:].partition("/")[0]):
            below = list(group)
            path, _, now = below[0]
            if len(path) == start + len(name):
                content = self.store.read_blob(now.oid)
                create(name, now.mode, content, durable=self.durable, parent=handle)
                continue
            os.mkdir(name, dir_fd=handle)
            with Folder(handle).inside(name) as folder:
                assert folder is not None
                self._fill(folder.handle, below, start + len(name) + 1)
        if self.durable:
            os.fsync(handle)


def check_way(
    store: GitStore, old: FolderState, new: FolderState, left_in_place: Iterable[str]
) -> None:
    """Make sure that a switch can be made, before anything is changed.

    Raises:
        InTheWayError: when something that is in no state stands where the switch writes.
        UnsafeTreeError: when the new state holds what a snapshot would never store.
    """
    found = _sorted_differences(store, old, new)
    files = [(path, now) for path, _, now in found if now is not None]
    for path, now in files:
        _check_safe(store, path, now)
    standing = set(left_in_place)
    if not standing:
        return
    for wanted, _ in files:
        below = {path for path in standing if path.startswith(f"{wanted}/")}
        _check_free(wanted, standing & _way_to(wanted) | below)
    for path in sorted(set(new.empty_folders) - set(old.empty_folders)):
        _check_free(path, standing & _way_to(path))


def _way_to(path: str) -> set[str]:
    """Return a path and those of the folders above it."""
    return {path} | {path[:at] for at, letter in enumerate(path) if letter == "/"}


def _check_free(wanted: str, blocking: set[str]) -> None:
    if blocking:
        path = min(blocking)
        raise InTheWayError(
            f"{path!r} is in the way of {wanted!r}",
            hint=f"move it out of the workspace, for example: mv {shlex.quote(path)} /tmp/",
        )


def _check_safe(store: GitStore, path: str, entry: TreeEntry) -> None:
    verdict = check_path(path)
    reason = verdict.reason if verdict.kind == "refused" else ""
    if entry.mode not in {FILE, EXECUTABLE, LINK}:
        reason = "it is neither a file nor a link"
    elif entry.mode == LINK and not link_stays_inside(
        store.read_blob(entry.oid), depth=path.count("/")
    ):
        reason = "it is a link that may lead outside"
    if reason:
        raise UnsafeTreeError(
            f"{path!r} of that state cannot be brought into the folder: {reason}",
            hint="remove it with git from the branch, or check out another",
        )


def _sorted_differences(store: GitStore, old: FolderState, new: FolderState) -> list[Difference]:
    return sorted(trees.differences(store, old.tree, new.tree), key=operator.itemgetter(0))


def _goes_with(path: str, top: str) -> Callable[[Arrival], bool]:
    """Tell files that arrive together with the first: below a new folder, or in the same one."""
    if top:
        return lambda file: file[0].startswith(f"{top}/")
    return lambda file: _parent_of(file[0]) == _parent_of(path)


def _parent_of(path: str) -> str:
    return path.rpartition("/")[0]


def write_journal(path: Path, journal: Journal) -> None:
    """Put the journal at ``path``, whole and durable."""
    temporary = path.with_suffix(".tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(journal.model_dump_json())
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def read_journal(path: Path) -> Journal | None:
    """Return the journal of a switch that was interrupted, or None."""
    try:
        return Journal.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError:
        raise CovaltError(
            f"{path} is not a journal of ours", hint=f"look at it, then remove it: rm {path}"
        ) from None


def remove_journal(path: Path) -> None:
    """Forget the switch: it is complete."""
    path.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_all(path: Path) -> None:
    """Make a folder durable with all that is in it: once it is written, which is the quicker way."""
    for folder, _, names in os.walk(path, topdown=False):
        for name in names:
            sync_folder(Path(folder, name))
        sync_folder(Path(folder))
