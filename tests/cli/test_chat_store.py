"""Chats as a whole at the command line: forked, exported, imported, collected and deleted."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from covalt_git.toolsets.new_project import create_project
from tests import command
from tests.workspaces.stores import git, open_chats


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project with a chat that has two states on two branches, and an edit."""
    root = tmp_path / "project"
    create_project(root)
    covalt(root, "chat", "new", "--id", "c1", "--title", "Garden")
    workspace = root / "data/chats/c1/workspace"
    (workspace / "a.txt").write_text("one\n", encoding="utf-8")
    covalt(root, "chat", "branch", "c1", "start")
    (workspace / "a.txt").write_text("two\n", encoding="utf-8")
    return root


def run(root: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return command.run("-C", str(root), *args, cwd=root.parent)


def covalt(root: Path, *args: str) -> str:
    done = run(root, *args)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def told(root: Path, *args: str) -> Any:
    return json.loads(covalt(root, *args, "--json"))


def test_a_fork_is_a_chat_of_its_own(root: Path) -> None:
    made = told(root, "chat", "fork", "c1")

    assert made["id"] == "c2"
    assert made["forked_from"] == {"chat_id": "c1", "manifest_id": made["active_manifest_id"]}
    assert Path(made["workspace"], "a.txt").read_text(encoding="utf-8") == "two\n"
    listed = {chat["id"]: chat for chat in told(root, "chat", "list")["chats"]}
    assert (listed["c2"]["manifests"], listed["c2"]["title"]) == (2, "Garden")
    assert "Garden (forked from c1)" in covalt(root, "chat", "list")
    assert "forked here from c1" in covalt(root, "chat", "show", "c2")
    assert len(told(root, "chat", "branch", "c2")["branches"]) == 2


def test_a_chat_that_an_agent_made_says_so(root: Path) -> None:
    with replace(open_chats(root / "data"), maker="agent:cursor").new() as chat:
        (chat.workspace / "a.txt").write_text("one\n", encoding="utf-8")
    covalt(root, "chat", "branch", chat.id, "start")

    listed = {chat["id"]: chat["made_by"] for chat in told(root, "chat", "list")["chats"]}
    assert listed == {"c1": None, "c2": "agent:cursor"}
    assert "(made by agent:cursor)" in covalt(root, "chat", "list")
    assert "in a chat that agent:cursor made" in covalt(root, "chat", "show", "c2")
    assert "made" not in covalt(root, "chat", "show", "c1")


def test_a_fork_at_a_state_has_the_files_of_then(root: Path) -> None:
    said = covalt(root, "chat", "fork", "c1", "--at", "start", "--id", "then", "--title", "Then")

    assert said.startswith("then: forked from c1 at ")
    folder = root / "data/chats/then/workspace"
    assert (folder / "a.txt").read_text(encoding="utf-8") == "one\n"
    assert [one["name"] for one in told(root, "chat", "branch", "then")["branches"]] == ["main"]
    # The edit of the other chat was nobody's business.
    assert told(root, "chat", "status", "c1")["status"]["changes"]


def test_an_export_is_imported_elsewhere_and_cloned_by_git(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "garden.bundle"
    done = told(root, "chat", "export", "c1", "-o", str(file))
    assert done == {
        "file": str(file),
        "branches": ["main", "start"],
        "objects": done["objects"],
        "size": file.stat().st_size,
        "lacks": [],
        "notes": {"empty_folders": [], "not_stored": [], "unportable": []},
    }
    other = tmp_path / "other"
    create_project(other)

    found = told(other, "chat", "import", str(file))

    assert (found["chat"]["id"], found["was"], found["chat"]["manifests"]) == ("c1", "c1", 2)
    assert Path(found["chat"]["workspace"], "a.txt").read_text(encoding="utf-8") == "two\n"
    assert covalt(root, "chat", "import", str(file)).startswith("c2 (c1 was taken): 2 states on ")
    git(tmp_path, "clone", "-q", str(file), "clone")
    assert (tmp_path / "clone/a.txt").read_text(encoding="utf-8") == "two\n"


def test_an_imported_chat_can_be_read_and_gone_on_with(root: Path, tmp_path: Path) -> None:
    write = ("call", "c1", "app-builder:write_file", "--arg")
    covalt(root, "chat", "message", "add", "c1", "make a page")
    covalt(root, *write, "path=b.txt", "--arg", "content=there")
    covalt(root, "chat", "export", "c1", "-o", str(tmp_path / "garden.bundle"))
    other = tmp_path / "other"
    create_project(other)
    covalt(other, "chat", "import", str(tmp_path / "garden.bundle"))

    said = covalt(other, "chat", "log", "c1")
    assert "  push (made elsewhere): tool_run: app-builder:write_file\n" in said
    assert "  push (made elsewhere): message: user: make a page\n" in said
    assert told(other, "chat", "message", "list", "c1")["messages"] == []
    first = told(other, "chat", "log", "c1")["manifests"][0]["id"]
    assert "push (made elsewhere): tool_run: " in covalt(other, "chat", "show", "c1", first)

    covalt(other, "chat", "message", "add", "c1", "now here")
    covalt(other, *write, "path=c.txt", "--arg", "content=here")
    covalt(other, "chat", "message", "retry", "c1")
    covalt(other, *write, "path=d.txt", "--arg", "content=again")
    covalt(other, "chat", "merge", "c1", "main")
    covalt(other, "chat", "restore", "c1", first, "c.txt")
    done = told(other, "chat", "log", "c1")["manifests"]
    assert [(one["source"], one["made"]) for one in done][:3] == [
        ("restore", "here"),
        ("merge", "here"),
        ("tool_run", "here"),
    ]
    assert {one["made"] for one in done[3:]} == {"elsewhere"}
    folder = other / "data/chats/c1/workspace"
    assert {path.name for path in folder.iterdir()} == {"a.txt", "b.txt", "d.txt"}
    assert git(other / "data/chats/c1/store.git", "fsck", "--strict", "--full") == ""


def test_an_export_without_a_name_is_called_like_the_chat(root: Path) -> None:
    assert covalt(root, "chat", "export", "c1", "--branch", "start").startswith(
        "c1.bundle: start, "
    )
    again = run(root, "chat", "export", "c1")

    assert (again.returncode, "there is a file 'c1.bundle'" in again.stderr) == (1, True)


def test_an_import_names_what_is_not_for_every_system(root: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main", "work")
    (tmp_path / "work/con").write_text("x", encoding="utf-8")
    (tmp_path / "work/__pycache__").mkdir()
    (tmp_path / "work/__pycache__/x.pyc").write_text("x", encoding="utf-8")
    git(tmp_path / "work", "add", "-A")
    git(tmp_path / "work", "commit", "-q", "-m", "first")
    git(tmp_path / "work", "tag", "v1")

    said = covalt(root, "chat", "import", str(tmp_path / "work"), "--id", "work")

    assert "work: 1 state on main" in said
    assert "! con is not for every system" in said
    assert "! __pycache__/x.pyc will not be in later states: workspace.ignore" in said
    assert "left out: refs/tags/v1" in said


def test_what_must_not_come_in_is_named_with_its_commit(root: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main", "work")
    (tmp_path / "work/out").symlink_to("/etc")
    git(tmp_path / "work", "add", "-A")
    git(tmp_path / "work", "commit", "-q", "-m", "first")
    commit = git(tmp_path / "work", "rev-parse", "HEAD").strip()

    done = run(root, "chat", "import", str(tmp_path / "work"))

    assert done.returncode == 1
    assert (
        f"out: not_admitted it is a link that may lead outside (commit {commit[:12]})"
        in done.stderr
    )
    assert [chat["id"] for chat in told(root, "chat", "list")["chats"]] == ["c1"]


def test_gc_says_what_it_freed(root: Path) -> None:
    covalt(root, "chat", "checkout", "c1", "start")
    workspace = root / "data/chats/c1/workspace"
    (workspace / "large.bin").write_bytes(bytes(range(256)) * 4000)
    covalt(root, "chat", "branch", "c1", "idea")
    covalt(root, "chat", "checkout", "c1", "main")
    for name in ("start", "idea"):
        covalt(root, "chat", "branch", "delete", "c1", name, "--force")

    assert told(root, "chat", "gc", "c1")["forgotten"] == []
    done = told(root, "chat", "gc", "c1", "--now")

    assert sorted(done["forgotten"]) == ["idea"]
    assert done["before"]["size"] > done["after"]["size"]
    assert done["after"]["packs"] == 1
    assert "c1: 0 bytes freed" in covalt(root, "chat", "gc", "--all")


def test_gc_wants_one_chat_or_all(root: Path) -> None:
    for args in ([], ["c1", "--all"]):
        assert run(root, "chat", "gc", *args).returncode == 2


def test_gc_of_all_goes_on_behind_a_damaged_one(root: Path) -> None:
    covalt(root, "chat", "new", "--id", "c2")
    (root / "data/chats/c1/store.git/refs/heads/main").write_text("", encoding="utf-8")

    done = run(root, "chat", "gc", "--all")

    assert done.returncode == 1
    assert "refs/heads/main" in done.stderr
    assert "c2: 0 bytes freed" in done.stdout


def test_nothing_is_deleted_unasked(root: Path) -> None:
    done = run(root, "chat", "delete", "c1")

    assert done.returncode == 2
    assert "c1 would be gone for good: 2 states, " not in done.stderr  # the edit is in no state
    assert "c1 would be gone for good: 1 state, " in done.stderr
    assert "hint: covalt-git chat delete c1 --yes" in done.stderr
    assert (root / "data/chats/c1").is_dir()


@pytest.mark.parametrize(("answer", "left"), [("n\n", ["c1"]), ("y\n", [])])
def test_a_terminal_is_asked(root: Path, answer: str, left: list[str]) -> None:
    ours, theirs = os.openpty()
    try:
        os.write(ours, answer.encode())
        done = subprocess.run(
            [sys.executable, "-m", "covalt_git", "-C", str(root), "chat", "delete", "c1"],
            stdin=theirs,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)

    assert "Delete c1 for good: 1 state, " in done.stdout
    assert done.returncode == (130 if left else 0)
    assert [chat["id"] for chat in told(root, "chat", "list")["chats"]] == left


def test_a_deleted_chat_is_gone_from_lists(root: Path) -> None:
    done = told(root, "chat", "delete", "c1", "--yes")

    assert (done["chat_id"], done["manifests"], done["waiting"]) == ("c1", 1, 0)
    assert told(root, "chat", "list")["chats"] == []
    assert not (root / "data/chats/c1").exists()
    assert run(root, "chat", "delete", "c1", "--yes").returncode == 1


def test_a_chat_that_is_busy_is_not_deleted(root: Path) -> None:
    with (root / "data/chats/c1/lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("process 1 (covalt-git call) since 2026-11-20T17:24:00Z\n")
        lock.flush()
        done = run(root, "chat", "delete", "c1", "--yes")

    assert done.returncode == 1
    busy = "chat 'c1' is busy: process 1 (covalt-git call) is writing since 2026-11-20T17:24:00Z"
    assert busy in done.stderr
    assert (root / "data/chats/c1").is_dir()
