"""Values are cached while no file changes; every change gives another signature."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from covalt_git.system.file_cache import FileCache, signature
from tests.settling import settle
from tests.workspaces.stores import git


def test_a_value_is_cached_until_a_file_changes(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("1")
    cache = FileCache()
    settle(file)

    assert cache.get("size", [tmp_path], file.read_text) == "1"
    assert cache.get("size", [tmp_path], lambda: "made again") == "1"
    assert cache.get("other", [tmp_path], lambda: "2") == "2"

    file.write_text("3")

    assert cache.get("size", [tmp_path], file.read_text) == "3"


def test_a_value_made_within_a_clock_tick_of_a_change_is_not_cached(tmp_path: Path) -> None:
    file = tmp_path / "a"
    cache = FileCache()
    for text in "abcdefgh":
        file.write_text(text)
        os.utime(file, ns=(0, 0))
        assert cache.get("text", [tmp_path], file.read_text) == text


def test_the_least_recently_used_value_is_dropped(tmp_path: Path) -> None:
    cache = FileCache(most=2)
    settle(tmp_path)
    for key in "ab":
        cache.get(key, [tmp_path], lambda: "old")
    cache.get("a", [tmp_path], lambda: "new")

    cache.get("c", [tmp_path], lambda: "old")

    assert [cache.get(key, [tmp_path], lambda: "new") for key in "acb"] == ["old", "old", "new"]


def refs(store: Path) -> str | None:
    if store.exists():
        settle(store)
    return signature(store / "HEAD", store / "packed-refs", store / "refs")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with two commits on main, and the older one on the branch a/b."""
    made = tmp_path / "s.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(made)], check=True)
    tree = git(made, "mktree").strip()
    first = git(made, "commit-tree", tree, "-m", "1").strip()
    second = git(made, "commit-tree", tree, "-m", "2", "-p", first).strip()
    git(made, "update-ref", "refs/heads/main", second)
    git(made, "update-ref", "refs/heads/a/b", first)
    return made


def test_a_signature_stays_while_no_ref_moves(store: Path) -> None:
    before = refs(store)
    git(store, "hash-object", "-w", "--stdin")

    assert before is not None
    assert refs(store) == before


@pytest.mark.parametrize(
    "move",
    [
        pytest.param(("update-ref", "refs/heads/main", "main~1"), id="moved"),
        pytest.param(("update-ref", "refs/covalt/calls/x", "main"), id="made"),
        pytest.param(("update-ref", "-d", "refs/heads/a/b"), id="deleted"),
        pytest.param(("symbolic-ref", "HEAD", "refs/heads/a/b"), id="switched"),
        pytest.param(("pack-refs", "--all"), id="packed"),
    ],
)
def test_a_signature_changes_when_a_ref_moves(store: Path, move: tuple[str, ...]) -> None:
    before = refs(store)
    git(store, *move)

    assert refs(store) not in {before, None}


def test_a_copy_in_the_place_of_a_store_has_another_signature(store: Path) -> None:
    before = refs(store)
    copy = store.with_name("copy.git")
    shutil.copytree(store, copy)
    shutil.rmtree(store)
    gone = refs(store)
    copy.rename(store)

    assert len({before, gone, refs(store)}) == 3


def test_a_file_that_has_just_changed_has_no_signature(tmp_path: Path) -> None:
    file = tmp_path / "covalt.yaml"
    file.write_text("version: 1\n")

    assert signature(file) is None
    settle(file)
    assert signature(file) is not None


def test_a_file_of_the_same_size_and_time_has_another_signature(tmp_path: Path) -> None:
    file = tmp_path / "covalt.yaml"
    file.write_text("version: 1\n")
    status = file.stat()
    settle(file)
    before = signature(file)
    with file.open("r+") as opened:
        opened.write("version: 2\n")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    settle(file)

    assert signature(file) not in {before, None}
