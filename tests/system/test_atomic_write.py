"""Files are written whole, durable, and leave no temporary file."""

import multiprocessing
import os
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from covalt_git.errors import CovaltError
from covalt_git.system import atomic_write
from covalt_git.system.private_files import read_private


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_replace_writes_the_whole_text_and_keeps_the_mode(tmp_path: Path) -> None:
    file = tmp_path / "new" / "a.yaml"
    atomic_write.replace(file, "one\n")
    file.chmod(0o640)

    atomic_write.replace(file, "two\r\n\u00e9\n")

    assert file.read_bytes() == "two\r\n\u00e9\n".encode()
    assert mode(file) == 0o640
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("private", [False, True])
def test_a_failed_replace_leaves_the_old_file_and_no_other(
    tmp_path: Path, *, private: bool
) -> None:
    file = tmp_path / "a.yaml"
    atomic_write.replace(file, "old\n", private=private)

    with pytest.raises(UnicodeEncodeError):
        atomic_write.replace(file, "half of a pair: \ud800\n", private=private)

    assert file.read_text() == "old\n"
    assert list(tmp_path.iterdir()) == [file]


def test_temporary_files_of_killed_writers_are_removed_after_an_hour(tmp_path: Path) -> None:
    for name, age in (
        (".a.yaml.old.tmp", 7200),
        (".a.yaml.new.tmp", 60),
        (".b.yaml.old.tmp", 7200),
    ):
        file = tmp_path / name
        file.touch()
        then = file.stat().st_mtime - age
        os.utime(file, (then, then))

    atomic_write.replace(tmp_path / "a.yaml", "text\n")

    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == [".a.yaml.new.tmp", ".b.yaml.old.tmp", "a.yaml"]


def write_often(file: Path, text: str) -> None:
    for _ in range(20):
        atomic_write.replace(file, text)


def test_readers_see_the_whole_text_of_one_of_two_writers(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    texts = ["a" * 70_000, "b" * 90_000]
    atomic_write.replace(file, texts[0])
    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=write_often, args=(file, text)) for text in texts]
    for writer in writers:
        writer.start()

    while any(writer.is_alive() for writer in writers):
        assert file.read_text() in texts

    assert [writer.exitcode for writer in writers] == [0, 0]
    assert list(tmp_path.iterdir()) == [file]


def test_create_refuses_an_existing_file_and_removes_a_half_written_one(tmp_path: Path) -> None:
    file = tmp_path / "a.zip"
    with suppress(KeyError), atomic_write.create(file) as out:
        out.write(b"half")
        raise KeyError
    assert list(tmp_path.iterdir()) == []

    with atomic_write.create(file) as out:
        out.write(b"whole")
    with pytest.raises(CovaltError, match=r"already exists"), atomic_write.create(file):
        pass

    assert file.read_bytes() == b"whole"
    assert list(tmp_path.iterdir()) == [file]


@pytest.fixture
def no_umask() -> object:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("no_umask")
def test_create_private_makes_a_file_of_its_owner_and_never_replaces(tmp_path: Path) -> None:
    file = tmp_path / "own" / "a.json"
    atomic_write.create_private(file, b"one")

    with pytest.raises(FileExistsError):
        atomic_write.create_private(file, b"two")

    assert file.read_bytes() == b"one"
    assert mode(file) == 0o600
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.usefixtures("no_umask")
def test_a_private_file_that_others_may_read_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "own" / "a.json"
    atomic_write.replace(file, "one", private=True)
    file.chmod(0o644)
    with pytest.raises(CovaltError, match=r"other users can access"):
        read_private(file, CovaltError)

    atomic_write.replace(file, "two", private=True)

    assert read_private(file, CovaltError) == "two"
    assert (mode(file), mode(file.parent)) == (0o600, 0o700)
    assert list(file.parent.iterdir()) == [file]
