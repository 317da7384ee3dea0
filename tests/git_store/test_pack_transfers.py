"""Packs that come and go: what stock git packs is taken in whole, and what is sent it unpacks."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.git_store import GitStore
from covalt_git.git_store.incoming_packs import BadPackError, IncomingPack, PackLimits
from tests.workspaces.stores import git, run_git, scratch

LIMITS = PackLimits(pack=64 << 20, objects=10_000, blob=8 << 20, other=1 << 20, together=256 << 20)
MAIN = "refs/heads/main"

HOW_PACKED = {
    "offset-deltas": ("--delta-base-offset",),
    "id-deltas": (),
    "long-chains": ("--delta-base-offset", "--depth=200", "--window=250"),
    "without": ("--window=0",),
    "stored": ("--compression=0",),
}


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of stock git: one file of many lines that changes 80 times, and some others."""
    path = tmp_path_factory.mktemp("history") / "repository"
    git(path.parent, "init", "--quiet", "--bare", "-b", "main", str(path))
    chance = random.Random(5)
    lines = [b"%d\n" % chance.randrange(1 << 60) for _ in range(300)]
    parts = []
    for number in range(80):
        lines[chance.randrange(300)] = b"changed %d\n" % number
        content = b"".join(lines)
        parts.append(
            b"commit %s\ncommitter A <a@example.com> %d +0000\ndata 2\nc\n"
            b"M 100644 inline a/b/lines\ndata %d\n%s\nM 100755 inline run%d\ndata 0\n\n"
            % (MAIN.encode(), 1_700_000_000 + number, len(content), content, number % 7)
        )
    git(path, "fast-import", "--quiet", given=b"".join(parts))
    return path


def packed(history: Path, revisions: str, *options: str) -> bytes:
    done = run_git(
        history,
        *("pack-objects", "--stdout", "--revs", "-q", *options),
        given=revisions.encode(),
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects_of(path: Path) -> set[str]:
    listed = git(path, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
    return set(listed.split())


@contextlib.contextmanager
def received(store: GitStore, pack: bytes) -> Iterator[IncomingPack]:
    with store.incoming(store.path, LIMITS) as incoming:
        incoming.receive(io.BytesIO(pack))
        yield incoming


@pytest.mark.parametrize("options", HOW_PACKED.values(), ids=HOW_PACKED.keys())
def test_what_git_packed_is_taken_in_whole(
    history: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    with (
        GitStore.create(tmp_path / "store.git", durable=False) as store,
        received(store, packed(history, "main\n", *options)) as incoming,
    ):
        assert set(incoming.in_order()) == objects_of(history)
        for oid in incoming.in_order():
            kind, content = incoming.read(oid)
            there = run_git(history, "cat-file", kind.decode(), oid).stdout
            assert (content, incoming.size(oid)) == (there, len(there))
        assert not any(map(store.has, incoming.in_order()))
        store.adopt(incoming, incoming.in_order())
        store.flush()
        store.swap_ref(MAIN, None, git(history, "rev-parse", "main").strip())

        assert objects_of(store.path) == objects_of(history)
        assert git(store.path, "fsck", "--strict", "--full") == ""


def test_a_thin_pack_starts_from_what_is_here(history: Path, tmp_path: Path) -> None:
    with GitStore.create(tmp_path / "store.git", durable=False) as store:
        for revisions in ("main~40\n", "main\n^main~40\n"):
            pack = packed(history, revisions, "--thin", "--delta-base-offset")
            with received(store, pack) as incoming:
                store.adopt(incoming, incoming.in_order())
                store.flush()
        store.swap_ref(MAIN, None, git(history, "rev-parse", "main").strip())

        assert objects_of(store.path) == objects_of(history)
        assert git(store.path, "fsck", "--strict", "--full") == ""


def test_a_thin_pack_is_refused_where_that_is_not(history: Path, tmp_path: Path) -> None:
    thin = packed(history, "main\n^main~40\n", "--thin", "--delta-base-offset")
    with (
        GitStore.create(tmp_path / "store.git", durable=False) as store,
        pytest.raises(BadPackError, match="starts from what is neither there nor here"),
        received(store, thin),
    ):
        pass


def test_what_is_left_out_of_a_pack_is_no_loss_to_its_deltas(history: Path, tmp_path: Path) -> None:
    with (
        GitStore.create(tmp_path / "store.git", durable=False) as store,
        received(store, packed(history, "main\n", "--delta-base-offset")) as incoming,
    ):
        some = [oid for number, oid in enumerate(incoming.in_order()) if number % 3]
        store.adopt(incoming, some)
        store.flush()

        assert objects_of(store.path) == set(some)
        for oid in some:
            assert store.read_object(oid) == incoming.read(oid)


def test_what_is_read_beside_a_store_is_no_part_of_it(history: Path, tmp_path: Path) -> None:
    tip = git(history, "rev-parse", "main").strip()
    with (
        GitStore.create(tmp_path / "store.git", durable=False) as store,
        received(store, packed(history, "main\n")) as incoming,
    ):
        with store.beside(incoming):
            assert store.read_commit(tip).parents
            assert not store.has(tip)
            blob = next(o for o in incoming.in_order() if incoming.read(o)[0] == b"blob")
            assert store.blob_size(blob) == len(store.read_blob(blob))
        assert not store.holds(tip)


@settings(max_examples=60, deadline=None)
@given(at=st.integers(min_value=0), bit=st.integers(0, 7))
def test_a_pack_with_one_bit_changed_is_refused(history: Path, at: int, bit: int) -> None:
    pack = bytearray(packed(history, "main~77\n", "--delta-base-offset"))
    pack[at % len(pack)] ^= 1 << bit
    with (
        scratch() as folder,
        GitStore.create(folder / "store.git", durable=False) as store,
        pytest.raises(BadPackError),
        received(store, bytes(pack)),
    ):
        pass


@pytest.mark.parametrize("deltas", [True, False])
@pytest.mark.parametrize("options", HOW_PACKED.values(), ids=HOW_PACKED.keys())
@pytest.mark.parametrize("part", [1, 3, 40])
def test_what_is_sent_git_unpacks(
    history: Path, tmp_path: Path, options: tuple[str, ...], part: int, *, deltas: bool
) -> None:
    git(tmp_path, "init", "--quiet", "--bare", "store.git")
    git(tmp_path / "store.git", "index-pack", "--stdin", given=packed(history, "main\n", *options))
    with GitStore(tmp_path / "store.git") as store:
        loose = store.write_blob(b"loose, beside the pack")
        wanted = [loose, *sorted(objects_of(history))[::part]]
        pack = b"".join(store.pack_of(wanted, deltas=deltas))
    git(tmp_path, "init", "--quiet", "--bare", "other.git")
    git(tmp_path / "other.git", "index-pack", "--stdin", given=pack)

    assert objects_of(tmp_path / "other.git") == set(wanted)


def test_deltas_are_sent_as_they_lie(history: Path, tmp_path: Path) -> None:
    pack = packed(history, "main\n", "--delta-base-offset")
    git(tmp_path, "init", "--quiet", "--bare", "store.git")
    git(tmp_path / "store.git", "index-pack", "--stdin", given=pack)
    with GitStore(tmp_path / "store.git") as store:
        wanted = sorted(objects_of(history))
        sent = b"".join(store.pack_of(wanted))
        whole = b"".join(store.pack_of(wanted, deltas=False))

    assert len(sent) == len(pack)
    assert len(whole) > 5 * len(pack)
