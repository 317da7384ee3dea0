"""Looking at a chat changes nothing in it, and needs nobody's leave."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

import pytest

from covalt_git.files.new_project import create_project
from tests import command


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


def test_diff_shows_the_edit_from_the_last_manifest_and_from_a_named_one(root: Path) -> None:
    for args in ([], ["start"]):
        said = covalt(root, "chat", "diff", "c1", *args)

        assert "-one\n+two\n" in said
    (changed,) = json.loads(covalt(root, "chat", "diff", "c1", "--json"))
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
