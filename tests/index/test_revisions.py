"""An index of a project at a commit: always the same rows, and nothing else changes."""

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from covalt_git.git_store.outer_repository import UnknownRevisionError, write_folder
from covalt_git.index.revision import write_revision
from covalt_git.toolsets.new_project import create_project
from tests.workspaces.stores import git


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a project of two commits in a subfolder; the second renames a tool."""
    top = tmp_path_factory.mktemp("revisions") / "work"
    root = top / "demo"
    create_project(root)
    shutil.rmtree(root / ".git")
    git(top, "init", "-q", "-b", "main")
    (root / "toolsets/data-lab/linked").symlink_to("/etc/passwd")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    git(root, "tag", "-am", "one", "v1")
    (root / "toolsets/data-lab/linked").unlink()
    manifest = root / "toolsets/app-builder/toolset.yaml"
    manifest.write_text(manifest.read_text().replace("id: run_command", "id: start_program"))
    git(root, "add", "-A")
    git(root, "commit", "-qm", "second")
    return top


@pytest.fixture
def root(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "work", symlinks=True)) / "demo"


def dumped(file: Path) -> list[str]:
    with closing(sqlite3.connect(file)) as connection:
        return list(connection.iterdump())


def tool_ids(file: Path) -> set[str]:
    with closing(sqlite3.connect(file)) as connection:
        return {row[0] for row in connection.execute("SELECT tool_id FROM tools")}


def test_tools_are_those_of_the_commit(template: Path, tmp_path: Path) -> None:
    root = template / "demo"
    first = git(root, "rev-parse", "HEAD~1").strip()

    for revision in ("HEAD~1", "main^", "v1", "v1~0"):
        file = tmp_path / f"{revision}.db"
        assert write_revision(root, revision, file)[0] == first
        assert "app-builder:run_command" in tool_ids(file)
        assert "app-builder:start_program" not in tool_ids(file)


def test_the_same_commit_gives_the_same_dump_in_clones_and_worktrees(
    root: Path, tmp_path: Path
) -> None:
    full = git(root, "rev-parse", "HEAD").strip()
    git(tmp_path, "clone", "-q", str(tmp_path / "work"), str(tmp_path / "clone"))
    git(root, "worktree", "add", "-q", str(tmp_path / "other"), "v1")
    write_revision(root, "main", tmp_path / "a.db")
    os.utime(root / "toolsets/app-builder/toolset.yaml", (1, 1))
    write_revision(root, full[:9], tmp_path / "b.db")
    write_revision(tmp_path / "clone/demo", "HEAD", tmp_path / "c.db")
    write_revision(tmp_path / "other/demo", "main", tmp_path / "d.db")

    dumps = [dumped(tmp_path / f"{name}.db") for name in "abcd"]
    assert dumps == [dumps[0]] * 4
    assert "app-builder:start_program" in tool_ids(tmp_path / "a.db")


def test_neither_the_repository_nor_the_working_tree_changes(root: Path, tmp_path: Path) -> None:
    (root / "toolsets/app-builder/toolset.yaml").write_text("unfinished")
    before = {path: path.lstat().st_mtime_ns for path in sorted(root.parent.rglob("*"))}

    write_revision(root, "v1", tmp_path / "a.db")

    assert {path: path.lstat().st_mtime_ns for path in sorted(root.parent.rglob("*"))} == before


def test_a_link_of_a_commit_is_written_as_a_link_and_not_followed(
    root: Path, tmp_path: Path
) -> None:
    write_folder(root / "toolsets", "v1", tmp_path / "out")
    write_revision(root, "v1", tmp_path / "a.db")

    assert (tmp_path / "out/data-lab/linked").readlink() == Path("/etc/passwd")
    assert not any("root:" in line for line in dumped(tmp_path / "a.db"))


def test_a_name_that_is_not_a_commit_is_refused(template: Path, tmp_path: Path) -> None:
    for revision in ("nope", "HEAD~9", "HEAD:demo", "", "v1^{tree}", "@{u}", "é"):
        with pytest.raises(UnknownRevisionError):
            write_revision(template / "demo", revision, tmp_path / "a.db")
        assert not (tmp_path / "a.db").exists(), revision


def test_the_command_prints_where_the_index_is_and_overwrites_no_file(
    root: Path, tmp_path: Path, cli: Callable[..., tuple[int, str]]
) -> None:
    made = json.loads(cli("index", "rebuild", "--at", "v1", "--json")[1])
    out = tmp_path / "mine.txt"
    out.write_text("mine")

    assert Path(made["file"]).parent == root / "data"
    assert made["commit"] == git(root, "rev-parse", "v1^{commit}").strip()
    assert len(tool_ids(Path(made["file"]))) == made["rows"]["tools"] > 0
    assert cli("index", "rebuild", "--at", "v1", "--out", str(out))[0] == 2
    assert cli("index", "rebuild", "--out", str(out))[0] == 2
    assert out.read_text() == "mine"
    assert not (root / "data/index.db").exists()
