"""Taking a toolset out of the project: its files, its state and its locks, and nothing of any chat.

It is gone as soon as its folder has another name; whoever is killed after that leaves a hidden folder,
which the next change of the toolsets clears away.
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
from covalt_git.names import new_id
from covalt_git.system import atomic_write
from covalt_git.toolsets.state_store import find_toolset
from covalt_git.toolsets.tool_locks import locks_of_toolset
from covalt_git.toolsets.update_lock import REMOVED, locks_toolsets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.toolsets.toolset import Toolset


class NotInGitError(CovaltError):
    """Nothing could bring the files back."""

    code = "not_in_git"
    http_status = 409


@locks_toolsets
def uninstall(root: Path, toolset_id: str, *, force: bool = False) -> Toolset:
    """Remove a toolset with its state and its locks, and return what it was.

    Raises:
        UnknownNameError: naming the nearest one.
        NotInGitError: when its files are not in the last commit as they are, unless ``force``.
        CovaltError: when it cannot be removed; it is there as it was.
    """
    toolset = find_toolset(root, toolset_id)
    if not force and not is_in_git(root, toolset):
        raise NotInGitError(
            f"{toolset_id!r} is not in the last commit as it is, with what was decided about it,"
            " and nothing could bring it back",
            hint=f"git add {' '.join(paths_of(root, toolset_id))} && git commit, or add --force",
        )
    toolsets = root / "toolsets"
    kept = [root / path for path in paths_of(root, toolset_id)[1:]]
    gone = toolsets / f"{REMOVED}{new_id()}"
    try:
        atomic_write.rename(toolset.folder, gone)
        # Not before: without its state, somebody else's would be taken for one of our own.
        for file in kept:
            file.unlink(missing_ok=True)
    except OSError as error:
        reason = (error.strerror or "no reason given").lower()
        raise CovaltError(f"{toolset_id!r} cannot be removed: {reason}") from None
    shutil.rmtree(gone, ignore_errors=True)
    return toolset


def is_in_git(root: Path, toolset: Toolset) -> bool:
    """Tell whether the last commit of the repository around it holds a toolset and its state as they are."""
    folder, *kept = (root / path for path in paths_of(root, toolset.id))
    try:
        with _then(folder) as then:
            if not then.is_dir() or read_bundle_files(then, "").digest != toolset.digest:
                return False
        for file in kept:
            with _then(file.parent) as then:
                same = then / file.name
                if not same.is_file() or same.read_bytes() != file.read_bytes():
                    return False
    except UnknownRevisionError:
        return False
    return True


@contextmanager
def _then(folder: Path) -> Iterator[Path]:
    """Yield a folder as the last commit has it, written elsewhere."""
    with tempfile.TemporaryDirectory() as elsewhere:
        then = Path(elsewhere) / "then"
        write_folder(folder, "HEAD", then)
        yield then


def paths_of(root: Path, toolset_id: str) -> list[str]:
    """Return what a toolset is in the project: its folder, and its state and its locks where it has them."""
    state = f"toolsets/{STATE_FOLDER}/{toolset_id}.yaml"
    locks = [lock.path for lock in locks_of_toolset(root, toolset_id)]
    return [f"toolsets/{toolset_id}", *([state] if (root / state).is_file() else []), *locks]


def undo_command(root: Path, toolset_id: str) -> str:
    """Return the command that brings a toolset back that is in the last commit, to be asked before.

    Without its state, somebody else's toolset would come back as one of the project's own.
    """
    return f"git checkout HEAD -- {' '.join(paths_of(root, toolset_id))}"
