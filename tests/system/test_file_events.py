"""Events of the kernel about folders: all that happened before they are read, and no others."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from covalt_git.system.file_events import FolderEvents, reports_all_changes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs inotify")


@pytest.fixture
def events() -> Iterator[FolderEvents]:
    queue = FolderEvents()
    yield queue
    queue.close()


def watch(events: FolderEvents, folder: Path) -> int:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return events.watch(handle)
    finally:
        os.close(handle)


def read_events(events: FolderEvents) -> list[tuple[str, str]]:
    drained = events.drain()
    assert drained is not None
    return [(event.name, event.kind) for event in drained]


@pytest.mark.parametrize("length", [4, 255])
def test_events_of_several_reads_are_all_reported(
    events: FolderEvents, tmp_path: Path, length: int
) -> None:
    names = [f"{number:0{length}}" for number in range(1000)]
    watch(events, tmp_path)
    for name in names:
        (tmp_path / name).touch()

    assert [name for name, kind in read_events(events) if kind == "made"] == names
    assert read_events(events) == []


def test_each_change_has_its_kind(events: FolderEvents, tmp_path: Path) -> None:
    watch(events, tmp_path)
    file, folder = tmp_path / "a", tmp_path / os.fsdecode(b"caf\xe9-\xc3\xbc")
    file.write_bytes(b"1")
    kinds = ("made", "opened", "changed", "written")
    assert read_events(events) == [("a", kind) for kind in kinds]
    file.read_bytes()
    assert read_events(events) == [("a", "opened"), ("a", "closed")]
    file.rename(tmp_path / "b")
    assert read_events(events) == [("a", "moved"), ("b", "made")]
    (tmp_path / "b").chmod(0o700)
    assert read_events(events) == [("b", "changed")]
    (tmp_path / "b").unlink()
    assert ("b", "deleted") in read_events(events)
    folder.mkdir()
    folder.rename(tmp_path / "e")
    names = [(folder.name, "folder"), (folder.name, "moved"), ("e", "folder")]
    assert read_events(events) == names


def test_both_ends_of_a_move_have_one_number(events: FolderEvents, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    watch(events, tmp_path)
    watch(events, tmp_path / "d")
    list(tmp_path.rglob("*"))
    assert read_events(events) == []  # listing is no event
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "a").rename(tmp_path / "d/a")
    (tmp_path / "d/a").rename(tmp_path / "b")
    moves = [event.move for event in events.drain() or () if event.move]

    assert len(moves) == 4
    assert moves[0] == moves[1] != moves[2] == moves[3]


def test_a_folder_that_moves_keeps_its_watch(events: FolderEvents, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    number = watch(events, tmp_path / "d")
    (tmp_path / "d").rename(tmp_path / "e")

    assert read_events(events) == [("", "ended")]
    assert watch(events, tmp_path / "e") == number
    (tmp_path / "e").rmdir()
    assert ("", "ended") in read_events(events)


def test_a_link_in_place_of_a_folder_is_not_watched(events: FolderEvents, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    handle = os.open(tmp_path / "d", os.O_RDONLY | os.O_DIRECTORY)
    (tmp_path / "d").rename(tmp_path / "moved")
    (tmp_path / "outside").mkdir()
    (tmp_path / "d").symlink_to(tmp_path / "outside")
    events.watch(handle)
    os.close(handle)
    (tmp_path / "outside/f").write_bytes(b"1")
    assert read_events(events) == []
    (tmp_path / "moved/f").write_bytes(b"1")
    assert ("f", "changed") in read_events(events)


def test_a_closed_queue_leaves_no_descriptor_open(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    queue = FolderEvents()
    watch(queue, tmp_path)
    queue.close()
    queue.close()

    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_only_known_local_file_systems_report_all_changes(tmp_path: Path) -> None:
    assert not reports_all_changes(Path("/proc").stat().st_dev)
    assert not reports_all_changes(os.makedev(4095, 1))
    memory = Path("/dev/shm")
    assert reports_all_changes((memory if memory.is_mount() else tmp_path).stat().st_dev)
