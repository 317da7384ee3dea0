"""Bringing the working folder from one state to another, touching only what differs.

A switch is announced in a journal (``switch.json``) before the first file moves and forgotten after
the last, so that a process killed between them leaves a switch that the next start finishes.  A path
that is neither as it was nor as it should be is somebody's work: it is left as it is.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from covalt_git.errors import CovaltError
from covalt_git.models.base import StrictModel
from covalt_git.workspaces import trees
from covalt_git.workspaces.folders import Folder

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from covalt_git.git_objects import GitStore
    from covalt_git.models.chats import FileChange


class InTheWayError(CovaltError):
    """Something that is not part of any state stands where a file has to go."""

    code = "in_the_way"
    http_status = 409


class Journal(StrictModel):
    """A switch that has begun: the manifests it goes from and to, and the branch HEAD goes to."""

    v: int = 1
    old: str | None
    new: str | None
    head: str


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
) -> list[FileChange]:
    """Bring the folder at ``folder`` from ``old`` to ``new``; return the paths that differ."""
    folder.mkdir(exist_ok=True)
    changes = trees.changes(store, old.tree, new.tree)
    with Folder.opened(folder) as root:
        gone = [change for change in changes if change.new is None]
        for change in gone:
            if root.state(change.path, store.object_format) == change.old:
                root.remove(change.path)
        for path in sorted(set(old.empty_folders) - set(new.empty_folders), reverse=True):
            root.remove_empty(path)
        for change in changes:
            if change.new is None:
                continue
            if root.state(change.path, store.object_format) in {change.old, None}:
                content = store.read_blob(change.new.oid)
                root.write(change.path, change.new.mode, content, staging=staging, durable=durable)
        for path in new.empty_folders:
            root.make(path)
    return changes


def check_way(
    store: GitStore, old: FolderState, new: FolderState, left_in_place: Iterable[str]
) -> None:
    """Make sure that nothing which is in no state stands where the switch writes.

    Raises:
        InTheWayError: naming the first such path; nothing was changed.
    """
    standing = set(left_in_place)
    if not standing:
        return
    for change in trees.changes(store, old.tree, new.tree):
        if change.new is None:
            continue
        above = {change.path[:at] for at, letter in enumerate(change.path) if letter == "/"}
        below = {path for path in standing if path.startswith(f"{change.path}/")}
        blocked = standing & (above | {change.path}) | below
        if blocked:
            path = min(blocked)
            raise InTheWayError(
                f"{path!r} is in the way of {change.path!r}",
                hint=f"move it out of the workspace, for example: mv {path} /tmp/",
            )


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
