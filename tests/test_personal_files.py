"""Files of a person's own: whole, and nobody else's to read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from covalt_git.errors import CovaltError
from covalt_git.personal_files import read_personal, write_personal


def test_what_is_written_is_read_again_and_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_personal(tmp_path / "own" / "a.json", "one")
        write_personal(tmp_path / "own" / "a.json", "two")
    finally:
        os.umask(before)

    file = tmp_path / "own" / "a.json"
    assert read_personal(file, CovaltError) == "two"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert list(file.parent.iterdir()) == [file]


def test_what_cannot_be_written_leaves_what_was(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write_personal(file, "one")

    with pytest.raises(UnicodeEncodeError):
        write_personal(file, "\ud800")

    assert read_personal(file, CovaltError) == "one"
    assert list(tmp_path.iterdir()) == [file]
