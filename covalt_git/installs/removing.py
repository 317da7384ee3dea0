"""Taking a toolset out of the project: its files, its state and its lock, and nothing of any chat.

It is gone as soon as its folder has another name; whoever is killed after that leaves a hidden folder,
which the next change of the toolsets clears away.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from covalt_git.errors import CovaltError
from covalt_git.files.bundle_files import read_bundle_files
from covalt_git.files.toolsets import LOCK_FOLDER, STATE_FOLDER, Toolset
from covalt_git.git_objects.revisions import UnknownRevisionError, write_folder
from covalt_git.installs.changing import GONE, one_at_a_time
from covalt_git.installs.decisions import find_toolset
from covalt_git.names import new_id
from covalt_git.new_file import flush


class NotInGitError(CovaltError):
    """Nothing could bring the files back."""

    code = "not_in_git"
    http_status = 409


@one_at_a_time
def uninstall(root: Path, toolset_id: str, *, force: bool = False) -> Toolset:
    """Remove a toolset with its state and its lock, and return what it was.

    Raises:
        UnknownNameError: naming the nearest one.
        NotInGitError: when its files are not in the last commit as they are, unless ``force``.
        CovaltError: when it cannot be removed; it is there as it was.
    """
    toolset = find_toolset(root, toolset_id)
    if not force and not is_in_git(toolset):
        raise NotInGitError(
            f"the files of {toolset_id!r} are not in the last commit as they are,"
            " and nothing could bring them back",
            hint=f"git add toolsets/{toolset_id} && git commit, or add --force",
        )
    toolsets = root / "toolsets"
    gone = toolsets / f"{GONE}{new_id()}"
    try:
        toolset.folder.rename(gone)
        # Not before: without its state, somebody else's would be taken for one of our own.
        for kept in (STATE_FOLDER, LOCK_FOLDER):
            (toolsets / kept / f"{toolset_id}.yaml").unlink(missing_ok=True)
        flush(toolsets)
    except OSError as error:
        reason = (error.strerror or "no reason given").lower()
        raise CovaltError(f"{toolset_id!r} cannot be removed: {reason}") from None
    shutil.rmtree(gone, ignore_errors=True)
    return toolset


def is_in_git(toolset: Toolset) -> bool:
    """Tell whether the last commit of the repository around it holds the toolset as it is."""
    with tempfile.TemporaryDirectory() as folder:
        then = Path(folder) / "then"
        try:
            write_folder(toolset.folder, "HEAD", then)
        except UnknownRevisionError:
            return False
        return then.is_dir() and read_bundle_files(then, "then").digest == toolset.digest
