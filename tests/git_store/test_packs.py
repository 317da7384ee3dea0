"""Packs: what is stored together lies in one that stock git verifies, and theirs are read like ours."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import shutil
import zlib
from functools import partial
from pathlib import Path

import pytest
from dulwich.pack import apply_delta
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.git_store import (
    FILE,
    FOLDER,
    BrokenStoreError,
    CommitObject,
    GitStore,
    TreeEntry,
    blob_id,
    packing,
)
from covalt_git.git_store.compression import crc32, deflate
from covalt_git.git_store.deltas import delta
from tests.killing import killed_at
from tests.workspaces.stores import git, run_git, scratch

FORMATS = pytest.mark.parametrize("object_format", ["sha1", "sha256"])
MAIN = "refs/heads/main"
REPOSITORY = Path(__file__).resolve().parents[2]


OTHER_PACKS = {
    "offset-deltas": (),
    "id-deltas": ("-c", "repack.useDeltaBaseOffset=false"),
    "long-chains": ("-c", "pack.depth=200", "-c", "pack.window=250"),
    "stored": ("-c", "pack.compression=0"),
}


def fsck(store: GitStore) -> str:
    """Return all that fsck has to say, but that a store without a branch has none."""
    done = run_git(store.path, "fsck", "--strict", "--full", "--no-dangling")
    lines = (done.stdout + done.stderr).decode().splitlines()
    said = [line for line in lines if not line.startswith("notice: ")]
    return "\n".join(said) + ("" if done.returncode == 0 else "failed")


def packs(store: GitStore) -> list[Path]:
    return sorted((store.path / "objects/pack").glob("pack-*.pack"))


def loose_objects(store: GitStore) -> list[Path]:
    return sorted(store.path.glob("objects/[0-9a-f][0-9a-f]/*"))


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
        with store.together():
            for path in files if step == 0 else [name]:
                oid = store.write_blob(b"".join(files[path]))
                entries[path] = TreeEntry(path.encode(), FILE, oid)
            below = store.write_tree(entries.values())
            tree = store.write_tree([TreeEntry(b"d", FOLDER, below)])
        made.append(commit(store, tree, *made[-1:], message=f"step {step}\n"))
        assert store.swap_ref(MAIN, made[-2] if step else None, made[-1])
    return made


def contents(store: GitStore) -> dict[str, bytes]:
    """Return what stock git reads, every object of the store."""
    listed = git(store.path, "cat-file", "--batch-all-objects", "--batch-check").splitlines()
    found = {}
    for line in listed:
        oid, kind, _ = line.split()
        found[oid] = run_git(store.path, "cat-file", kind, oid).stdout
    return found


# Storing together


@FORMATS
@settings(deadline=None, max_examples=20)
@given(
    blobs=st.lists(st.binary(max_size=300), max_size=100, unique=True),
    large=st.lists(st.integers(1, 3 << 20), max_size=2, unique=True),
)
def test_what_is_stored_together_is_what_git_reads(
    object_format: str, blobs: list[bytes], large: list[int]
) -> None:
    written = [*blobs, *(random.Random(size).randbytes(size) for size in large)]
    with (
        scratch() as folder,
        GitStore.create(folder / "s.git", object_format=object_format, durable=False) as store,
    ):
        with store.together():
            oids = [store.write_blob(content) for content in written]
            assert [store.read_blob(oid) for oid in oids] == written
        assert list(store.path.glob("objects/pack/pack-*")) == []
        store.flush()

        assert len(packs(store)) == (len(set(oids)) > 2)
        assert contents(store) == dict(zip(oids, written, strict=True))
        assert [store.read_blob(oid) for oid in oids] == written
        assert list(store.path.rglob("tmp_*")) == []
        assert fsck(store) == ""
        for pack in packs(store):
            git(store.path, "index-pack", "--verify", str(pack))


@pytest.mark.parametrize("count", [1, 2, 3, 200])
@pytest.mark.parametrize("together", [False, True], ids=["", "together"])
def test_blobs_that_come_deflated_are_stored_like_others(
    tmp_path: Path, *, count: int, together: bool
) -> None:
    contents = [b"%d\n" % number * 50 for number in range(count)]
    oids = [blob_id(content, "sha1") for content in contents]
    with GitStore.create(tmp_path / "s.git", durable=False) as store:
        with store.together() if together else contextlib.nullcontext():
            for oid, content in zip(oids, contents, strict=True):
                for _ in range(2):
                    store.write_deflated_blobs([(oid, len(content), zlib.compress(content))])
                assert store.read_blob(oid) == content
                assert store.blob_size(oid) == len(content)
            other = store.write_blob(b"not deflated")
        store.flush()

        assert [store.read_blob(oid) for oid in oids] == contents
        assert store.read_blob(other) == b"not deflated"
        assert len(packs(store)) == (together and count > 1)
        assert sorted(contents_of(store)) == sorted([*oids, other])
        assert fsck(store) == ""


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536])
def test_what_is_deflated_in_haste_is_a_stream_of_it(size: int) -> None:
    content = random.Random(size).randbytes(size)

    assert zlib.decompress(deflate(content, in_haste=True)) == content


@pytest.mark.parametrize("size", [0, 1, (1 << 18) - 1, 1 << 18, (1 << 18) + 1, 3 << 18, 5 << 20])
def test_what_is_deflated_piece_by_piece_is_one_stream_behind_what_stands_before(
    size: int,
) -> None:
    content = random.Random(size).randbytes(size // 2) + b"x" * (size - size // 2)
    for in_haste in (False, True):
        written = deflate(content, before=b"start", in_haste=in_haste)

        assert written.startswith(b"start")
        assert zlib.decompress(written[5:]) == content


@pytest.mark.parametrize("content", [b"", b"a", b"content" * 99])
def test_the_check_of_a_pack_is_crc_32(content: bytes) -> None:
    assert crc32(content) == zlib.crc32(content)


def test_a_large_pack_that_cannot_be_flushed_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk tells of its error once: to the flush that goes beside the checksum."""
    told: list[int] = []
    fsync = os.fsync

    def failing(handle: int) -> None:
        if not told:
            told.append(handle)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(handle)

    with GitStore.create(tmp_path / "s.git") as store:
        with store.together():
            oid = store.write_blob(random.Random(1).randbytes(2 << 20))
            for number in range(10):
                store.write_blob(b"%d" % number)
        monkeypatch.setattr(os, "fsync", failing)
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            store.flush()

        assert packs(store) == []
        assert list(store.path.rglob("tmp_*")) == []
        with pytest.raises(BrokenStoreError):
            store.read_blob(oid)


def contents_of(store: GitStore) -> list[str]:
    """Return the ids of all objects that stock git finds."""
    told = git(store.path, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
    return told.split()


def test_commit_goes_with_all_that_it_made_into_one_pack(tmp_path: Path) -> None:
    with GitStore.create(tmp_path / "s.git", durable=False) as store:
        history(store, 3)

        assert [
            len(
                git(
                    store.path, "show-index", given=pack.with_suffix(".idx").read_bytes()
                ).splitlines()
            )
            for pack in packs(store)
        ].count(4) == 2
        assert loose_objects(store) == []


def test_what_is_never_flushed_leaves_nothing(tmp_path: Path) -> None:
    with GitStore.create(tmp_path / "s.git", durable=False) as store:
        with store.together():
            for number in range(200):
                store.write_blob(b"%d" % number)
            kept = store.write_blob(b"kept")
        assert store.has(kept)
    with GitStore(tmp_path / "s.git") as again:
        assert not again.has(kept)
        assert packs(again) == []
        assert list(again.path.rglob("tmp_*")) == []


def test_what_is_forgotten_is_not_stored(tmp_path: Path) -> None:
    with GitStore.create(tmp_path / "s.git", durable=False) as store:
        with store.together():
            first = store.write_blob(b"first")
        with store.together() as forget:
            second = store.write_blob(b"second")
            store.write_deflated_blobs([(blob_id(b"third", "sha1"), 5, zlib.compress(b"third"))])
            forget()
            assert not store.has(second)
            fourth = store.write_blob(b"fourth")
        store.flush()

        assert contents(store) == {first: b"first", fourth: b"fourth"}


def test_scratch_of_any_size_stays_in_memory(tmp_path: Path) -> None:
    with GitStore.create(tmp_path / "s.git", durable=False) as store:
        before = sorted(store.path.rglob("*"))
        with store.scratch(), store.together():
            oids = [store.write_blob(b"%d" % number) for number in range(300)]
            assert store.read_blob(oids[200]) == b"200"
            store.flush()
        assert sorted(store.path.rglob("*")) == before
        assert not store.has(oids[0])


def test_object_that_is_packed_is_not_stored_again(tmp_path: Path) -> None:
    with GitStore.create(tmp_path / "s.git", durable=False) as store:
        oids = history(store, 2)
        before = sorted(path for path in store.path.rglob("*") if path.is_file())
        content = run_git(store.path, "cat-file", "blob", f"{oids[0]}:d/f1").stdout

        assert store.write_blob(content) == git(store.path, "rev-parse", "main~1:d/f1").strip()
        assert sorted(path for path in store.path.rglob("*") if path.is_file()) == before


def test_note_lies_loose_whatever_waits_to_be_stored(tmp_path: Path) -> None:
    with GitStore.create(tmp_path / "s.git", durable=False) as store:
        with store.together():
            oids = [store.write_blob(b"%d" % number) for number in range(9)]
        note = store.write_note("text", of=None, author="A <a@b>", time=1)
        assert len(packs(store)) == 1
        store.discard(note)

        with pytest.raises(BrokenStoreError, match=f"lacks the object {note}"):
            store.read_note(note)
        assert store.read_blob(oids[3]) == b"3"


# Reading what others packed


@pytest.mark.parametrize(
    ("object_format", "options"),
    [
        pytest.param("sha1", ("-c", "pack.indexVersion=1"), id="first-index"),  # has no sha256
        *(
            pytest.param(name, options, id=f"{name}-{told}")
            for name in ("sha1", "sha256")
            for told, options in OTHER_PACKS.items()
        ),
    ],
)
def test_packs_of_git_are_read_like_ours(
    tmp_path: Path, object_format: str, options: tuple[str, ...]
) -> None:
    with GitStore.create(tmp_path / "s.git", object_format=object_format, durable=False) as store:
        oids = history(store, 40)
        wanted = contents(store)
        git(store.path, *options, "repack", "-adfq")
        with GitStore(store.path) as reader:
            assert len(packs(reader)) == 1
            for oid in oids:
                found = reader.read_commit(oid)
                (below,) = reader.read_tree(found.tree)
                for entry in reader.read_tree(below.oid):
                    assert reader.read_blob(entry.oid) == wanted[entry.oid]
        assert [store.read_commit(oid).message for oid in oids] == [
            f"step {number}\n" for number in range(40)
        ]


def test_index_with_offsets_beyond_two_gigabytes_is_read(tmp_path: Path) -> None:
    with GitStore.create(tmp_path / "s.git", durable=False) as store:
        history(store, 5)
        wanted = contents(store)
        git(store.path, "repack", "-adq")
        (pack,) = packs(store)
        pack.with_suffix(".idx").unlink()
        git(store.path, "index-pack", "--index-version=2,0x40", str(pack))
        with GitStore(store.path) as reader:
            for oid in git(store.path, "rev-list", "--objects", "main").splitlines():
                assert reader.has(oid[:40])
            blobs = git(store.path, "ls-tree", "-r", "main").splitlines()
            for oid in (line.split()[2] for line in blobs):
                assert reader.read_blob(oid) == wanted[oid]


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


@pytest.mark.parametrize("seed", range(12))
def test_damaged_pack_gives_the_object_or_an_error_that_names_it(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with GitStore.create(tmp_path / "s.git", durable=False) as store:
        history(store, 12)
        wanted = contents(store)
        git(store.path, "repack", "-adfq")
    path = packs(store)[0].with_suffix(chance.choice([".pack", ".idx"]))
    content = bytearray(path.read_bytes())
    for _ in range(chance.randrange(1, 40)):
        content[chance.randrange(len(content))] = chance.randrange(256)
    path.chmod(0o644)
    path.write_bytes(content[: chance.choice([len(content), chance.randrange(len(content))])])
    said: list[tuple[str, str]] = []
    for oid, was in wanted.items():
        with GitStore(store.path) as reader:
            try:
                assert reader.read_blob(oid) == was
            except BrokenStoreError as error:
                said.append((oid, error.message))
    for oid, message in said:
        assert oid in message or "is no blob" in message
        assert "\n" not in message


# Packing up


@FORMATS
def test_packing_up_keeps_every_object_and_makes_deltas(tmp_path: Path, object_format: str) -> None:
    with GitStore.create(tmp_path / "s.git", object_format=object_format, durable=False) as store:
        history(store, 120)
        wanted = contents(store)
        size = sum(path.stat().st_size for path in packs(store))
        store.pack_up()

        assert len(packs(store)) == 1
        assert loose_objects(store) == []
        assert contents(store) == wanted
        assert fsck(store) == ""
        (pack,) = packs(store)
        assert pack.stat().st_size < size / 3
        lines = git(store.path, "verify-pack", "-v", str(pack)).splitlines()
        deltas = [int(line.split()[5]) for line in lines if len(line.split()) == 7]
        assert len(deltas) > 200
        assert max(deltas) == 20
        git(store.path, "index-pack", "--verify", str(pack))
        for oid in git(store.path, "rev-list", "main").splitlines():
            (below,) = store.read_tree(store.read_commit(oid).tree)
            for entry in store.read_tree(below.oid):
                assert store.read_blob(entry.oid) == wanted[entry.oid]


@pytest.mark.parametrize("unpacked", [0, 7, 60])
def test_loose_objects_are_packed_up_too(tmp_path: Path, unpacked: int) -> None:
    with GitStore.create(tmp_path / "s.git", durable=False) as store:
        history(store, 60)
        wanted = contents(store)
        for pack in packs(store)[:unpacked]:
            content = pack.read_bytes()
            pack.unlink()
            pack.with_suffix(".idx").unlink()
            git(store.path, "unpack-objects", "-q", given=content)
        assert bool(loose_objects(store)) == bool(unpacked)
        store.pack_up()

        assert loose_objects(store) == []
        assert contents(store) == wanted
        assert fsck(store) == ""


@pytest.mark.parametrize("loose", [0, 150])
def test_packing_up_goes_on_where_time_ran_out(tmp_path: Path, loose: int) -> None:
    with GitStore.create(tmp_path / "s.git", durable=False) as store:
        history(store, 12)
        for number in range(loose):
            store.write_blob(b"loose %d" % number)
        wanted = contents(store)
        while (before := len(packs(store)) + len(loose_objects(store))) > 1:
            store.pack_up(seconds=0.01)

            assert contents(store) == wanted
            assert len(packs(store)) + len(loose_objects(store)) < before
        assert fsck(store) == ""


def test_packing_up_is_due_only_where_there_is_much(tmp_path: Path) -> None:
    with GitStore.create(tmp_path / "s.git", durable=False) as store:
        history(store, packing.MOST_PACKS)
        before = packs(store)
        store.pack_up_if_due(seconds=10)
        assert packs(store) == before

        head = str(store.read_ref(MAIN))
        with store.together():
            oids = [store.write_blob(b"%d" % number) for number in range(3)]
        store.flush()
        store.pack_up_if_due(seconds=10)
        assert len(packs(store)) == 1
        assert store.read_commit(head).message == f"step {packing.MOST_PACKS - 1}\n"
        assert store.read_blob(oids[2]) == b"2"
        for number in range(1_500):
            store.write_blob(b"loose %d" % number)
        for _ in range(20):
            store.pack_up_if_due(seconds=10)
        assert len(loose_objects(store)) < packing.MOST_LOOSE * 2
        assert fsck(store) == ""


def test_notes_stay_loose_until_they_are_old(tmp_path: Path) -> None:
    with GitStore.create(tmp_path / "s.git", durable=False) as store:
        history(store, 3)
        note = store.write_note("text", of=None, author="A <a@b>", time=1)
        store.pack_up()
        path = store.path / "objects" / note[:2] / note[2:]
        assert loose_objects(store) == [path]

        os.utime(path, (1, 1))
        store.pack_up()
        assert loose_objects(store) == []
        assert store.read_note(note) == "text"


@pytest.mark.parametrize("kept", [".keep", ".promisor"])
def test_packs_that_git_keeps_stay(tmp_path: Path, kept: str) -> None:
    with GitStore.create(tmp_path / "s.git", durable=False) as store:
        history(store, 5)
        first = packs(store)[0]
        first.with_suffix(kept).touch()
        store.pack_up()

        assert first in packs(store)
        assert len(packs(store)) == 2


def test_packs_of_a_wider_index_of_git_stay(tmp_path: Path) -> None:
    with GitStore.create(tmp_path / "s.git", durable=False) as store:
        history(store, 5)
        git(store.path, "multi-pack-index", "write")
        before = packs(store)
        store.pack_up()

        assert packs(store) == before


def test_new_folder_of_packs_is_durable_before_loose_objects_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with GitStore.create(tmp_path / "s.git", durable=False) as store:
        for number in range(3):
            store.write_blob(b"%d" % number)
        store.flush()
        left: list[int] = []

        def fsync(handle: int) -> None:
            if os.readlink(f"/proc/self/fd/{handle}") == str(store.path / "objects"):  # noqa: PTH115
                left.append(len(loose_objects(store)))

        monkeypatch.setattr("os.fsync", fsync)
        store.pack_up()

    assert left[0] == 3
    assert left[-1] == 0  # and once more, or they might be there again


def test_damaged_pack_is_left_as_it_is(tmp_path: Path) -> None:
    with GitStore.create(tmp_path / "s.git", durable=False) as store:
        oids = history(store, 6)
        wanted = contents(store)
    small = min(packs(store), key=lambda path: path.stat().st_size)
    with GitStore(store.path) as store:
        with store.together():
            for number in range(100):
                store.write_blob(b"of a large pack %d" % number)
        store.flush()
        large = next(path for path in packs(store) if path.stat().st_size > 4000)
    for path in (small, large):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0xFF
        path.chmod(0o644)
        path.write_bytes(content)
    with GitStore(store.path) as store:
        store.pack_up()

        assert {small, large} <= set(packs(store))
        assert len(packs(store)) == 3
        readable = 0
        said: list[tuple[str, str]] = []
        for oid in oids:
            try:
                assert store.read_commit(oid).time == 1
                readable += 1
            except BrokenStoreError as error:
                said.append((oid, error.message))
        assert all(oid in message for oid, message in said)
        assert readable >= len(oids) - 1
    assert len(wanted) > 20


def pack_up(path: Path) -> None:
    with GitStore(path) as store:
        store.pack_up()


def test_killed_at_any_step_of_packing_up_loses_nothing(tmp_path: Path) -> None:
    with GitStore.create(tmp_path / "s.git", durable=False) as store:
        history(store, 4)
        for pack in packs(store)[:2]:
            content = pack.read_bytes()
            pack.unlink()
            pack.with_suffix(".idx").unlink()
            git(store.path, "unpack-objects", "-q", given=content)
        wanted = contents(store)
    killed = 0
    for step in range(1, 400, 3):
        copy = tmp_path / f"{step}.git"
        shutil.copytree(store.path, copy)
        was_killed = killed_at(step, partial(pack_up, copy))
        with GitStore(copy) as left:
            assert fsck(left) == ""
            assert contents(left) == wanted
            left.clear_stale_locks()
            assert list(copy.rglob("tmp_*")) == []
            assert len(list(copy.glob("objects/pack/*.idx"))) == len(packs(left))
            assert fsck(left) == ""
            left.pack_up()
            assert len(packs(left)) == 1
            assert contents(left) == wanted
        shutil.rmtree(copy)
        if not was_killed:
            break
        killed += 1
    assert killed > 10


LINES = st.lists(st.sampled_from([b"a\n", b"bb\n", b"a longer line\n", b"\r", b"", b"x" * 70]))


@settings(max_examples=200)
@given(
    base=st.one_of(st.binary(max_size=200), LINES.map(b"".join)),
    target=st.one_of(st.binary(max_size=200), LINES.map(b"".join)),
    shared=st.tuples(st.binary(max_size=40), st.binary(max_size=40)),
)
def test_delta_makes_the_target_of_the_base(
    base: bytes, target: bytes, shared: tuple[bytes, bytes]
) -> None:
    base, target = (shared[0] + one + shared[1] for one in (base, target))

    assert b"".join(apply_delta(base, delta(base, target))) == target


def test_delta_of_large_contents_is_right_and_short() -> None:
    chance = random.Random(4)
    lines = some_lines(chance, 40_000)
    moved = [*lines[20_000:], b"new\n", *lines[:20_000]]
    content = chance.randbytes(200_000)
    for base, target, most in (
        (b"".join(lines), b"".join(moved), 300),
        (content, content + content, 202_000),
        (content, content[:100_000] + b"x" + content[100_001:], 60),
        (b"", content, 210_000),
        (content, b"", 8),
    ):
        change = delta(base, target)
        assert b"".join(apply_delta(base, change)) == target
        assert len(change) <= most
