"""Killed at any change of the disk, a step on a chat has not begun or is finished."""

import io
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from covalt_git.conversations import conversation, messages
from covalt_git.file_edits import edits, restoring, uploads
from covalt_git.file_edits.uploads import NewFile
from covalt_git.git_store.objects import blob_id
from covalt_git.git_store.serving import Command, PushRequest
from covalt_git.merging import branch_merge, resolving
from covalt_git.merging.merge_conflicts import Choice
from covalt_git.models.commit_record import CommitRecord, MessageRecord
from covalt_git.names import new_id
from covalt_git.transfers import pushing
from covalt_git.workspaces import branches, commits
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.registry import Chats
from covalt_git.workspaces.writer import Writer
from covalt_git.workspaces.writing import writing
from tests.examples import EVERY, named
from tests.workspaces.kills import seen, states_after_kills
from tests.workspaces.stores import Layout, branch_off, call_record, checkout, clear, git, put, save


def first(writer: Writer) -> conversation.Message:
    """Return the chat's first message."""
    return next(iter(conversation.Conversation(writer.chat).messages.values()))


NEW = MessageRecord(role="user", text="new")
MAIN_A = blob_id(b"main", "sha1")
STEPS: dict[str, Callable[[Writer], object]] = {
    "add": lambda writer: messages.add(writer, NEW),
    "add-elsewhere": lambda writer: messages.add(writer, NEW, parent=first(writer).id),
    "retry-first": lambda writer: messages.retry(writer, first(writer).id),
    "edit": lambda writer: messages.edit(writer, first(writer).id, text="new"),
    "restore": lambda writer: restoring.restore(writer, first(writer).own_manifest_id),
    "keep-files": lambda writer: restoring.keep_files(writer, first(writer).own_manifest_id),
    "checkout": lambda writer: writer.checkout("idea"),
    "rename-active": lambda writer: branches.rename(writer, "main", "trunk"),
    "rename": lambda writer: branches.rename(writer, "idea", "blue"),
    "delete": lambda writer: branches.delete(writer, "idea", force=True),
    "merge": lambda writer: branch_merge.merge(writer, "idea", {None: Choice("both")}),
    "resolve": lambda writer: resolving.resolve(writer, "a", Choice("theirs")),
    "upload": lambda writer: uploads.upload(writer, [NewFile("u", b"1"), NewFile("v", b"2")]),
    "edit-file": lambda writer: edits.edit_file(writer, "a", b"new", before=MAIN_A),
    "delete-file": lambda writer: edits.delete_file(writer, "a", before=MAIN_A),
}


IDEA: Layout = {
    "a": ("file", b"idea"),
    "d": ("file", b"was a folder"),
    "f/h": ("link", b"../a"),
    "g/i": ("program", b"was a link"),
    "j": ("folder", b""),
}


def take(step: str, chat: ChatStore) -> None:
    with writing(chat, timeout_s=0) as writer:
        STEPS[step](writer)


@pytest.fixture
def talk(chat: ChatStore) -> ChatStore:
    """A chat with two messages, files between and after them, and a branch that conflicts with it."""
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
    clear(chat.workspace)
    put(chat.workspace, IDEA)
    save(chat)
    checkout(chat, "main")
    put(chat.workspace, {"a": ("file", b"main")})
    save(chat)
    return chat


@pytest.mark.kills
@pytest.mark.parametrize(
    "step",
    named(
        STEPS,
        "add",
        "restore",
        "checkout",
        "rename-active",
        "delete",
        "merge",
        "upload",
    ),
)
def test_a_step_that_was_killed_has_not_begun_or_is_finished(
    chats: Chats, talk: ChatStore, step: str
) -> None:
    if step == "resolve":
        take("merge", talk)
    before = seen(talk)

    first = 1 + [*STEPS].index(step) % EVERY
    after = states_after_kills(chats, partial(take, step), first=first)

    assert before != after[-1]
    assert [state for state in after if state not in (before, after[-1])] == []
    assert len(after) > 2


@pytest.fixture
def pushed(chat: ChatStore, tmp_path: Path) -> tuple[str, str, bytes]:
    """A chat with the branches main and idea, and a pack that continues main, after its two ends."""
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


@pytest.mark.kills
@pytest.mark.parametrize("name", named(["main", "idea", "new"], "main"))
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
    assert len(after) > 2
