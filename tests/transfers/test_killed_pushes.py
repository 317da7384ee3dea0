"""Killed at any change of the disk, a push has not happened, or it has, the folder with the branch."""

from __future__ import annotations

import io
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.git_store.serving import Command, PushRequest
from covalt_git.models.commit_record import CommitRecord
from covalt_git.names import new_id
from covalt_git.transfers import pushing
from covalt_git.workspaces import commits
from tests.workspaces.kills import seen, states_after_kills
from tests.workspaces.stores import branch_off, call_record, checkout, git, put, save

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.registry import Chats


@pytest.fixture
def pushed(chat: ChatStore, tmp_path: Path) -> tuple[str, str, bytes]:
    """A chat with the branches main and idea, and a pack that goes on from main, after its two ends."""
    put(chat.workspace, {"a": ("file", b"0"), "b/c": ("program", b"0")})
    save(chat)
    branch_off(chat, "idea")
    checkout(chat, "main")
    work = tmp_path / "work"
    git(tmp_path, "clone", "--quiet", str(chat.folder / "store.git"), str(work))
    put(work, {"a": ("file", b"1"), "d/e": ("file", b"1"), "g": ("link", b"a")})
    git(work, "rm", "--quiet", "-r", "b")
    git(work, "add", "--all")
    # Whenever the push is killed, this is never believed to be a call: see `seen`.
    record = CommitRecord(id=new_id(), at=commits.now(), by="local", call=call_record())
    posing = commits.build("", (), "tool_run", record, chat.records, subject="pushed")
    git(work, "commit", "--quiet", "-m", posing.message)
    old, new = (git(work, "rev-parse", name).strip() for name in ("HEAD~1", "HEAD"))
    pack = subprocess.run(
        ["git", "-C", str(work), "pack-objects", "--revs", "--stdout", "-q"],
        input=f"{new}\n^{old}\n".encode(),
        stdout=subprocess.PIPE,
        check=True,
    )
    return old, new, pack.stdout


@pytest.mark.parametrize("name", ["main", "idea", "new"])
def test_a_push_that_was_killed_has_not_happened_or_it_has(
    chats: Chats, chat: ChatStore, pushed: tuple[str, str, bytes], name: str
) -> None:
    before = seen(chat)
    old, new, pack = pushed
    command = Command(f"refs/heads/{name}", None if name == "new" else old, new)

    def push(copy: ChatStore) -> None:
        report = pushing.push(copy, PushRequest((command,)), io.BytesIO(pack), timeout_s=0)
        assert not report.refused

    after = states_after_kills(chats, push)

    last: Any = after[-1]
    assert ("g" in last["files"]) is (name == "main")
    assert [one[0] for one in last["branches"][name]] == ["push", "edit"]
    changed = [state != before for state in after]
    assert changed == sorted(changed)
    assert [state for state in after if state not in (before, last)] == []
    assert len(after) > 5
