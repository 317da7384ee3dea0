"""What cannot be stored is told by whichever command first finds it, once, in a line of its own."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.toolsets.new_project import create_project
from tests import command

if TYPE_CHECKING:
    from pathlib import Path

PIPE = "is not stored: it is neither a file, a folder nor a link"
FORGED = "x\n  ! all is well\n\x1b[31mred"
COMMANDS = [
    pytest.param(["message", "add", "c1", "hello"], id="message-add"),
    pytest.param(["message", "retry", "c1"], id="message-retry"),
    pytest.param(["message", "edit", "c1", "said", "bye"], id="message-edit"),
    pytest.param(["checkout", "c1", "idea"], id="checkout"),
    pytest.param(["branch", "c1", "other"], id="branch"),
    pytest.param(["restore", "c1", "idea"], id="restore"),
    pytest.param(["restore", "c1", "idea", "--keep-files"], id="restore-keep-files"),
    pytest.param(["upload", "c1", "covalt.yaml"], id="upload"),
    pytest.param(["merge", "c1", "idea"], id="merge"),
    pytest.param(["fork", "c1"], id="fork"),
    pytest.param(["export", "c1"], id="export"),
]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project whose chat has a branch and a message, and then gets an edit and a pipe."""
    create_project(tmp_path)
    (tmp_path / "covalt.yaml").write_text("version: 1\nworkspace: {durability: fast}\n")
    chat(tmp_path, "new", "--id", "c1")
    (tmp_path / "data/chats/c1/workspace/a.txt").write_text("one\n")
    chat(tmp_path, "branch", "c1", "idea")
    chat(tmp_path, "message", "add", "c1", "hello", "--ref", "said")
    (tmp_path / "data/chats/c1/workspace/a.txt").write_text("two\n")
    os.mkfifo(tmp_path / "data/chats/c1/workspace/ff")
    return tmp_path


def chat(root: Path, *args: str) -> tuple[str, str]:
    """Return what a chat command prints, and what it says on the error stream."""
    done = command.run("-C", str(root), "chat", *args, cwd=root)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout, done.stderr


def not_stored(told: Any) -> list[str]:
    return [note["path"] for note in told["notes"]["not_stored"]]


@pytest.mark.parametrize("args", COMMANDS)
def test_the_command_that_saves_it_tells_it_and_the_next_does_not(
    root: Path, args: list[str]
) -> None:
    _, said = chat(root, *args)
    chat(root, "message", "switch", "c1", "said")
    _, later = chat(root, "message", "add", "c1", "more")

    assert f"  ! ff {PIPE}\n" in said
    assert "ff" not in later


@pytest.mark.parametrize("args", COMMANDS)
def test_json_has_it_and_the_error_stream_is_left_alone(root: Path, args: list[str]) -> None:
    printed, said = chat(root, *args, "--json")

    assert not_stored(json.loads(printed)) == ["ff"]
    assert said == ""


def test_a_pipe_alone_is_in_the_record_of_the_next_message(root: Path) -> None:
    chat(root, "message", "add", "c1", "one")
    os.mkfifo(root / "data/chats/c1/workspace/more")
    first, second = (chat(root, "message", "add", "c1", text)[1] for text in ("two", "three"))

    assert (first, second) == (f"  ! more {PIPE}\n", "")


def test_a_command_that_fails_has_told_what_it_saved(root: Path) -> None:
    done = command.run("-C", str(root), "chat", "branch", "c1", "idea")

    assert done.returncode == 1
    assert done.stderr.startswith(f"  ! ff {PIPE}\n")


def test_a_call_tells_it_in_json_too(root: Path) -> None:
    write = ["call", "c1", "app-builder:write_file", "--arg", "path=b", "--arg", "content=b"]
    first, second = (command.run("-C", str(root), *write, "--json").stdout for _ in range(2))

    assert not_stored(json.loads(first)) == ["ff"]
    assert not_stored(json.loads(second)) == []


@pytest.mark.parametrize("args", [["fork", "c1"], ["export", "c1"]])
def test_a_copy_of_a_chat_says_what_of_the_folder_it_lacks(root: Path, args: list[str]) -> None:
    (root / "data/chats/c1/workspace/__pycache__").mkdir()
    _, said = chat(root, *args)

    assert "the copy lacks what no state holds: __pycache__, ff\n" in said


def test_a_copy_of_another_branch_lacks_nothing_of_the_folder(root: Path) -> None:
    for args in (["fork", "c1", "--at", "idea"], ["export", "c1", "--branch", "idea"]):
        assert json.loads(chat(root, *args, "--json")[0])["lacks"] == []


def test_a_name_cannot_forge_a_line(root: Path) -> None:
    (root / "data/chats/c1/workspace" / FORGED).write_text("")
    (root / "data/chats/c1/workspace/__pycache__\n  + b.txt").mkdir()
    written = "  ! x\\u{a}  ! all is well\\u{a}\\u{1b}[31mred is not stored: "

    for args in (["status", "c1"], ["branch", "c1", "other"], ["show", "c1"], ["fork", "c1"]):
        out, said = chat(root, *args)

        assert "\n  ! all is well" not in out + said
        assert "\n  + b.txt" not in out + said
        assert written in said or args[0] == "fork"
    assert "lacks" in said
