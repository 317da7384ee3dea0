"""A command that has to be approved: asked at a terminal, with --yes, or later by somebody."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from typing import Any

import pytest

from tests.journeys.terminal import Terminal

COMMAND = ("call", "c1", "app-builder:run_command", "--arg", "command=echo done >> ran.txt")


@pytest.fixture
def chat(project: Terminal) -> Terminal:
    project.covalt("chat", "new", "--id", "c1")
    return project


def test_without_a_terminal_the_call_waits_and_runs_once_when_approved(chat: Terminal) -> None:
    waiting = chat.json(*COMMAND, code=1)
    assert waiting["status"] == "pending"
    assert not (chat.folder / "data/chats/c1/workspace/ran.txt").exists()

    listed = chat.json("approval", "list")["approvals"]
    assert [row["execution_id"] for row in listed] == [waiting["execution_id"]]
    done = chat.json("approval", "approve", waiting["execution_id"])

    assert done["id"] == waiting["id"]
    assert done["status"] == "success"
    assert _ran(chat) == 1
    assert "approved" in chat.covalt("approval", "approve", waiting["execution_id"], code=1)
    assert _ran(chat) == 1
    assert chat.json("approval", "list")["approvals"] == []


def test_denied_is_an_error_of_the_call_and_nothing_runs(chat: Terminal) -> None:
    waiting = chat.json(*COMMAND, code=1)

    chat.covalt("approval", "deny", waiting["execution_id"])

    entry = chat.json("chat", "show", "c1")
    assert entry["record"]["call"]["error"]["code"] == "denied"
    assert _ran(chat) == 0


def test_yes_approves_and_runs(chat: Terminal) -> None:
    assert chat.json(*COMMAND, "--yes")["status"] == "success"
    assert _ran(chat) == 1


def test_a_tool_whose_decorator_asks_waits_too(chat: Terminal) -> None:
    chat.covalt("chat", "upload", "c1", "covalt.yaml")

    waiting = chat.json("call", "c1", "app-builder:delete_file", '{"path": "covalt.yaml"}', code=1)

    assert waiting["status"] == "pending"
    assert (chat.folder / "data/chats/c1/workspace/covalt.yaml").exists()


@pytest.mark.parametrize(("answer", "runs"), [("y", 1), ("n", 0)])
def test_at_a_terminal_the_person_is_asked(chat: Terminal, answer: str, runs: int) -> None:
    said = _at_a_terminal(chat, [*COMMAND], answer)

    assert "run it? [y/N]" in said
    assert "echo done" in said
    assert _ran(chat) == runs
    assert chat.json("approval", "list")["approvals"] == []


def test_when_the_files_moved_it_is_asked_again_with_the_difference(chat: Terminal) -> None:
    waiting = chat.json(*COMMAND, code=1)
    workspace = chat.folder / "data/chats/c1/workspace"
    (workspace / "new.txt").write_text("new", encoding="utf-8")

    said = chat.covalt("approval", "approve", waiting["execution_id"], code=1)

    assert "+ new.txt" in said
    assert "asked again" in said
    assert _ran(chat) == 0
    (again,) = chat.json("approval", "list")["approvals"]
    assert again["execution_id"] != waiting["execution_id"]
    chat.covalt("approval", "approve", again["execution_id"])
    assert _ran(chat) == 1


def test_deleting_the_index_loses_no_approval(chat: Terminal) -> None:
    waiting = chat.json(*COMMAND, code=1)
    (chat.folder / "data/index.db").unlink()

    assert [row["execution_id"] for row in chat.json("approval", "list")["approvals"]] == [
        waiting["execution_id"]
    ]
    chat.covalt("approval", "approve", waiting["execution_id"])
    (chat.folder / "data/index.db").unlink()
    assert chat.json("approval", "list")["approvals"] == []
    assert _ran(chat) == 1


def _ran(terminal: Terminal) -> int:
    file = terminal.folder / "data/chats/c1/workspace/ran.txt"
    return file.read_text(encoding="utf-8").count("done") if file.exists() else 0


def _at_a_terminal(terminal: Terminal, args: list[str], answer: str) -> str:
    """Run covalt-git on a terminal of its own, answer its question, and return the screen."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PATH": f"{terminal.scripts}:{os.environ['PATH']}"}
    program = subprocess.Popen(
        ["covalt-git", *args],
        cwd=terminal.folder,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        executable=str(terminal.scripts / "covalt-git"),
    )
    os.close(theirs)
    said, answered, end = "", False, time.monotonic() + 60
    while time.monotonic() < end:
        ready: Any = select.select([ours], [], [], 0.2)[0]
        if ready:
            try:
                said += os.read(ours, 65536).decode(errors="replace")
            except OSError:
                break
        elif program.poll() is not None:
            break
        if "run it?" in said and not answered:
            os.write(ours, f"{answer}\n".encode())
            answered = True
    program.wait(timeout=30)
    os.close(ours)
    return said
