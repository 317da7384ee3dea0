"""A tool's private folder: no other maker clears it away, and a killed maker's does not stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from covalt_git.runtime.processes import private_folder

if TYPE_CHECKING:
    from pathlib import Path

MAKER = """
import sys, time
from pathlib import Path
from covalt_git.runtime.processes import private_folder
path, _, held = private_folder.make(Path(sys.argv[1]))
print(path, flush=True)
time.sleep(60)
"""


def grow_old(folder: Path) -> None:
    os.utime(folder, (0, 0))


def names(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


@pytest.mark.parametrize("dies", [True, False])
def test_folder_goes_with_the_next_only_where_its_maker_was_killed(
    tmp_path: Path, *, dies: bool
) -> None:
    command = [sys.executable, "-c", MAKER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as maker:
        assert maker.stdout is not None
        made = maker.stdout.readline().strip()
        (tmp_path / made / "locked").mkdir(mode=0)
        grow_old(tmp_path / made)
        if dies:
            maker.send_signal(signal.SIGKILL)
            maker.wait()
        private_folder.clear_left(tmp_path)
        left = names(tmp_path)
        maker.kill()

    assert left == ([] if dies else [os.path.basename(made)])  # noqa: PTH119 - it is a string


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
