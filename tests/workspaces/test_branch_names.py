"""Renaming and deleting branches: what waits on one is settled first, and nothing is out of reach."""

import pytest

from covalt_git.conversations.commit_names import resolve
from covalt_git.models.calls import PendingCall
from covalt_git.models.chats import Branch
from covalt_git.names import new_id
from covalt_git.workspaces import branches
from covalt_git.workspaces.branches import (
    BranchDeleted,
    Rename,
)
from covalt_git.workspaces.chat import ChatStore, finished_call, write_stored
from covalt_git.workspaces.writing import writing
from tests.workspaces.stores import (
    approval_of,
    branch_off,
    checkout,
    dying,
    fsck,
    git,
    pending_call,
    put,
    save,
    upload,
)


@pytest.fixture
def three(chat: ChatStore) -> ChatStore:
    """A chat on main that has idea, with two manifests of its own, and same, with none."""
    upload(chat, "a", b"1")
    branch_off(chat, "idea")
    for content in (b"2", b"3"):
        put(chat.workspace, {"a": ("file", content)})
        save(chat)
    checkout(chat, "main")
    with writing(chat) as writer:
        branches.create(writer, "same", chat.head())
    return chat


def names(chat: ChatStore) -> list[str]:
    return [branch.name for branch in chat.branches()]


def rename(chat: ChatStore, old: str, new: str) -> Branch:
    with writing(chat) as writer:
        return branches.rename(writer, old, new)


def delete(chat: ChatStore, name: str, *, force: bool = False) -> BranchDeleted:
    with writing(chat) as writer:
        return branches.delete(writer, name, force=force)


def ask(chat: ChatStore, branch: str) -> PendingCall:
    """Let a call wait for a person on a branch."""
    call = pending_call(
        chat,
        branch=branch,
        status="pending",
        execution_id=new_id(),
        base=chat.branch(branch).manifest_id,
    )
    with writing(chat) as writer:
        writer.put_call(call)
        assert writer.put_approval(approval_of(call))
    return call


# Renaming


def test_a_rename_that_a_push_overtook_is_not_made(three: ChatStore) -> None:
    idea, main = three.branch("idea").manifest_id, three.branch("main").manifest_id
    with dying(three):
        stored = write_stored(three.store, Rename(old="idea", new="new", at=main), "rename")
        assert three.store.swap_ref(branches.RENAME, None, stored)
    with writing(three):
        pass

    assert three.branch("idea").manifest_id == idea
    assert names(three) == ["idea", "main", "same"]


# Deleting


def test_a_deleted_branch_comes_back_with_all_it_had(three: ChatStore) -> None:
    at = str(three.branch("idea").manifest_id)
    gone = delete(three, "idea", force=True)

    assert (gone.manifest_id, gone.manifests) == (at, 2)
    assert branches.deleted(three) == [gone]
    git(three.folder / "store.git", "gc", "--prune=now", "--quiet")
    with writing(three) as writer:
        branches.create(writer, "idea", resolve(three, at[:12]))
    assert len(list(three.log(three.branch("idea").manifest_id))) == 3
    assert three.read_file(at, "a") == b"3"
    assert branches.deleted(three) == []
    assert fsck(three) == ""


def test_by_force_a_waiting_call_ends_in_the_history_that_goes(three: ChatStore) -> None:
    call = ask(three, "same")
    gone = delete(three, "same", force=True)
    ended = finished_call(three.manifest(gone.manifest_id))
    approval = three.approval(str(call.execution_id))

    assert three.calls() == []
    assert ended is not None
    assert (ended.id, ended.status) == (call.id, "error")
    assert str(ended.error).startswith("cancelled: the branch 'same'")
    assert approval is not None
    assert (approval.state, approval.decided_by) == ("expired", "local")
    assert gone.manifests == 1
    assert names(three) == ["idea", "main"]


def test_a_deletion_that_died_while_it_ended_a_call_can_be_made_again(three: ChatStore) -> None:
    call = ask(three, "same")
    approval = three.approval(str(call.execution_id))
    assert approval is not None
    with writing(three) as writer:
        writer.put_approval(approval.model_copy(update={"state": "expired"}), before=approval)
    with writing(three):
        pass

    assert three.calls() == []
    assert names(three) == ["idea", "main", "same"]
    assert delete(three, "same", force=True).manifests == 1
