"""Packs that are received: what stock git packs is stored, and nothing is read from the quarantine before."""

import contextlib
import hashlib
import struct
import tracemalloc
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from dulwich.object_format import SHA1
from dulwich.pack import pack_object_header
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.git_store.incoming import PREFIX, BadPackError, PackLimits, Quarantine
from covalt_git.git_store.object_reader import ObjectReader
from covalt_git.git_store.store import GitStore
from covalt_git.system import file_lock, locked_folder
from tests.examples import examples
from tests.git_store.histories import HOW_PACKED, MAIN, contents, make_history, objects_of, packed
from tests.workspaces.stores import git, scratch

LIMITS = PackLimits(pack=64 << 20, objects=10_000, blob=8 << 20, other=1 << 20, together=256 << 20)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_history(tmp_path_factory.mktemp("history") / "repository")


@contextlib.contextmanager
def received(store: GitStore, pack: bytes) -> Iterator[Quarantine]:
    with Quarantine.opened(store, store.path, LIMITS) as quarantine:
        quarantine.receive([pack])
        yield quarantine
    assert not list(store.path.glob("incoming-*"))


def stored(store: GitStore) -> set[str]:
    """Return the objects that stock git finds in a store, which has to be sound."""
    assert git(store.path, "fsck", "--strict", "--full", "--no-dangling") == ""
    return objects_of(store.path)


@pytest.mark.parametrize("options", HOW_PACKED.values(), ids=HOW_PACKED.keys())
def test_what_git_packed_is_stored_whole(
    history: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    with (
        GitStore.create(tmp_path / "store.git", durable=False) as store,
        received(store, packed(history, "main\n", *options)) as quarantine,
    ):
        assert quarantine.ids == objects_of(history)
        assert {oid: quarantine.read_object(oid) for oid in quarantine.ids} == contents(history)
        assert not any(map(store.has, quarantine.ids))
        quarantine.adopt(quarantine.ids, durable=True)
        store.swap_ref(MAIN, None, git(history, "rev-parse", "main").strip())

        assert stored(store) == objects_of(history)


def test_a_thin_pack_starts_from_objects_of_the_store(history: Path, tmp_path: Path) -> None:
    with GitStore.create(tmp_path / "store.git", durable=False) as store:
        for revisions in ("main~40\n", "main\n^main~40\n"):
            pack = packed(history, revisions, "--thin", "--delta-base-offset")
            with received(store, pack) as quarantine:
                for oid in quarantine.ids:
                    quarantine.read_object(oid)
                quarantine.adopt(quarantine.ids, durable=False)
        store.swap_ref(MAIN, None, git(history, "rev-parse", "main").strip())

        assert stored(store) == objects_of(history)


def test_a_quarantined_object_is_no_part_of_the_store(history: Path, tmp_path: Path) -> None:
    tip = git(history, "rev-parse", "main").strip()
    with (
        GitStore.create(tmp_path / "store.git", durable=False) as store,
        received(store, packed(history, "main\n")) as quarantine,
    ):
        assert quarantine.read_commit(tip).parents
        blobs = (oid for oid in quarantine.ids if quarantine.read_object(oid)[0] == b"blob")
        for blob in blobs:
            assert quarantine.blob_size(blob) == len(quarantine.read_blob(blob))
        assert not store.has(tip)
        with pytest.raises(KeyError):
            ObjectReader(store.folder, store.object_format).find_object(tip)
        here = store.write_blob(b"of the store")
        store.flush()
        assert quarantine.read_blob(here) == b"of the store"
        assert quarantine.blob_size(here) == 12


def test_only_quarantines_of_killed_processes_are_cleared(history: Path, tmp_path: Path) -> None:
    with (
        GitStore.create(tmp_path / "store.git", durable=False) as store,
        received(store, packed(history, "main\n")) as quarantine,
    ):
        left = store.path / "incoming-left"
        (left / "pack").mkdir(parents=True)
        locked_folder.clear(store.path, PREFIX)

        assert not left.exists()
        assert quarantine.read_object(min(quarantine.ids))


@settings(max_examples=examples(60), deadline=None)
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


def test_a_quarantine_survives_a_concurrent_clearing(
    history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process clears the folder after it was created and before it was locked."""
    acquire = file_lock.acquire
    cleared: list[Path] = []

    def clear_first(handle: int, **options: bool) -> bool:
        if not cleared:
            cleared.extend(tmp_path.glob("store.git/incoming-*"))
            for path in cleared:
                path.rmdir()
        return acquire(handle, **options)

    monkeypatch.setattr(file_lock, "acquire", clear_first)
    with (
        GitStore.create(tmp_path / "store.git", durable=False) as store,
        received(store, packed(history, "main\n")) as quarantine,
    ):
        assert cleared
        assert quarantine.ids == objects_of(history)


# Packs that are small and inflate to much


def entry(kind: int, size: int, stream: bytes, base: int | None = None) -> bytes:
    """Return an entry of a pack; ``base`` is the distance to that of a delta."""
    return bytes(pack_object_header(kind, base, size, SHA1)) + stream


def pack_of(*entries: bytes) -> bytes:
    body = b"PACK" + struct.pack(">II", 2, len(entries)) + b"".join(entries)
    return body + hashlib.sha1(body).digest()


def zeros(mebibytes: int) -> bytes:
    """Return compressed zeros: equal blocks of 4 MiB, an empty last one, and their Adler-32."""
    deflate = zlib.compressobj(9)
    start, block = (
        deflate.compress(bytes(4 << 20)) + deflate.flush(zlib.Z_FULL_FLUSH) for _ in range(2)
    )
    check = (mebibytes << 20) % 65_521 << 16 | 1
    return start + block * (mebibytes // 4 - 1) + b"\x03\x00" + check.to_bytes(4)


def delta(base: int, copies: int, end: bytes = b"") -> tuple[int, bytes]:
    """Return the size of a delta that copies its base several times, and its compressed bytes."""
    sizes = b""
    for size in (base, base * copies + len(end)):
        sizes += bytes(0x80 | size >> 7 * place & 0x7F for place in range(4)) + bytes([size >> 28])
    copy = b"\xf0" + base.to_bytes(3, "little")
    content = sizes + copy * copies + (bytes([len(end)]) + end if end else b"")
    return len(content), zlib.compress(content)


def branching_chain(steps: int, size: int = 4 << 20) -> bytes:
    """Return a pack of a chain of deltas, with a second delta at each step of it."""
    entries = [entry(3, size, zeros(size >> 20))]
    back = len(entries[0])
    for step in range(steps):
        for end in (b"a", b"b"):  # the next step starts from the second one
            made = entry(6, *delta(size + step, 1, end), base=back)
            entries.append(made)
            back += len(made)
        back = len(entries[-1])
    return pack_of(*entries)


def test_a_pack_with_an_object_twice_is_refused(tmp_path: Path) -> None:
    blob = entry(3, 1, zlib.compress(b"x"))
    with (
        GitStore.create(tmp_path / "store.git", durable=False) as store,
        pytest.raises(
            BadPackError, match="has the object c1b0730e0133447badcfd47fd144e254807b06e1 tw"
        ),
        received(store, pack_of(blob, blob)),
    ):
        pass


BLOB = zeros(400)
SMALL_PACKS = {
    "blob": pack_of(entry(3, 400 << 20, BLOB)),
    "blob-that-lies": pack_of(entry(3, 7, BLOB)),
    "delta": pack_of(
        start := entry(3, 1 << 19, zlib.compress(bytes(1 << 19))),
        entry(6, *delta(1 << 19, 800), base=len(start)),
    ),
    "branching-chain": branching_chain(40),
}


@pytest.mark.parametrize("pack", SMALL_PACKS.values(), ids=SMALL_PACKS.keys())
def test_small_packs_are_refused_before_they_take_much_memory(tmp_path: Path, pack: bytes) -> None:
    assert len(pack) < 400 << 10
    with GitStore.create(tmp_path / "store.git", durable=False) as store:
        tracemalloc.start()
        with pytest.raises(BadPackError), received(store, pack):
            pass
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()

    assert peak < 120 << 20


def test_long_chains_are_indexed_in_bounded_memory(tmp_path: Path) -> None:
    with GitStore.create(tmp_path / "store.git", durable=False) as store:
        tracemalloc.start()
        with received(store, branching_chain(30)) as quarantine:
            _, peak = tracemalloc.get_traced_memory()
            assert len(quarantine.ids) == 61
        tracemalloc.stop()

    assert peak < 120 << 20
