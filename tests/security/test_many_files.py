"""Workspaces whose many or huge files would slow down each call or download of their chat."""

import os
from pathlib import Path

from covalt_git.http_tools.files import LockedWorkspace
from covalt_git.models.project_config import WorkspaceConfig


def test_a_huge_file_of_the_same_name_is_not_read(tmp_path: Path) -> None:
    """A tool leaves a sparse file of 1 TiB under the name of a download, to exhaust the memory."""
    huge = tmp_path / "cat.png"
    huge.touch()
    os.truncate(huge, 1 << 40)

    name = LockedWorkspace(tmp_path, WorkspaceConfig(), "sha1").save("cat.png", b"cat")

    assert (name, (tmp_path / name).read_bytes()) == ("cat_1.png", b"cat")
