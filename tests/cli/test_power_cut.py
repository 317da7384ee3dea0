"""After a power cut, the next command finds every commit that was acknowledged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from covalt_git.git_objects.write_ahead import WriteAheadLog, this_boot
from covalt_git.toolsets.new_project import create_project
from tests.command import run
from tests.power_cuts import STATES, cut_off
from tests.workspaces.stores import git, run_git

pytestmark = pytest.mark.skipif(this_boot() is None, reason="this system does not number its boots")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project that waits for the disk."""
    create_project(tmp_path / "project")
    return tmp_path / "project"


def chat(root: Path, *args: str) -> None:
    """Run a command in a process of its own, which knows nothing of the ones before."""
    done = run("chat", *args, cwd=root)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("state", "command"),
    [(state, "log c1") for state in STATES] + [(STATES[-1], "show c1"), (STATES[-1], "upload c1")],
)
def test_a_command_brings_back_what_was_acknowledged(root: Path, state: str, command: str) -> None:
    chat(root, "new", "--id", "c1")
    store = root / "data/chats/c1/store.git"
    on_disk = shutil.copytree(store, root / "on-disk")
    for name in ("one.txt", "two.txt"):
        (root / name).write_text(name, encoding="utf-8")
    chat(root, "upload", "c1", str(root / "one.txt"))
    chat(root, "branch", "c1", "other")
    chat(root, "upload", "c1", str(root / "two.txt"))
    before = {name: git(store, "rev-parse", name).strip() for name in ("main", "other")}
    records = WriteAheadLog(str(store)).records()
    lost = {path for record in records for path in (*record.files, record.ref)}
    cut_off(store, on_disk, lambda path: state if path in lost else "whole")
    assert (run_git(store, "rev-parse", "main^{commit}").returncode == 0) == (state == "whole")

    files = [str(root / "covalt.yaml")] if command.startswith("upload") else []
    chat(root, *command.split(), *files)

    assert git(store, "fsck", "--strict", "--no-dangling") == ""
    assert git(store, "rev-parse", "other").strip() == before["other"]
    assert before["main"] in git(store, "rev-list", "main")
    assert git(store, "show", f"{before['main']}:two.txt") == "two.txt"
