"""The write-ahead log that version 0.1 left is replayed once, and undoes nothing that was done since."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from covalt_git.git_store.old_log import OldLog, Record
from covalt_git.git_store.store import GitStore
from tests.workspaces import old_chats
from tests.workspaces.stores import git

ASIDE = "refs/covalt/deleted/"
MAIN = json.loads((old_chats.FOLDER / "expected.json").read_text())["power-cut"]["branches"]["main"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store after a power cut, in which stock git does not find the last commit."""
    old_chats.unpack("power-cut", tmp_path, "0" * 36)
    return tmp_path / "chats/c1/store.git"


def replay(path: Path) -> dict[str, str]:
    """Replay the log; return the branches and the refs aside."""
    with GitStore(path) as opened:
        opened.catch_up(aside=ASIDE)
        assert not opened.has_old_log()
        return opened.refs("refs/heads/") | opened.refs(ASIDE)


def test_replay_restores_the_branch_and_all_that_it_reaches(store: Path) -> None:
    assert replay(store) == {"refs/heads/main": MAIN}
    assert git(store, "fsck", "--strict", "--no-dangling") == ""
    assert (store / "wal.settled").exists()
    assert replay(store) == {"refs/heads/main": MAIN}


def test_replay_that_was_killed_is_finished_by_the_next(store: Path) -> None:
    log = OldLog(store)
    _, records = log.read()
    log.store_files(records)
    log.decide(records)

    assert replay(store) == {"refs/heads/main": MAIN}


def test_branch_that_git_moved_after_the_power_cut_stays(store: Path) -> None:
    first = OldLog(store).read()[1][0].old
    time.sleep(0.01)  # a ref that is written now is newer than the log
    (store / "refs/heads/main").write_text(f"{first}\n")

    assert replay(store) == {"refs/heads/main": first}


def test_branch_whose_name_is_in_use_is_kept_aside(store: Path) -> None:
    (store / "refs/heads/main").unlink()
    (store / "refs/heads/main").mkdir()
    (store / "refs/heads/main/inner").write_text(f"{MAIN}\n")
    os.utime(store / "refs/heads/main", (0, 0))

    found = replay(store)

    assert found.pop("refs/heads/main/inner") == MAIN
    assert [*found.values()] == [MAIN]


@pytest.mark.parametrize("path", ["../outside", "config", "objects/../../outside", "refs/heads/x"])
def test_file_outside_of_the_objects_is_not_written(store: Path, path: str) -> None:
    before = set(store.parent.rglob("*"))
    OldLog(store).store_files([Record("refs/heads/main", None, MAIN, {path: b"x"}, 0)])

    assert set(store.parent.rglob("*")) == before
