"""Packs that are sent: stock git unpacks them, whatever the objects are stored in."""

from contextlib import closing
from pathlib import Path

import pytest

from covalt_git.git_store.object_reader import ObjectReader
from covalt_git.git_store.objects import BrokenStoreError
from tests.examples import covering
from tests.git_store.histories import FORMATS, HOW_PACKED, init, make_history, objects_of, packed
from tests.workspaces.stores import git


@pytest.fixture(scope="module", params=FORMATS)
def history(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of stock git of either object format."""
    return make_history(tmp_path_factory.mktemp("history") / "repository", request.param)


def format_of(path: Path) -> str:
    return git(path, "rev-parse", "--show-object-format").strip()


def copy_of(history: Path, path: Path, *packs: bytes) -> Path:
    """Make a repository of some packs, thin ones among them."""
    init(path, format_of(history))
    for pack in packs:
        git(path, "index-pack", "--stdin", "--fix-thin", given=pack)
    return path


def sent(path: Path, ids: list[str]) -> bytes:
    with closing(ObjectReader(path / "objects", format_of(path))) as reader:
        return b"".join(reader.pack(ids))


def unpacked(pack: bytes, history: Path, path: Path) -> set[str]:
    init(path, format_of(history))
    git(path, "index-pack", "--stdin", given=pack)
    return objects_of(path)


@pytest.mark.parametrize(("part", "how"), covering([1, 40], [*HOW_PACKED]))
def test_sent_packs_are_unpacked_by_git(history: Path, tmp_path: Path, part: int, how: str) -> None:
    pack = packed(history, "main\n", *HOW_PACKED[how])
    store = copy_of(history, tmp_path / "store.git", pack)
    loose = git(store, "hash-object", "-w", "--stdin", given=b"loose, not in the pack").strip()
    wanted = [loose, *sorted(objects_of(history))[::part]]

    assert unpacked(sent(store, wanted), history, tmp_path / "other.git") == set(wanted)


def test_deltas_of_several_packs_and_of_completed_thin_packs_are_sent(
    history: Path, tmp_path: Path
) -> None:
    thin = packed(history, "main\n^main~40\n", "--thin")
    store = copy_of(history, tmp_path / "store.git", packed(history, "main~40\n"), thin)
    everything = sorted(objects_of(history))
    pack = sent(store, everything)

    assert unpacked(pack, history, tmp_path / "other.git") == set(everything)
    assert len(pack) < 2 * len(packed(history, "main\n"))
    new = git(history, "rev-list", "--objects", "--no-object-names", "main", "^main~40").split()
    pack = sent(store, new)
    assert unpacked(pack, history, tmp_path / "new.git") == set(new)
    assert len(pack) < 2 * len(thin)


def test_objects_of_alternates_are_sent(history: Path, tmp_path: Path) -> None:
    store = tmp_path / "store.git"
    init(store, format_of(history))
    (store / "objects/info/alternates").write_text(f"{history}/objects\n")
    wanted = sorted(objects_of(history))

    assert unpacked(sent(store, wanted), history, tmp_path / "other.git") == set(wanted)


def test_missing_and_damaged_objects_are_reported(history: Path, tmp_path: Path) -> None:
    pack = packed(history, "main\n", "--window=0", "--compression=0")
    store = copy_of(history, tmp_path / "store.git", pack)
    wanted = sorted(objects_of(history))
    missing = "1" * len(wanted[0])
    with pytest.raises(BrokenStoreError, match=f"lacks the object {missing}"):
        sent(store, [*wanted, missing])
    (file,) = store.glob("objects/pack/*.pack")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.chmod(0o600)
    file.write_bytes(content)
    with pytest.raises(BrokenStoreError, match="is damaged"):
        sent(store, wanted)
