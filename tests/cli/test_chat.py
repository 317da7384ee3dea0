"""Looking at a chat changes nothing in it, and needs nobody's leave."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from pathlib import Path

import pytest

from covalt_git.toolsets.new_project import create_project
from covalt_git.workspaces.materialize import Journal, write_journal
from covalt_git.workspaces.writing import writing
from tests import command
from tests.workspaces.stores import open_chats, pending_call


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project whose chat has a file, an edit of it that is not saved, and things left out."""
    create_project(tmp_path)
    covalt(tmp_path, "chat", "new", "--id", "c1")
    workspace = tmp_path / "data/chats/c1/workspace"
    (workspace / "a.txt").write_text("one\n", encoding="utf-8")
    covalt(tmp_path, "chat", "branch", "c1", "start")
    (workspace / "a.txt").write_text("two\n", encoding="utf-8")
    (workspace / "__pycache__").mkdir()
    (workspace / "out").symlink_to("/etc")
    return tmp_path


def covalt(root: Path, *args: str) -> str:
    done = command.run("-C", str(root), *args)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def objects(root: Path) -> set[Path]:
    return set((root / "data/chats/c1/store.git").rglob("*"))


def test_status_names_edits_and_what_is_left_out(root: Path) -> None:
    said = covalt(root, "chat", "status", "c1")

    assert "  ~ a.txt" in said
    assert "! out is not stored: it is a link that may lead outside" in said
    assert "ignored, and kept through every switch: __pycache__" in said


def test_status_tells_a_call_that_runs_from_one_that_waits(root: Path) -> None:
    with open_chats(root / "data").open("c1") as chat, writing(chat) as writer:
        waits = pending_call(chat, status="pending", tool_id="app-builder:run_command")
        running = pending_call(chat)
        writer.put_call(waits)
        writer.put_call(running)
        said = covalt(root, "chat", "status", "c1")
        told = json.loads(covalt(root, "chat", "status", "c1", "--json"))

    assert f"running: {running.tool_id} (call {running.id}, since {running.started_at})\n" in said
    assert f"waiting for approval: {waits.tool_id}, see covalt-git approval list\n" in said
    listed = {one["call_id"]: one["status"] for one in told["status"]["waiting"]}
    assert listed == {running.id: "running", waits.id: "pending"}


def test_status_tells_a_switch_that_was_interrupted_from_edits(root: Path) -> None:
    """Of three files that the switch changes one is there, one is to come and one was edited."""
    workspace = root / "data/chats/c1/workspace"
    for name in ("a.txt", "b.txt", "c.txt"):
        (workspace / name).write_text("old")
    covalt(root, "chat", "branch", "c1", "idea")
    covalt(root, "chat", "checkout", "c1", "idea")
    for name in ("a.txt", "b.txt", "c.txt"):
        (workspace / name).write_text("new")
    covalt(root, "chat", "checkout", "c1", "main")
    with open_chats(root / "data").open("c1") as chat:
        old, new = (chat.branch(name).manifest_id for name in ("main", "idea"))
    journal = Journal(old=old, new=new, head="refs/heads/idea")
    write_journal(root / "data/chats/c1/switch.json", journal)
    (workspace / "a.txt").write_text("new")
    (workspace / "c.txt").write_text("mine")
    said = covalt(root, "chat", "status", "c1")
    told = json.loads(covalt(root, "chat", "status", "c1", "--json"))

    assert (
        f"a switch to idea, at {str(new)[:12]}, was interrupted: the next step finishes it" in said
    )
    assert [line for line in said.splitlines() if "~" in line] == ["  ~ c.txt"]
    assert told["status"]["switching_to"] == "idea"
    assert "switch" not in covalt(root, "chat", "checkout", "c1", "idea")
    assert (workspace / "b.txt").read_text() == "new"
    assert (workspace / "c.txt").read_text() == "mine"


def test_a_file_that_is_too_large_is_refused_unread(root: Path) -> None:
    with (root / "huge").open("wb") as file:
        file.truncate(1 << 43)  # which nobody reads in the time of a test
    done = command.run("-C", str(root), "chat", "upload", "c1", str(root / "huge"))

    assert done.returncode == 1
    assert "huge' cannot be stored: it is larger than 100 MiB" in done.stderr
    assert "hint: raise workspace.max_file_mb in covalt.yaml" in done.stderr


def test_what_is_no_file_is_said_to_be_what_it_is(root: Path) -> None:
    os.mkfifo(root / "pipe")
    for name, kind in (("pipe", "a named pipe"), (".", "a folder"), ("/dev/zero", "a device")):
        done = command.run("chat", "upload", "c1", name, cwd=root)

        assert (done.returncode, done.stderr) == (
            2,
            f"{name!r} is {kind}; only files are uploaded\n",
        )
    assert "there is no file 'none'" in command.run("chat", "upload", "c1", "none", cwd=root).stderr


def test_an_upload_says_which_files_were_there(root: Path) -> None:
    for name in ("x", "y"):
        (root / name).write_text(name)
    covalt(root, "chat", "upload", "c1", str(root / "x"))
    both = [str(root / "x"), str(root / "y")]
    said = covalt(root, "chat", "upload", "c1", *both)
    again = covalt(root, "chat", "upload", "c1", *both)

    assert "  = x was there already\n  + y\n" in said
    assert "  = x was there already\n  = y was there already\nnothing new" in again
    assert "+" not in again


def test_an_upload_that_not_every_system_can_check_out_is_stored_and_named(root: Path) -> None:
    (root / "A.TXT").write_text("mine")
    said = covalt(root, "chat", "upload", "c1", str(root / "A.TXT"))

    assert "! a.txt is stored, but not for every system: some systems take it for 'A.TXT'" in said


def test_what_is_in_the_way_is_moved_by_the_command_of_the_hint(root: Path) -> None:
    workspace = root / "data/chats/c1/workspace"
    (workspace / "it's").write_text("1")
    covalt(root, "chat", "branch", "c1", "has")
    covalt(root, "chat", "checkout", "c1", "start")
    os.mkfifo(workspace / "it's")
    below = root / "toolsets"
    refused = command.run("chat", "checkout", "c1", "has", cwd=below)
    (hint,) = (line for line in refused.stderr.splitlines() if "hint:" in line)
    elsewhere = root / "elsewhere"
    elsewhere.mkdir()
    move = hint.partition("for example: ")[2].replace("/tmp/", str(elsewhere))
    subprocess.run(move, shell=True, cwd=below, check=True)

    assert (elsewhere / "it's").is_fifo()
    assert "on has" in covalt(root, "chat", "checkout", "c1", "has")


def test_diff_shows_the_edit_from_the_last_manifest_and_from_a_named_one(root: Path) -> None:
    for args in ([], ["start"]):
        said = covalt(root, "chat", "diff", "c1", *args)

        assert "-one\n+two\n" in said
    (changed,) = json.loads(covalt(root, "chat", "diff", "c1", "--json"))["changes"]
    assert (changed["path"], changed["kind"]) == ("a.txt", "modified")


@pytest.mark.parametrize("args", [["status", "c1"], ["diff", "c1"], ["log", "c1"], ["files", "c1"]])
def test_looking_stores_nothing(root: Path, args: list[str]) -> None:
    before = objects(root)

    covalt(root, "chat", *args)

    assert objects(root) == before


@pytest.mark.parametrize("args", [["status", "c1"], ["diff", "c1"], ["show", "c1"], ["log", "c1"]])
def test_looking_does_not_wait_for_whoever_writes(root: Path, args: list[str]) -> None:
    with (root / "data/chats/c1/lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        assert covalt(root, "chat", *args)


def test_a_missing_folder_is_shown_as_it_will_be_made_again(root: Path) -> None:
    (root / "data/chats/c1/workspace").rename(root / "elsewhere")

    assert "no unsaved edits" in covalt(root, "chat", "status", "c1")
    covalt(root, "chat", "checkout", "c1", "start")
    assert (root / "data/chats/c1/workspace/a.txt").read_text(encoding="utf-8") == "one\n"


def test_a_damaged_chat_is_named_and_hides_no_other(root: Path) -> None:
    covalt(root, "chat", "new", "--id", "c2")
    (head,) = (root / "data/chats/c1/store.git/refs/heads").glob("main")
    head.write_text("", encoding="utf-8")

    for args in (["chat", "list"], ["approval", "list"], ["index", "status"]):
        assert "the chat 'c1' is damaged" in covalt(root, *args)
    assert "c2" in covalt(root, "chat", "list")
