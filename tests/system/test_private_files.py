"""Private files can be read and written by their owner alone."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from covalt_git.errors import CovaltError
from covalt_git.system import atomic_write
from covalt_git.system.private_files import read_private

if TYPE_CHECKING:
    from pathlib import Path


def test_a_private_file_is_read_again_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "own" / "a.json"
    before = os.umask(0)
    try:
        atomic_write.replace(file, "one", private=True)
        file.chmod(0o644)
        with pytest.raises(CovaltError, match=r"others may read"):
            read_private(file, CovaltError)
        atomic_write.replace(file, "two", private=True)
    finally:
        os.umask(before)

    assert read_private(file, CovaltError) == "two"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert list(file.parent.iterdir()) == [file]
