"""Removing a toolset: what Git could bring back goes, and nothing of a chat does."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.installs.importing import import_toolset
from covalt_git.installs.uninstall import NotInGitError, uninstall
from covalt_git.manifests.state_files import write_lock
from covalt_git.models.tool_lock import ToolLock
from covalt_git.toolsets.state_store import set_enabled
from covalt_git.toolsets.toolset import read_toolset
from tests.installs.hostile_bundles import GOOD, archive
from tests.killing import killed_at

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project in Git whose toolset ``demo`` was imported, switched on and committed."""
    (tmp_path / "covalt.yaml").write_text("version: 1\n", encoding="utf-8")
    (tmp_path / "toolsets").mkdir()
    bundle = tmp_path / "demo.zip"
    bundle.write_bytes(archive(GOOD))
    import_toolset(tmp_path, bundle)
    set_enabled(tmp_path, "demo", enabled=True)
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    return tmp_path


def git(root: Path, *args: str) -> str:
    config = ["-c", "user.name=x", "-c", "user.email=x@example.com"]
    done = subprocess.run(
        ["git", *config, *args], cwd=root, check=True, capture_output=True, text=True
    )
    return done.stdout


def commit(root: Path) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-qm", "x")


def names(root: Path) -> list[str]:
    return sorted(
        path.relative_to(root / "toolsets").as_posix() for path in (root / "toolsets").rglob("*")
    )


def test_files_state_and_lock_go_and_git_brings_all_of_it_back(root: Path) -> None:
    lock = root / "toolsets/locks/demo.yaml"
    lock.parent.mkdir()
    lock.write_text("{}\n", encoding="utf-8")
    commit(root)
    before = read_toolset(root, "demo")

    uninstall(root, "demo")
    assert names(root) == ["locks", "state"]

    git(root, "checkout", "HEAD", "--", "toolsets")
    after = read_toolset(root, "demo")
    assert (after.digest, after.enabled, after.state) == (before.digest, True, before.state)


@pytest.mark.parametrize("change", ["new", "changed", "executable", "removed", "no-git"])
def test_what_git_could_not_bring_back_stays_unless_forced(root: Path, change: str) -> None:
    tool = root / "toolsets/demo/tools/a.py"
    match change:
        case "new":
            (root / "toolsets/demo/new.md").write_text("new", encoding="utf-8")
        case "changed":
            tool.write_text("changed", encoding="utf-8")
        case "executable":
            tool.chmod(0o755)
        case "removed":
            tool.unlink()
        case _:
            (root / ".git").rename(root / "elsewhere")
    before = names(root)

    with pytest.raises(NotInGitError):
        uninstall(root, "demo")
    assert names(root) == before

    uninstall(root, "demo", force=True)
    assert names(root) == ["state"]


def test_the_locks_of_its_servers_go_and_those_of_others_stay(root: Path) -> None:
    for namespace, owner in (("web", "demo"), ("disk", "other")):
        lock = ToolLock(namespace=namespace, toolset_id=owner, kind="mcp")
        write_lock(root / f"toolsets/locks/{namespace}.yaml", lock)

    uninstall(root, "demo", force=True)

    assert [file.name for file in (root / "toolsets/locks").iterdir()] == ["disk.yaml"]


def test_an_unknown_toolset_is_told_with_the_nearest(root: Path) -> None:
    with pytest.raises(UnknownNameError, match="dmeo") as refused:
        uninstall(root, "dmeo")
    assert "demo" in refused.value.hint


def test_one_that_cannot_be_removed_is_there_as_it_was(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    before = names(root)
    monkeypatch.setattr("pathlib.Path.rename", refuse)
    with pytest.raises(CovaltError, match="cannot be removed: read-only file system"):
        uninstall(root, "demo")
    assert names(root) == before


def test_killed_anywhere_it_is_there_as_it_was_or_gone(root: Path) -> None:
    ends = []
    for step in range(1, 1000, 2):
        git(root, "checkout", "-q", "HEAD", "--", "toolsets")
        killed = killed_at(step, lambda: uninstall(root, "demo", force=True))
        there = (root / "toolsets/demo").exists()
        ends.append(there)
        if there:
            toolset = read_toolset(root, "demo")
            assert toolset.sound
            assert toolset.enabled
            assert toolset.state.imported
        if not killed:
            break

    assert ends[0]
    assert not ends[-1]
    git(root, "checkout", "-q", "HEAD", "--", "toolsets")
    uninstall(root, "demo")
    assert names(root) == ["state"]
