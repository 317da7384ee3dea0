"""Index of a project's toolsets at a commit, in a separate file."""

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
    on_progress: Callable[[int, int], None] = ignore_progress,
) -> tuple[str, dict[str, int]]:
    """Write an index of the project's toolsets at a commit into a new file.

    It has no chats, because they are not in the repository.  The rows depend only on the commit.  The project's
    index and files are not changed.

    Returns:
        The id of the commit, and the number of rows of each table.

    Raises:
        UnknownRevisionError: if the repository has no such commit.
        FileExistsError: if the file already exists.
    """
    with tempfile.TemporaryDirectory(prefix="covalt-git-") as name:
        folder = Path(name)
        commit, _ = write_folder(root / "toolsets", revision, folder / "toolsets")
        with ToolQueries.open(folder, WorkspaceConfig(), on_progress) as index:
            index.sync_toolsets()
            # The signatures are of the temporary folder.
            index.connection.execute("UPDATE toolset_readings SET signature = '', paths = x''")
            counts = index.counts()
        file.parent.mkdir(parents=True, exist_ok=True)
        # Without a write-ahead log, the one file has all rows that were committed.
        with file.open("xb") as target, index.path.open("rb") as source:
            shutil.copyfileobj(source, target)
    return commit, counts
