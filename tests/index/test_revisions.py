"""An index of the project as of a commit: the same rows whenever it is asked for, nothing touched."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from covalt_git.git_objects.revisions import UnknownRevisionError, write_folder
from covalt_git.index.revision import write_revision
from covalt_git.toolsets.new_project import create_project
from tests import command

WHO = ("-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "commit.gpgsign=false")


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *WHO, *words], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project below a repository's top, of two commits; the second has a tool of another name."""
    root = tmp_path / "work" / "demo"
    create_project(root)
    shutil.rmtree(root / ".git")
    git(tmp_path / "work", "init", "-q", "-b", "main")
    (root / "toolsets/data-lab/linked").symlink_to("/etc/passwd")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    git(root, "tag", "-am", "one", "v1")
    (root / "toolsets/data-lab/linked").unlink()
    manifest = root / "toolsets/app-builder/toolset.yaml"
    manifest.write_text(manifest.read_text().replace("id: run_command", "id: start_program"))
    git(root, "add", "-A")
    git(root, "commit", "-qm", "second")
    return root


def dumped(file: Path) -> list[str]:
    with closing(sqlite3.connect(file)) as connection:
        return list(connection.iterdump())


def tool_ids(file: Path) -> set[str]:
    with closing(sqlite3.connect(file)) as connection:
        return {row[0] for row in connection.execute("SELECT tool_id FROM tools")}


@pytest.mark.parametrize("revision", ["HEAD~1", "main^", "v1", "v1~0"])
def test_tools_are_those_of_the_commit(project: Path, tmp_path: Path, revision: str) -> None:
    commit, _ = write_revision(project, revision, tmp_path / "then.db")
    write_revision(project, "HEAD", tmp_path / "now.db")

    assert commit == git(project, "rev-parse", "HEAD~1")
    assert "app-builder:run_command" in tool_ids(tmp_path / "then.db")
    assert "app-builder:start_program" not in tool_ids(tmp_path / "then.db")
    assert "app-builder:start_program" in tool_ids(tmp_path / "now.db")


def test_the_same_commit_gives_the_same_dump(project: Path, tmp_path: Path) -> None:
    full = git(project, "rev-parse", "HEAD")
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(tmp_path / "work"), str(clone))
    write_revision(project, "main", tmp_path / "a.db")
    os.utime(project / "toolsets/app-builder/toolset.yaml", (1, 1))
    write_revision(project, full[:9], tmp_path / "b.db")
    write_revision(clone / "demo", "HEAD", tmp_path / "c.db")

    assert dumped(tmp_path / "a.db") == dumped(tmp_path / "b.db") == dumped(tmp_path / "c.db")


def test_a_worktree_has_the_commits_of_its_repository(project: Path, tmp_path: Path) -> None:
    git(project, "worktree", "add", "-q", str(tmp_path / "other"), "v1")
    write_revision(tmp_path / "other" / "demo", "main", tmp_path / "a.db")

    assert "app-builder:start_program" in tool_ids(tmp_path / "a.db")


def test_neither_the_repository_nor_the_working_tree_is_touched(
    project: Path, tmp_path: Path
) -> None:
    (project / "toolsets/app-builder/toolset.yaml").write_text("unfinished")
    before = {path: path.lstat().st_mtime_ns for path in sorted(project.parent.rglob("*"))}

    write_revision(project, "v1", tmp_path / "a.db")

    assert {path: path.lstat().st_mtime_ns for path in sorted(project.parent.rglob("*"))} == before


def test_a_link_in_a_commit_is_a_link_again_and_is_not_followed(
    project: Path, tmp_path: Path
) -> None:
    write_folder(project / "toolsets", "v1", tmp_path / "out")
    write_revision(project, "v1", tmp_path / "a.db")

    assert (tmp_path / "out/data-lab/linked").readlink() == Path("/etc/passwd")
    assert not any("root:" in line for line in dumped(tmp_path / "a.db"))


@pytest.mark.parametrize("revision", ["nope", "HEAD~9", "HEAD:demo", "", "v1^{tree}", "@{u}", "é"])
def test_what_is_no_commit_is_told(project: Path, tmp_path: Path, revision: str) -> None:
    with pytest.raises(UnknownRevisionError, match="there is no whole commit"):
        write_revision(project, revision, tmp_path / "a.db")
    assert not (tmp_path / "a.db").exists()


def test_a_project_in_no_repository_is_told(tmp_path: Path) -> None:
    create_project(tmp_path / "demo")
    shutil.rmtree(tmp_path / "demo" / ".git")

    with pytest.raises(UnknownRevisionError, match="is in no git repository"):
        write_revision(tmp_path / "demo", "HEAD", tmp_path / "a.db")


def test_a_commit_whose_objects_are_missing_is_told(project: Path, tmp_path: Path) -> None:
    blob = git(project, "rev-parse", "v1:demo/toolsets/data-lab/toolset.yaml")
    (project.parent / ".git/objects" / blob[:2] / blob[2:]).unlink()

    with pytest.raises(UnknownRevisionError):
        write_revision(project, "v1", tmp_path / "a.db")


def test_a_commit_from_before_the_project_has_no_tools(project: Path, tmp_path: Path) -> None:
    shutil.rmtree(project / "toolsets")
    git(project, "commit", "-qam", "third")

    _, counts = write_revision(project, "HEAD", tmp_path / "a.db")

    assert counts["tools"] == 0


def covalt(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return command.run("-C", str(root), *words)


def test_the_command_says_where_the_index_is_and_overwrites_nothing(
    project: Path, tmp_path: Path
) -> None:
    told = json.loads(covalt(project, "index", "rebuild", "--at", "v1", "--json").stdout)
    out = tmp_path / "mine.txt"
    out.write_text("mine")
    refused = covalt(project, "index", "rebuild", "--at", "v1", "--out", str(out))
    alone = covalt(project, "index", "rebuild", "--out", str(out))

    assert Path(told["file"]).parent == project / "data"
    assert told["commit"] == git(project, "rev-parse", "v1^{commit}")
    assert len(tool_ids(Path(told["file"]))) == told["rows"]["tools"] > 0
    assert (refused.returncode, refused.stderr) == (2, f"{str(out)!r} is there already\n")
    assert (alone.returncode, out.read_text()) == (2, "mine")
    assert not (project / "data/index.db").exists()
