"""Lists are kept while no file changes, and not a moment longer."""

from __future__ import annotations

import os
from pathlib import Path

from covalt_git.index.kept import Kept
from tests.settling import settle


def test_what_was_made_is_kept_until_a_file_changes(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("1")
    kept = Kept()
    settle(file)

    assert kept.of("size", (tmp_path,), file.read_text) == "1"
    assert kept.of("size", (tmp_path,), lambda: "made again") == "1"
    assert kept.of("other", (tmp_path,), lambda: "2") == "2"

    file.write_text("3")

    assert kept.of("size", (tmp_path,), file.read_text) == "3"


def test_what_was_made_in_the_tick_of_a_change_is_not_kept(tmp_path: Path) -> None:
    file = tmp_path / "a"
    kept = Kept()
    for text in "abcdefgh":
        file.write_text(text)
        os.utime(file, ns=(0, 0))
        assert kept.of("text", (tmp_path,), file.read_text) == text
