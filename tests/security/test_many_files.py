"""Workspaces whose many or huge files would slow down each call or download of their chat."""

import os
from pathlib import Path

from covalt_git.file_edits import uploads
from covalt_git.http_tools.files import LockedWorkspace
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.workspaces.folders import Folder

MANY = 1_000


def test_a_huge_file_of_the_same_name_is_not_read(tmp_path: Path) -> None:
    """A tool leaves a sparse file of 1 TiB under the name of a download, to exhaust the memory."""
    huge = tmp_path / "cat.png"
    huge.touch()
    os.truncate(huge, 1 << 40)

    name = LockedWorkspace(tmp_path, WorkspaceConfig(), "sha1").save("cat.png", b"cat")

    assert (name, (tmp_path / name).read_bytes()) == ("cat_1.png", b"cat")


class CountingFolder(Folder):
    """A folder that counts how often it is asked whether a name is available."""

    asked = 0

    def is_free(self, path: str) -> bool:
        CountingFolder.asked += 1
        return super().is_free(path)


def test_many_numbered_names_cost_few_lookups(tmp_path: Path) -> None:
    """A tool takes the numbered names of a download, so that each next one tries all of them."""
    (tmp_path / "cat.png").write_bytes(b"other")
    for number in range(1, 2 * MANY):
        (tmp_path / f"cat_{number}.png").touch()

    with CountingFolder.opened(tmp_path) as root:
        upload = uploads.Upload("cat.png", b"cat")
        placing = uploads.place(root, [upload], "", WorkspaceConfig(), "sha1")

    assert list(placing.fresh) == [f"cat_{2 * MANY}.png"]
    assert 0 < CountingFolder.asked < 250
