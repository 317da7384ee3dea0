"""Killed at any change of the disk, a push has not happened, or it has, the folder with the branch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from covalt_git.models.commit_record import CommitRecord
from covalt_git.names import new_id
from covalt_git.workspaces import commits
from tests.workspaces.killed_steps import seen
from tests.workspaces.stores import branch_off, call_record, checkout, git, put, save

if TYPE_CHECKING:
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.registry import Chats

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def pushed(chats: Chats, chat: ChatStore, tmp_path: Path) -> tuple[str, str]:
    """A chat with the branches main and idea, and a pack that goes on from main: from where to where."""
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
    (chats.folder.parent / "pack").write_bytes(pack.stdout)
    return old, new


@pytest.mark.parametrize("name", ["main", "idea", "new"])
def test_a_push_that_was_killed_has_not_happened_or_it_has(
    chats: Chats, chat: ChatStore, pushed: tuple[str, str], name: str
) -> None:
    left = sorted({"lock", "lock.next", *(path.name for path in chat.folder.iterdir())})
    before = json.loads(json.dumps(seen(chat))) | {"left": left}
    old, new = pushed
    command = (f"refs/heads/{name}", "-" if name == "new" else old, new)
    place = str(chats.folder.parent)
    done = subprocess.run(
        [sys.executable, "-m", "tests.transfers.killed_pushes", place, *command],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    after = [json.loads(line) for line in done.stdout.splitlines()]

    assert done.returncode == 0, done.stderr
    assert ("g" in after[-1]["files"]) is (name == "main")
    assert [one[0] for one in after[-1]["branches"][name]] == ["push", "edit"]
    changed = [state != before for state in after]
    assert changed == sorted(changed)
    assert [state for state in after if state not in (before, after[-1])] == []
    assert len(after) > 5
