"""The write-ahead log: what it recorded is there again after a power cut, and nothing else."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import resource
import shutil
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.git_objects import FILE, GitStore, TreeEntry
from covalt_git.git_objects.write_ahead import MOST, Record, WriteAheadLog, this_boot
from tests.git_objects.test_store import MAIN, a_commit, commit_of
from tests.power_cuts import STATES, cut_off, start_anew
from tests.workspaces.stores import git, run_git, scratch

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(this_boot() is None, reason="nothing tells the boots apart here")

OTHER = "refs/heads/other"
ASIDE = "refs/covalt/deleted/"


@pytest.fixture
def store(tmp_path: Path) -> GitStore:
    return new_store(tmp_path)


def new_store(folder: Path) -> GitStore:
    GitStore.create(folder / "s.git").close()
    return GitStore(folder / "s.git", logged=True)


def move(store: GitStore, message: str, ref: str = MAIN, *, size: int = 0) -> str:
    """Lead a ref to a new commit, as a save does: what it needs is stored in one go."""
    with store.together():
        blobs = [
            store.write_blob(f"{message} {number}".encode() + bytes(size)) for number in range(3)
        ]
        tree = store.write_tree(TreeEntry(blob.encode(), FILE, blob) for blob in sorted(blobs))
        oid = store.write_commit(commit_of(tree, message=f"{message}\n"))
        assert store.swap_ref(ref, store.read_ref(ref), oid)
    return oid


def move_on(store: GitStore) -> None:
    for number in itertools.count():
        move(store, f"number {number}")


def reopened(path: Path) -> GitStore:
    store = GitStore(path, logged=True)
    store.catch_up(aside=ASIDE)
    return store


def records(store: GitStore) -> list[Record]:
    return WriteAheadLog(str(store.path)).records()


@settings(deadline=None, max_examples=60)
@given(
    moves=st.lists(st.sampled_from(["save", "large", "branch", "delete"]), min_size=1, max_size=8),
    data=st.data(),
)
def test_all_moves_are_there_after_a_power_cut(moves: list[str], data: st.DataObject) -> None:
    with scratch() as folder, new_store(folder) as store:
        move(store, "first")
        store.pack_up()
        flushed = shutil.copytree(store.path, folder / "flushed")
        for number, kind in enumerate(moves):
            if kind == "branch" and store.read_ref(OTHER) is None:
                assert store.swap_ref(OTHER, None, store.read_ref(MAIN))
            elif kind == "delete" and store.read_ref(OTHER) is not None:
                assert store.swap_ref(OTHER, store.read_ref(OTHER), None)
                flushed = shutil.copytree(store.path, folder / f"flushed-{number}")
            else:
                move(store, f"number {number}", size=MOST if kind == "large" else 0)
                if kind == "large":  # it was flushed where it lies, but for what came before
                    flushed = shutil.copytree(store.path, folder / f"flushed-{number}")
        wanted = store.refs("refs/heads/")
        log = WriteAheadLog(str(store.path))
        recorded = {path for one in log.records() for path in (*one.files, one.ref)}

        def state_of(path: str) -> str:
            return data.draw(st.sampled_from(STATES), path) if path in recorded else "whole"

        cut_off(store.path, flushed, state_of)

        with reopened(store.path) as again:
            assert again.refs("refs/heads/") == wanted
            assert log.is_empty()
            done = run_git(again.path, "fsck", "--strict", "--full", "--no-dangling")
            assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_save_is_one_flush_of_one_file(store: GitStore, monkeypatch: pytest.MonkeyPatch) -> None:
    move(store, "first")
    flushed: list[int] = []
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(f"os.{name}", flushed.append)

    move(store, "second")

    assert len(flushed) == 1


def test_nothing_is_put_back_in_the_boot_that_wrote_the_log(store: GitStore) -> None:
    first = move(store, "first")
    move(store, "second")
    git(store.path, "update-ref", MAIN, first)

    with reopened(store.path) as again:
        assert again.read_ref(MAIN) == first


def test_what_somebody_did_with_git_since_stays(store: GitStore) -> None:
    first = move(store, "first")
    move(store, "second")
    move(store, "third", OTHER)
    move(store, "fourth", "refs/heads/topic")
    time.sleep(0.02)  # the times of files go by a clock that ticks so slowly
    git(store.path, "update-ref", MAIN, first)
    git(store.path, "update-ref", "-d", OTHER)
    git(store.path, "branch", "-m", "topic", "topic/one")
    refs = git(store.path, "for-each-ref")
    start_anew(store.path)

    reopened(store.path).close()

    assert git(store.path, "for-each-ref") == refs


@pytest.mark.parametrize("state", ["empty", "zeros"])
def test_ref_that_is_packed_too_is_put_back(store: GitStore, state: str) -> None:
    move(store, "first")
    git(store.path, "pack-refs", "--all")
    move(store, "second")
    store.pack_up()
    oid = move(store, "third")
    (store.path / MAIN).write_bytes(b"" if state == "empty" else bytes(41))
    start_anew(store.path)

    with reopened(store.path) as again:
        assert again.read_ref(MAIN) == oid


def test_branch_whose_name_is_taken_is_kept_among_the_deleted(store: GitStore) -> None:
    first = move(store, "first")
    log = WriteAheadLog(str(store.path))
    log.append(Record("refs/heads/topic", None, first, {}))  # killed before the ref was there
    assert store.swap_ref("refs/heads/topic/one", None, first)
    os.utime(store.path / "refs/heads/topic", (0, 0))
    start_anew(store.path)

    with reopened(store.path) as again:
        assert again.read_ref("refs/heads/topic/one") == first
        assert list(again.refs(ASIDE).values()) == [first]


def test_what_tells_that_a_branch_was_lost_is_asked_before_anything_is_changed(
    store: GitStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    move(store, "first")
    wanted = {
        f"refs/heads/b{number}": move(store, f"{number}", f"refs/heads/b{number}")
        for number in range(3)
    }
    for ref in wanted:
        (store.path / ref).unlink()
    (store.path / "refs/heads/x.lock").touch()
    os.utime(store.path / "refs/heads", (0, 0))
    start_anew(store.path)
    rename = os.rename

    def stop(old: str, new: str) -> None:
        rename(old, new)
        if "refs/heads/b" in str(new):
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("os.rename", stop)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                reopened(store.path)

    with reopened(store.path) as again:
        assert {ref: again.read_ref(ref) for ref in wanted} == wanted


def test_pack_that_is_partly_there_is_read_anew(store: GitStore) -> None:
    oid = move(store, "first", size=2000)
    for path in store.path.glob("objects/pack/pack-*"):
        content = path.read_bytes()
        path.chmod(0o644)
        path.write_bytes(content[: len(content) // 2] + bytes(len(content) - len(content) // 2))
    start_anew(store.path)

    with GitStore(store.path, logged=True) as again:
        again.refresh()
        again.has(oid)
        again.catch_up(aside=ASIDE)
        assert again.read_tree(again.read_commit(oid).tree)


def test_move_that_was_stopped_when_it_was_made_is_not_taken_back(
    store: GitStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    move(store, "first")
    rename = os.rename

    def stop(old: str, new: str) -> None:
        rename(old, new)
        if str(new).endswith(MAIN):
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("os.rename", stop)
        with pytest.raises(KeyboardInterrupt):
            move(store, "second")
    wanted = store.read_ref(MAIN)
    start_anew(store.path)

    with reopened(store.path) as again:
        assert again.read_ref(MAIN) == wanted


def test_move_on_top_of_one_that_was_not_flushed_is_put_back(store: GitStore) -> None:
    first = move(store, "first")
    store.pack_up()
    before = (store.path / MAIN).stat()
    made = git(store.path, "commit-tree", "-m", "x", f"{first}^{{tree}}").strip()
    git(store.path, "update-ref", MAIN, made)
    oid = move(store, "second")
    (store.path / MAIN).write_text(f"{first}\n")  # neither of the two came to the disk
    os.utime(store.path / MAIN, ns=(before.st_atime_ns, before.st_mtime_ns))
    start_anew(store.path)

    with reopened(store.path) as again:
        assert again.read_ref(MAIN) == oid


def test_what_is_older_than_a_minute_is_flushed_before_the_next(
    store: GitStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    move(store, "first")
    now = time.time_ns()
    monkeypatch.setattr("time.time_ns", lambda: now + 61 * 10**9)

    oid = move(store, "second")

    assert [record.new for record in records(store)] == [oid]


def test_what_is_forgotten_does_not_count_as_too_much_for_the_log(store: GitStore) -> None:
    with store.together() as forget:
        store.write_blob(bytes(MOST + 1))
        forget()
        oid = move(store, "small")

    assert [record.new for record in records(store)] == [oid]


def test_ref_to_what_was_discarded_stays_away(store: GitStore) -> None:
    note = store.write_note("n\n", of=None, author="A <a@b.c>", time=1)
    assert store.swap_ref("refs/covalt/calls/x", None, note)
    store.forget_ref("refs/covalt/calls/x", note)
    store.discard(note)
    start_anew(store.path)

    with reopened(store.path) as again:
        assert again.refs("refs/covalt/") == {}


def test_deleted_branch_stays_deleted(store: GitStore) -> None:
    oid = move(store, "first", OTHER)
    assert store.swap_ref(OTHER, oid, None)
    start_anew(store.path)

    with reopened(store.path) as again:
        assert again.read_ref(OTHER) is None


def test_what_is_swept_away_is_not_in_the_log(store: GitStore) -> None:
    oid = move(store, "first")
    with store.together():
        secret = store.write_blob(b"secret" * 10)
        store.write_blob(b"2")
        store.swap_ref(OTHER, None, a_commit(store, "x\n"))
    assert b"secret" in (store.path / "wal").read_bytes()
    assert store.swap_ref(OTHER, store.read_ref(OTHER), None)

    store.sweep(store.reachable([oid]), until=float("inf"))

    assert (store.path / "wal").read_bytes() == b""
    assert not store.has(secret)


def test_store_that_shares_files_does_not_depend_on_the_log(
    store: GitStore, tmp_path: Path
) -> None:
    move(store, "first")
    with GitStore.create(tmp_path / "fork.git") as fork:
        store.link_objects(fork)

    assert WriteAheadLog(str(store.path)).is_empty()


@pytest.mark.parametrize("left", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_record_that_is_not_whole_ends_the_log(store: GitStore, left: float) -> None:
    first = move(store, "first")
    log = store.path / "wal"
    end = len(log.read_bytes().rstrip(b"\0"))
    move(store, "second")
    content = log.read_bytes()
    length = len(content.rstrip(b"\0")) - end
    keep = end + int(left * (length - 1))
    log.write_bytes(content[:keep] + bytes(len(content) - keep))

    assert [record.new for record in records(store)] == [first]


def test_next_record_takes_the_place_of_one_that_is_not_whole(store: GitStore) -> None:
    first = move(store, "first")
    log = store.path / "wal"
    end = len(log.read_bytes().rstrip(b"\0"))
    whole = log.read_bytes()[:end]
    log.write_bytes(
        whole + whole[:50] + b"x" * 3000 + whole
    )  # what a killed process left, and worse

    second = move(store, "second")

    assert [record.new for record in records(store)] == [first, second]


def _append(path: str, number: int) -> None:
    WriteAheadLog(path).append(Record(f"refs/heads/b{number}", None, "0" * 40, {}))


def test_processes_append_by_turns(store: GitStore) -> None:
    log = WriteAheadLog(str(store.path))
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        for number in range(0, 30, 3):
            log.append(Record(f"refs/heads/a{number}", None, "0" * 40, {}))
            pool.starmap(_append, [(str(store.path), number + one) for one in range(3)])
            if number == 15:
                log.settle()

    names = [record.ref for record in log.records()]
    assert sorted(names) == sorted(
        [
            *(f"refs/heads/b{number}" for number in range(18, 30)),
            *(f"refs/heads/a{number}" for number in range(18, 30, 3)),
        ]
    )


def test_what_cannot_be_recorded_is_not_stored(store: GitStore) -> None:
    first = move(store, "first")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((store.path / "wal").stat().st_size, limit[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            move_on(store)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)

    assert store.read_ref(MAIN) == records(store)[-1].new != first
    assert not list(store.path.rglob("tmp_*"))
    assert not list(store.path.rglob("*.lock"))
    assert git(store.path, "fsck", "--strict", "--no-dangling") == ""


def test_log_does_not_grow_for_ever(store: GitStore) -> None:
    log = WriteAheadLog(str(store.path))
    pack = f"objects/pack/pack-{'0' * 40}.pack"
    for number in range(80):
        log.append(Record(f"refs/heads/b{number}", None, "0" * 40, {pack: os.urandom(48 << 10)}))

    assert (store.path / "wal").stat().st_size < 80 * 48 << 10
    assert log.records()[-1].ref == "refs/heads/b79"


def test_store_that_is_not_logged_has_no_log(tmp_path: Path) -> None:
    with GitStore.create(tmp_path / "s.git") as store:
        move(store, "first")

        assert not (store.path / "wal").exists()


def test_path_outside_of_the_objects_is_not_put_back(store: GitStore, tmp_path: Path) -> None:
    paths = ["../escaped", "HEAD", "config", "objects/../config", "objects/pack/x.sh"]
    oid = move(store, "first")
    WriteAheadLog(str(store.path)).append(Record(MAIN, None, oid, dict.fromkeys(paths, b"no")))
    config = (store.path / "config").read_bytes()
    start_anew(store.path)

    reopened(store.path).close()

    assert not (tmp_path / "escaped").exists()
    assert (store.path / "config").read_bytes() == config
    assert not list(store.path.rglob("x.sh"))
