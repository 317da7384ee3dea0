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


def test_a_value_made_within_a_clock_tick_of_a_change_is_not_cached(tmp_path: Path) -> None:
    file = tmp_path / "a"
    cache = FileCache()
    for text in "abcdefgh":
        file.write_text(text)
        os.utime(file, ns=(0, 0))
        assert signature(file) is None
        assert cache.get("text", [tmp_path], file.read_text) == text


def signature_of(store: Path) -> str | None:
    if store.exists():
        settle(store)
    return signature(store / "HEAD", store / "packed-refs", store / "refs")


@pytest.mark.parametrize(
    ("command", "changes"),
    [
        ("hash-object -w --stdin", False),
        ("update-ref refs/heads/main main~1", True),
        ("update-ref refs/covalt/calls/x main", True),
        ("update-ref -d refs/heads/a/b", True),
        ("symbolic-ref HEAD refs/heads/a/b", True),
        ("pack-refs --all", True),
    ],
)
def test_a_signature_changes_with_the_refs_alone(
    tmp_path: Path, command: str, *, changes: bool
) -> None:
    store = tmp_path / "s.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(store)], check=True)
    tree = git(store, "mktree").strip()
    first = git(store, "commit-tree", tree, "-m", "1").strip()
    second = git(store, "commit-tree", tree, "-m", "2", "-p", first).strip()
    git(store, "update-ref", "refs/heads/main", second)
    git(store, "update-ref", "refs/heads/a/b", first)
    before = signature_of(store)
    assert before is not None

    git(store, *command.split())

    assert (signature_of(store) != before) == changes
    copy = Path(shutil.copytree(store, tmp_path / "copy.git"))
    shutil.rmtree(store)
    gone = signature_of(store)
    copy.rename(store)
    assert len({before, gone, signature_of(store)}) == 3


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
