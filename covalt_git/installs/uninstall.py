"""Removal of a toolset: its files, state and locks.  Chats do not change.

The toolset is removed by renaming its folder.  If the process dies after that, the next change of the
toolsets deletes the renamed folder.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.git_store.outer_repository import UnknownRevisionError, write_folder
from covalt_git.manifests.toolset_files import STATE_FOLDER, read_bundle_files
from covalt_git.names import REGISTRY_NAMESPACE, new_id
from covalt_git.system import atomic_write
from covalt_git.toolsets.overrides import check_no_approval_ends
from covalt_git.toolsets.permissions import withdraw_removed
from covalt_git.toolsets.state_store import find_toolset
from covalt_git.toolsets.tool_locks import locks_of_toolset
from covalt_git.toolsets.update_lock import REMOVED, locks_toolsets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.toolsets.toolset import Toolset


class NotInGitError(CovaltError):
    """A toolset whose files could not be restored, because they are not committed."""

    code = "not_in_git"
    http_status = 409


@locks_toolsets
def uninstall(root: Path, toolset_id: str, *, force: bool = False) -> Toolset:
    """Remove a toolset with its state and its locks, and return it.

    Raises:
        UnknownNameError: if the id does not exist; the hint has the most similar one.
        NotInGitError: if it has uncommitted files, unless ``force`` is set.
        ApprovalEndsError: if its state requires approval of calls.
        CovaltError: if it cannot be removed; it is unchanged.
    """
    toolset = find_toolset(root, toolset_id)
    if toolset_id == REGISTRY_NAMESPACE:
        raise CovaltError(
            "registered tools are removed one by one", hint="covalt-git registry remove TOOL_ID"
        )
    check_no_approval_ends(toolset_id, toolset.state.overrides)
    if not force and not is_in_git(root, toolset):
        raise NotInGitError(
            f"{toolset_id!r} or its state has uncommitted changes, which could not be restored",
            hint=f"git add {' '.join(paths_of(root, toolset_id))} && git commit, or add --force",
        )
    toolsets = root / "toolsets"
    files = [root / path for path in paths_of(root, toolset_id)[1:]]
    removed = toolsets / f"{REMOVED}{new_id()}"
    try:
        atomic_write.rename(toolset.folder, removed)
        # After the rename: without its state, an imported toolset would count as the project's own.
        for file in files:
            file.unlink(missing_ok=True)
    except OSError as error:
        reason = (error.strerror or "no reason given").lower()
        raise CovaltError(f"{toolset_id!r} cannot be removed: {reason}") from None
    shutil.rmtree(removed, ignore_errors=True)
    withdraw_removed(toolset, None)
    return toolset


def is_in_git(root: Path, toolset: Toolset) -> bool:
    """Return whether HEAD of the project's repository contains the current files of a toolset and its state."""
    folder, *files = (root / path for path in paths_of(root, toolset.id))
    try:
        with _at_head(folder) as head:
            if not head.is_dir() or read_bundle_files(head, "").digest != toolset.digest:
                return False
        for file in files:
            with _at_head(file.parent) as head:
                committed = head / file.name
                if not committed.is_file() or committed.read_bytes() != file.read_bytes():
                    return False
    except UnknownRevisionError:
        return False
    return True


@contextmanager
def _at_head(folder: Path) -> Iterator[Path]:
    """Yield a temporary copy of a folder as in the last commit."""
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name) / "head"
        write_folder(folder, "HEAD", copy)
        yield copy


def paths_of(root: Path, toolset_id: str) -> list[str]:
    """Return the paths of a toolset's folder, state file and lock files, if they exist."""
    state = f"toolsets/{STATE_FOLDER}/{toolset_id}.yaml"
    locks = [lock.path for lock in locks_of_toolset(root, toolset_id)]
    return [f"toolsets/{toolset_id}", *([state] if (root / state).is_file() else []), *locks]


def undo_command(root: Path, toolset_id: str) -> str:
    """Return the command that restores a committed toolset and its state; call this before the removal."""
    return f"git checkout HEAD -- {' '.join(paths_of(root, toolset_id))}"
