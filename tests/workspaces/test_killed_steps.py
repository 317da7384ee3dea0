"""Killed at any change of the disk, a step of the conversation has not begun or is finished."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from covalt_git.conversations import messages
from covalt_git.models.commit_record import MessageRecord
from covalt_git.workspaces.writing import writing
from tests.workspaces.killed_steps import STEPS, seen
from tests.workspaces.stores import branch_off, checkout, put, save

if TYPE_CHECKING:
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.registry import Chats

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def talk(chat: ChatStore) -> ChatStore:
    """A chat with two messages, files between and after them, and a branch with work of its own."""
    put(chat.workspace, {"a": ("file", b"0"), "b/c": ("program", b"0")})
    with writing(chat) as writer:
        messages.add(writer, MessageRecord(role="user", text="one"))
        put(chat.workspace, {"a": ("file", b"1"), "d/e": ("file", b"1"), "f": ("folder", b"")})
        messages.add(writer, MessageRecord(role="assistant", text="two"))
    (chat.workspace / "b/c").unlink()
    (chat.workspace / "b").rmdir()
    put(chat.workspace, {"g": ("link", b"a")})
    save(chat)
    branch_off(chat, "idea")
    put(chat.workspace, {"a": ("file", b"idea")})
    save(chat)
    checkout(chat, "main")
    return chat


@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_was_killed_has_not_begun_or_is_finished(
    chats: Chats, talk: ChatStore, step: str
) -> None:
    before = json.loads(json.dumps(seen(talk)))
    done = subprocess.run(
        [sys.executable, "-m", "tests.workspaces.killed_steps", str(chats.folder.parent), step],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    after = [json.loads(line) for line in done.stdout.splitlines()]

    assert done.returncode == 0, done.stderr
    assert before != after[-1]
    assert [state for state in after if state not in (before, after[-1])] == []
    assert len(after) > 5
