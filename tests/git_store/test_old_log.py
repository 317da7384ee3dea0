"""The write-ahead log that version 0.1 left is replayed once, and undoes nothing that was done since."""

import hashlib
import json
import os
import time
from pathlib import Path

import pytest

from covalt_git.git_store import old_log
from covalt_git.git_store.store import GitStore
from tests.workspaces import old_chats

ASIDE = "refs/covalt/deleted/"
MAIN = old_chats.EXPECTED["power-cut"]["branches"]["main"]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store after a power cut, in which stock git does not find the last commit."""
    old_chats.unpack("power-cut", tmp_path, "0" * 36)
    return tmp_path / "chats/c1/store.git"


def replay(path: Path) -> dict[str, str]:
    """Replay the log; return the branches and the refs aside."""
    with GitStore(path) as opened:
        opened.clear_leftovers()
        old_log.replay(opened, aside=ASIDE)
        assert not old_log.is_left(path)
        return opened.refs("refs/heads/") | opened.refs(ASIDE)


def first_record(path: Path) -> tuple[str, str]:
    """Return the ids that the first record of the log moves its ref from and to."""
    line = (path / "wal").read_bytes().partition(b"\n")[0]
    _, old, new = json.loads(line[line.index(b"{") :])["ref"]
    return old, new


def test_replay_that_was_killed_is_finished_by_the_next(store: Path) -> None:
    log = (store / "wal").read_bytes()
    replay(store)
    (store / "wal").write_bytes(log)

    assert replay(store) == {"refs/heads/main": MAIN}


def test_branch_that_git_moved_after_the_power_cut_stays(store: Path) -> None:
    first = first_record(store)[0]
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
    log = (store / "wal").read_bytes()
    head = {"at": 0, "ref": ["refs/heads/main", None, first_record(store)[0]], "files": [[path, 1]]}
    record = json.dumps(head, separators=(",", ":")).encode() + b"\nx"
    digest = hashlib.sha1(record, usedforsecurity=False).hexdigest()
    (store / "wal").write_bytes(f"{digest} {'0' * 36} ".encode() + record + log)
    before = {one for one in store.parent.rglob("*") if "store.git/objects" not in str(one)}
    config = (store / "config").read_bytes()

    replay(store)

    after = {one for one in store.parent.rglob("*") if "store.git/objects" not in str(one)}
    assert after - before == {store / "wal.settled"}
    assert (store / "config").read_bytes() == config
