"""A tool's private folder: no other maker clears it away, and a killed maker's does not stay."""

import os
from pathlib import Path

import pytest

from covalt_git.runtime.processes import private_folder


def grow_old(folder: Path) -> None:
    os.utime(folder, (0, 0))


def names(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


@pytest.mark.parametrize("is_killed", [True, False])
def test_folder_goes_with_the_next_only_where_its_maker_was_killed(
    tmp_path: Path, *, is_killed: bool
) -> None:
    made, _, handle = private_folder.make(tmp_path)
    (made / "locked").mkdir(mode=0)
    grow_old(made)
    if is_killed:
        os.close(handle)  # as the kernel does
    private_folder.clear_left(tmp_path)

    assert names(tmp_path) == ([] if is_killed else [made.name])
    if not is_killed:
        os.close(handle)


def test_new_and_foreign_files_stay(tmp_path: Path) -> None:
    made, _, held = private_folder.make(tmp_path)
    os.close(held)  # as if its maker had not come to lock it yet
    (tmp_path / "covalt-other").mkdir()
    (tmp_path / "covalt-room-link").symlink_to(tmp_path / "covalt-other")
    (tmp_path / "covalt-room-file").write_bytes(b"")
    for name in ("covalt-other", "covalt-room-file"):
        grow_old(tmp_path / name)
    private_folder.clear_left(tmp_path)

    assert names(tmp_path) == sorted(
        [made.name, "covalt-other", "covalt-room-file", "covalt-room-link"]
    )
