"""Bringing the working folder from one state to another, touching only what differs.

A switch is announced in a journal (``switch.json``) before the first file moves and forgotten after
the last, so that a process killed between them leaves a switch that the next start finishes.  A path
that is neither as it was nor as it should be is somebody's work: it is left as it is.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pydantic import ValidationError

from covalt_git.errors import CovaltError
from covalt_git.git_store import EXECUTABLE, FILE, LINK
from covalt_git.models.base import StrictModel
from covalt_git.paths import check_path, typed
from covalt_git.system.atomic_write import fsync
from covalt_git.workspaces import trees
from covalt_git.workspaces.arriving import Arriving
from covalt_git.workspaces.folders import Folder
from covalt_git.workspaces.snapshot import link_stays_inside
from covalt_git.workspaces.stat_cache import doubt

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable
    from pathlib import Path

    from covalt_git.git_store import GitStore, TreeEntry
    from covalt_git.workspaces.trees import Difference


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

    @property
    def branch(self) -> str:
        """The name of the branch that HEAD goes to."""
        return self.head.removeprefix("refs/heads/")


@dataclass(frozen=True, slots=True)
class FolderState:
    """What the folder holds or should hold; a tree of None is the empty one."""

    tree: str | None = None
    empty_folders: tuple[str, ...] = ()


class Switched(NamedTuple):
    """What differed between two states, and the folders in which names changed."""

    differences: list[Difference]
    folders: set[str]


def nothing_to_announce() -> None:
    """Change the folder without a word: it is announced already, or nobody else is to finish it."""


def switch(
    store: GitStore,
    folder: Path,
    old: FolderState,
    new: FolderState,
    *,
    staging: Path,
    durable: bool,
    differences: list[Difference] | None = None,
    announce: Callable[[], None] = nothing_to_announce,
    others: Iterable[str] = (),
) -> Switched:
    """Bring the folder at ``folder`` from ``old`` to ``new``; its names are not durable yet.

    ``differences`` is what :func:`check_way` returned, if it was asked.  All that is to come was made
    in ``staging``, and is durable with ``others``, when ``announce`` is called; only then anything
    changes.
    """
    folder.mkdir(exist_ok=True)
    if differences is None:
        differences = _sorted_differences(store, old, new)
    coming = [(path, was, now) for path, was, now in differences if now is not None]
    leaving = {path: was for path, was, now in differences if now is None}
    stays = _folders_above(path for path, _, _ in coming)
    with Folder.opened(folder) as root:
        arriving = Arriving(store, root, staging, durable)
        made = arriving.make_aside(coming, leaving, others=others)
        announce()
        changed = _leave(arriving, leaving, but=stays)
        for path in sorted(set(old.empty_folders) - set(new.empty_folders), reverse=True):
            root.remove_empty(path, but=stays)
        changed |= arriving.place(made)
        for path in new.empty_folders:
            if root.is_free(path):
                changed |= {"", *_way_to(path)}
                if not root.make(path):
                    arriving.left.append(path)
    if arriving.left:
        doubt(folder)  # somebody changed what the last look believed to be as it was
    return Switched(differences, changed)


def fill(store: GitStore, folder: Path, state: FolderState, *, staging: Path) -> None:
    """Make a folder that is not there, and bring it to a state; nothing of it is durable."""
    switch(store, folder, FolderState(), state, staging=staging, durable=False)


def _leave(
    arriving: Arriving, leaving: dict[str, TreeEntry | None], *, but: Container[str]
) -> set[str]:
    """Remove the files that go, and the folders that are empty then; return those with fewer names.

    Folders of ``but`` stay: something will come into them.
    """
    root, changed = arriving.root, set()
    for path, was in leaving.items():
        there = root.state(path, arriving.store.object_format)
        if there == trees.state_of(was):
            root.remove(path, but=but)
            changed.add(root.nearest(path))
        elif there is not None:
            arriving.left.append(path)
        else:
            # Its folder may be left, where a process died between the two.
            root.remove_empty(path.rpartition("/")[0], but=but)
    return changed


def check_way(
    store: GitStore,
    old: FolderState,
    new: FolderState,
    left_in_place: Iterable[str],
    *,
    folder: Path,
) -> list[Difference]:
    """Make sure that a switch of ``folder`` can be made, before anything is changed.

    Return what differs.

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
        return found
    for wanted, _ in files:
        below = {path for path in standing if path.startswith(f"{wanted}/")}
        _check_free(folder, wanted, standing & _way_to(wanted) | below)
    for path in sorted(set(new.empty_folders) - set(old.empty_folders)):
        _check_free(folder, path, standing & _way_to(path))
    return found


def _folders_above(paths: Iterable[str]) -> set[str]:
    """Return all folders that some paths lie in."""
    found: set[str] = set()
    for path in paths:
        above = path.rpartition("/")[0]
        while above and above not in found:
            found.add(above)
            above = above.rpartition("/")[0]
    return found


def _way_to(path: str) -> set[str]:
    """Return a path and those of the folders above it."""
    return {path} | {path[:at] for at, letter in enumerate(path) if letter == "/"}


def _check_free(folder: Path, wanted: str, blocking: set[str]) -> None:
    if blocking:
        path = min(blocking)
        raise InTheWayError(
            f"{path!r} is in the way of {wanted!r}",
            hint=f"move it out of the workspace, for example: mv {typed(folder / path)} /tmp/",
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
    found = trees.differences(store, old.tree, new.tree)
    return sorted(found, key=operator.itemgetter(0))


def write_journal(path: Path, journal: Journal) -> None:
    """Write a journal that announces nothing yet, such as one that lies in ``staging``."""
    path.write_text(journal.model_dump_json(), encoding="utf-8")


def announce(written: Path, path: Path, *, durable: bool) -> None:
    """Put a journal at ``path`` that was written, and flushed where it is to be ``durable``."""
    written.replace(path)
    if durable:
        fsync(path.parent)


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


def remove_journal(path: Path, *, durable: bool) -> None:
    """Forget the switch: it is complete."""
    path.unlink(missing_ok=True)
    if durable:
        fsync(path.parent)
