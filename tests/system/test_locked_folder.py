"""Locked folders: the folder of a killed process is cleared, and no other one."""

import os
from pathlib import Path

from covalt_git.system import locked_folder


def test_only_the_folders_of_killed_creators_are_cleared(tmp_path: Path) -> None:
    killed = tmp_path / "room-killed"
    (killed / "locked").mkdir(mode=0, parents=True)
    (tmp_path / "room-file").touch()
    (tmp_path / "room-link").symlink_to(tmp_path)
    (tmp_path / "other").mkdir()
    left = {"room-file", "room-link", "other"}
    if os.geteuid() == 0:
        (tmp_path / "room-of-another-user").mkdir()
        os.chown(tmp_path / "room-of-another-user", 65534, -1)
        left.add("room-of-another-user")
    with locked_folder.create(tmp_path, "room-") as folder:
        locked_folder.clear(tmp_path, "room-")
        assert {path.name for path in tmp_path.iterdir()} == {*left, folder.name}

    assert {path.name for path in tmp_path.iterdir()} == left
