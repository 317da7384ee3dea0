"""Index of the toolsets of a project at a commit, in a file of its own."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.git_store.outer_repository import write_folder
from covalt_git.index.tool_queries import ToolQueries
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.system.fork_pool import ignore_progress

if TYPE_CHECKING:
    from collections.abc import Callable


def write_revision(
    root: Path,
    revision: str,
    file: Path,
    told: Callable[[int, int], None] = ignore_progress,
) -> tuple[str, dict[str, int]]:
    """Write an index of the project's toolsets at a commit into a new file.

    It has no chats, as they are not checked in.  The same commit always gives the same rows.  The
    index and the files of the project are not changed.

    Returns:
        The id of the commit, and the number of rows of each table.

    Raises:
        UnknownRevisionError: when the repository has no such commit.
        FileExistsError: when the file already exists.
    """
    with tempfile.TemporaryDirectory(prefix="covalt-git-") as name:
        past = Path(name)
        commit = write_folder(root / "toolsets", revision, past / "toolsets")
        made = past / "index.db"
        with ToolQueries.open(past, WorkspaceConfig(), made, told) as index:
            index.sync_toolsets()
            # Signatures of files are of this checkout, not of the commit.
            index.connection.execute("UPDATE toolset_readings SET signature = '', paths = x''")
            counts = index.counts()
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("xb") as target, made.open("rb") as source:
            shutil.copyfileobj(source, target)
    return commit, counts
