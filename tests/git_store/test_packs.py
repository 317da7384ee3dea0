"""Packs: objects written together are in one pack that stock git verifies, and git's packs are read too."""

import errno
import os
import random
import shutil
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.git_store import repacking
from covalt_git.git_store.graph import reachable
from covalt_git.git_store.objects import FILE, FOLDER, BrokenStoreError, CommitObject, TreeEntry
from covalt_git.git_store.repacking import MOST_PACKS
from covalt_git.git_store.store import GitStore
from tests.examples import EVERY, examples
from tests.git_store.histories import contents
from tests.killing import killed_at
from tests.workspaces.stores import fsck_store, git, scratch

FORMATS = pytest.mark.parametrize("object_format", ["sha1", "sha256"])
MAIN = "refs/heads/main"
ALWAYS = float("inf")


def packs(store: GitStore) -> list[Path]:
    return sorted((store.path / "objects/pack").glob("pack-*.pack"))


def some_lines(chance: random.Random, count: int) -> list[bytes]:
    return [b"%d %d\n" % (number, chance.randrange(1 << 60)) for number in range(count)]


def commit(store: GitStore, tree: str, *parents: str, message: str = "m\n") -> str:
    return store.write_commit(CommitObject(tree, parents, "A <a@b>", "A <a@b>", 1, message))


def history(store: GitStore, length: int) -> list[str]:
    """Store a history of files that change by a line at a time, as snapshots do, on main."""
    chance = random.Random(length)
    files = {f"f{number}": some_lines(chance, 60) for number in range(12)}
    entries: dict[str, TreeEntry] = {}
    made: list[str] = []
    for step in range(length):
        name = f"f{chance.randrange(12)}"
        files[name][chance.randrange(60)] = b"changed in %d\n" % step
        for path in files if step == 0 else [name]:
            oid = store.write_blob(b"".join(files[path]))
            entries[path] = TreeEntry(path.encode(), FILE, oid)
        below = store.write_tree(entries.values())
        tree = store.write_tree([TreeEntry(b"d", FOLDER, below)])
        made.append(commit(store, tree, *made[-1:], message=f"step {step}\n"))
        assert store.swap_ref(MAIN, made[-2] if step else None, made[-1])
    return made


def unpack(store: GitStore, pack: Path) -> None:
    """Let stock git make loose objects of a pack."""
    content = pack.read_bytes()
    pack.unlink()
    pack.with_suffix(".idx").unlink()
    git(store.path, "unpack-objects", "-q", given=content)


def rewrite(store: GitStore, until: float = ALWAYS) -> None:
    """Collect what main does not reach."""
    repacking.rewrite(store, reachable(store, [str(store.read_ref(MAIN))]), until=until)


# Writing


@FORMATS
@settings(deadline=None, max_examples=examples(20))
@given(
    blobs=st.lists(st.binary(max_size=300), min_size=1, max_size=100, unique=True),
    large=st.lists(st.integers(1, 3 << 20), max_size=2, unique=True),
)
def test_what_is_written_together_is_one_pack_that_git_reads(
    object_format: str, blobs: list[bytes], large: list[int]
) -> None:
    written = [*blobs, *(random.Random(size).randbytes(size) for size in large)]
    with (
        scratch() as folder,
        GitStore.create(folder / "s.git", object_format=object_format, durable=False) as store,
    ):
        oids = [store.write_blob(content) for content in written]
        assert [store.read_blob(oid) for oid in oids] == written
        assert packs(store) == []
        store.flush()

        assert len(packs(store)) == 1
        assert contents(store.path) == {
            oid: (b"blob", content) for oid, content in zip(oids, written, strict=True)
        }
        assert [store.read_blob(oid) for oid in oids] == written
        assert list(store.path.rglob("tmp_*")) == []
        assert fsck_store(store.path) == ""
        git(store.path, "index-pack", "--verify", str(packs(store)[0]))


def test_a_pack_that_cannot_be_flushed_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with GitStore.create(tmp_path / "s.git") as store:
        oid = store.write_blob(b"content")
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", failing)
            with pytest.raises(OSError, match=os.strerror(errno.EIO)):
                store.flush()

        assert list((store.path / "objects/pack").iterdir()) == []
        store.flush()
        assert contents(store.path) == {oid: (b"blob", b"content")}


# Reading what others packed


def test_pack_that_appears_or_goes_while_a_store_is_open_is_no_matter(tmp_path: Path) -> None:
    with (
        GitStore.create(tmp_path / "s.git", durable=False) as store,
        GitStore(store.path) as reader,
    ):
        for length in (3, 4):
            shutil.rmtree(store.path / "refs")
            (store.path / "refs").mkdir()
            for oid in history(store, length):
                assert reader.read_commit(oid).author == "A <a@b>"
            git(store.path, "repack", "-adq")
            for oid in git(store.path, "rev-list", "main").splitlines():
                assert reader.read_commit(oid).author == "A <a@b>"


@pytest.mark.parametrize("seed", range(6))
def test_damaged_pack_gives_the_object_or_an_error_that_names_it(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with GitStore.create(tmp_path / "s.git", durable=False) as store:
        history(store, 12)
        wanted = contents(store.path)
        git(store.path, "repack", "-adfq")
    path = packs(store)[0].with_suffix(chance.choice([".pack", ".idx"]))
    content = bytearray(path.read_bytes())
    for _ in range(chance.randrange(1, 40)):
        content[chance.randrange(len(content))] = chance.randrange(256)
    path.chmod(0o644)
    path.write_bytes(content[: chance.choice([len(content), chance.randrange(len(content))])])
    messages: list[tuple[str, str]] = []
    for oid, (_, was) in wanted.items():
        with GitStore(store.path) as reader:
            try:
                assert reader.read_blob(oid) == was
            except BrokenStoreError as error:
                messages.append((oid, error.message))
    for oid, message in messages:
        assert oid in message or "is not a blob" in message
        assert "\n" not in message


# Combining and collecting


@FORMATS
@pytest.mark.parametrize("collected", [False, True])
def test_fewer_packs_hold_every_object_and_take_a_fraction_of_the_size(
    tmp_path: Path, object_format: str, *, collected: bool
) -> None:
    with GitStore.create(tmp_path / "s.git", object_format=object_format, durable=False) as store:
        history(store, 60)
        size = sum(pack.stat().st_size for pack in packs(store))
        wanted = contents(store.path)
        if collected:
            rewrite(store)
            assert len(packs(store)) == 1
        while len(packs(store)) > MOST_PACKS:
            repacking.combine(store)

        assert contents(store.path) == wanted
        assert fsck_store(store.path) == ""
        assert sum(pack.stat().st_size for pack in packs(store)) < size / 2
        for pack in packs(store):
            lines = git(store.path, "verify-pack", "-v", str(pack)).splitlines()
            depths = [int(line.split()[5]) for line in lines if len(line.split()) == 7]
            assert max(depths, default=0) <= 20
        for oid in git(store.path, "rev-list", "main").splitlines():
            (below,) = store.read_tree(store.read_commit(oid).tree)
            for entry in store.read_tree(below.oid):
                assert store.read_object(entry.oid) == wanted[entry.oid]


def test_pack_with_a_keep_file_stays_and_an_index_over_packs_does_not(tmp_path: Path) -> None:
    with GitStore.create(tmp_path / "s.git", durable=False) as store:
        history(store, 5)
        first = packs(store)[0]
        first.with_suffix(".keep").touch()
        git(store.path, "multi-pack-index", "write")
        rewrite(store)

        assert first in packs(store)
        assert not (store.path / "objects/pack/multi-pack-index").exists()
        assert fsck_store(store.path) == ""


def test_damaged_pack_is_left_as_it_is(tmp_path: Path) -> None:
    with GitStore.create(tmp_path / "s.git", durable=False) as store:
        history(store, 6)
    path = min(packs(store), key=lambda one: one.stat().st_size)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.chmod(0o644)
    path.write_bytes(content)
    before = packs(store)
    with GitStore(store.path) as store:
        with pytest.raises(BrokenStoreError, match="damaged"):
            repacking.combine(store, most=0)
        with pytest.raises(BrokenStoreError):
            rewrite(store)

    assert packs(store) == before
    assert list(store.path.rglob("tmp_*")) == []


@pytest.mark.parametrize("collect", [False, True])
def test_a_disk_that_fails_is_not_reported_as_a_damaged_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, collect: bool
) -> None:
    def failing(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with GitStore.create(tmp_path / "s.git", durable=False) as store:
        history(store, 4)
        before = packs(store)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", failing)
            with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
                rewrite(store) if collect else repacking.combine(store, most=0)

        assert packs(store) == before


def step_of(path: Path, *, collect: bool) -> None:
    with GitStore(path) as store:
        rewrite(store) if collect else repacking.combine(store, most=0)


@pytest.mark.kills
@pytest.mark.parametrize("collect", [False, True])
def test_killed_at_any_step_of_it_loses_nothing(tmp_path: Path, *, collect: bool) -> None:
    with GitStore.create(tmp_path / "s.git", durable=False) as store:
        history(store, 4)
        if collect:
            for pack in packs(store)[:2]:
                unpack(store, pack)
        wanted = contents(store.path)
    killed = 0
    for step in range(1, 400, EVERY):
        copy = tmp_path / f"{step}.git"
        shutil.copytree(store.path, copy)
        was_killed = killed_at(step, partial(step_of, copy, collect=collect))
        with GitStore(copy) as left:
            assert fsck_store(left.path) == ""
            assert contents(left.path) == wanted
            left.clear_leftovers()
            assert list(copy.rglob("tmp_*")) == []
            assert len(list(copy.glob("objects/pack/*.idx"))) == len(packs(left))
            rewrite(left)
            assert len(packs(left)) == 1
            assert contents(left.path) == wanted
            assert fsck_store(left.path) == ""
        shutil.rmtree(copy)
        if not was_killed:
            break
        killed += 1
    assert killed * EVERY > 10
