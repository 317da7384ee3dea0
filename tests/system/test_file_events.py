"""Events of the kernel about folders: all that happened before they are read, and no others."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from covalt_git.system.file_events import FolderEvents

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs inotify")


@pytest.fixture
def events() -> Iterator[FolderEvents]:
    queue = FolderEvents()
    yield queue
    queue.close()


def watch(events: FolderEvents, folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        events.watch(handle)
    finally:
        os.close(handle)


def test_folders_are_watched_anew_after_one_appeared_or_moved(
    events: FolderEvents, tmp_path: Path
) -> None:
    watch(events, tmp_path)
    folder = tmp_path / os.fsdecode(b"caf\xe9-\xc3\xbc")
    folder.mkdir()
    assert events.read()
    folder.rename(tmp_path / "e")
    assert events.read()
    watch(events, tmp_path / "e")
    (tmp_path / "e").rename(tmp_path / "f")
    assert events.read()
    (tmp_path / "f/a").write_bytes(b"1")
    assert events.wait(0)  # it keeps its watch
    assert not events.read()
    (tmp_path / "f/a").unlink()
    (tmp_path / "f").rmdir()
    assert events.read()


def test_a_full_queue_lets_folders_be_watched_anew(events: FolderEvents, tmp_path: Path) -> None:
    watch(events, tmp_path)
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text(encoding="ascii"))
    files = [tmp_path / "a", tmp_path / "b"]
    for number in range(most):  # equal events in a row would be one
        files[number % 2].touch()

    assert events.read()


def test_a_link_in_place_of_a_folder_is_not_watched(events: FolderEvents, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    handle = os.open(tmp_path / "d", os.O_RDONLY | os.O_DIRECTORY)
    (tmp_path / "d").rename(tmp_path / "moved")
    (tmp_path / "outside").mkdir()
    (tmp_path / "d").symlink_to(tmp_path / "outside")
    events.watch(handle)
    os.close(handle)
    (tmp_path / "outside/f").write_bytes(b"1")
    assert not events.wait(0)
    (tmp_path / "moved/f").write_bytes(b"1")
    assert events.wait(0)
