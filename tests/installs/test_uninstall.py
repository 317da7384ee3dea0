"""Removing a toolset deletes only files that git can restore, unless it is forced."""

from pathlib import Path

import pytest

from covalt_git.installs.importing import import_toolset
from covalt_git.installs.uninstall import NotInGitError, uninstall
from covalt_git.toolsets.state_store import set_enabled
from covalt_git.toolsets.toolset import read_toolset
from tests.installs.hostile_bundles import GOOD, archive
from tests.killing import kills
from tests.workspaces.stores import git


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


def commit(root: Path) -> None:
    git(root, "add", "-A")
    git(root, "commit", "-qm", "x")


def names(root: Path) -> list[str]:
    return sorted(
        path.relative_to(root / "toolsets").as_posix() for path in (root / "toolsets").rglob("*")
    )


def test_files_state_and_lock_are_removed_and_git_restores_them(root: Path) -> None:
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
def test_files_that_git_cannot_restore_stay_unless_forced(root: Path, change: str) -> None:
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


@pytest.mark.kills
def test_a_killed_removal_leaves_all_of_the_toolset_or_nothing(root: Path) -> None:
    def reset() -> None:
        git(root, "checkout", "-q", "HEAD", "--", "toolsets")

    ends = []
    for _ in kills(lambda: uninstall(root, "demo", force=True), reset):
        ends.append((root / "toolsets/demo").exists())
        if ends[-1]:
            toolset = read_toolset(root, "demo")
            assert toolset.sound
            assert toolset.enabled
            assert toolset.state.imported

    assert (ends[0], ends[-1]) == (True, False)
    reset()
    uninstall(root, "demo")
    assert names(root) == ["state"]
