"""A text takes the place of a file whole, durable, and with nothing left beside it."""

from __future__ import annotations

import multiprocessing
import os
from typing import TYPE_CHECKING

import pytest

from covalt_git.whole_files import write_whole

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_is_replaced_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    file = tmp_path / "new" / "a.yaml"

    write_whole(file, "one\n")
    write_whole(file, "two\r\n\u00e9\n")

    assert file.read_bytes() == "two\r\n\u00e9\n".encode()
    assert list(file.parent.iterdir()) == [file]


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    write_whole(file, "old\n")

    with pytest.raises(UnicodeEncodeError):
        write_whole(file, "half of a pair: \ud800\n")

    assert file.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [file]


def test_what_a_killed_writer_left_is_cleared_after_an_hour(tmp_path: Path) -> None:
    for name, age in (
        (".a.yaml.old.tmp", 7200),
        (".a.yaml.new.tmp", 60),
        (".b.yaml.old.tmp", 7200),
    ):
        left = tmp_path / name
        left.touch()
        then = left.stat().st_mtime - age
        os.utime(left, (then, then))

    write_whole(tmp_path / "a.yaml", "text\n")

    left_there = sorted(path.name for path in tmp_path.iterdir())
    assert left_there == [".a.yaml.new.tmp", ".b.yaml.old.tmp", "a.yaml"]


def write_often(file: Path, text: str) -> None:
    for _ in range(40):
        write_whole(file, text)


def test_readers_see_one_of_two_writers_whole(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    texts = ["a" * 70_000, "b" * 90_000]
    write_whole(file, texts[0])
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=write_often, args=(file, text)) for text in texts]
    for writer in writers:
        writer.start()

    while any(writer.is_alive() for writer in writers):
        assert file.read_text() in texts

    assert [writer.exitcode for writer in writers] == [0, 0]
    assert list(tmp_path.iterdir()) == [file]
