"""Calls whose process died, and approvals: the next writer settles each of them, once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.git_store.store import GitStore
from covalt_git.models.calls import PendingCall
from covalt_git.names import new_id
from covalt_git.workspaces import branches, running_call
from covalt_git.workspaces.branches import Rename
from covalt_git.workspaces.chat import CALLS, ChatStore, MovedError, put_stored
from covalt_git.workspaces.writing import writing
from tests.workspaces.stores import (
    approval_of,
    branch_off,
    call_record,
    dying,
    fsck,
    git,
    layout_of,
    open_chats,
    pending_call,
    put,
    save,
    scratch,
    upload,
)


def ending_of(chat: ChatStore, call: PendingCall) -> tuple[str, str | None]:
    """Return the status and error code of the one manifest that is this call's."""
    history = chat.log(chat.branch(call.branch).manifest_id)
    (manifest,) = [one for one in history if one.source_ref == call.id]
    done = manifest.tool_call
    assert done is not None
    assert manifest.record.call is not None
    error = manifest.record.call.error
    return done.status, None if error is None else error.code


def test_call_whose_process_died_is_interrupted_with_what_it_changed(chat: ChatStore) -> None:
    put(chat.workspace, {"a": ("file", b"1"), "b": ("file", b"2")})
    save(chat)
    call = pending_call(chat, args={"path": "half"}, message_id=new_id())
    with writing(chat) as writer:
        writer.put_call(call)
        (chat.workspace / "a").unlink()
        put(chat.workspace, {"half": ("file", b"written")})
    with writing(chat) as writer:
        head = writer.commit_changes()
    manifest = chat.manifest(str(head))

    assert ending_of(chat, call) == ("error", "interrupted")
    assert (manifest.source_ref, manifest.message_id) == (call.id, call.message_id)
    assert manifest.parent_id == call.base
    assert set(chat.files(head)) == {"b", "half"}
    assert chat.calls() == []
    assert fsck(chat) == ""


@pytest.mark.parametrize("power_cut", [False, True])
def test_a_reader_finds_it_recorded(chat: ChatStore, *, power_cut: bool) -> None:
    call = pending_call(chat)
    with dying(chat) as writer:
        writer.put_call(call)
        put(chat.workspace, {"half": ("file", b"written")})
    if power_cut:  # it may take the text of the lock
        (chat.folder / "lock").write_bytes(b"")
    with open_chats(chat.folder.parents[1]).open(chat.id) as read:
        assert ending_of(read, call) == ("error", "interrupted")
        assert set(read.files(read.head())) == {"half"}


def test_all_chats_are_looked_after_at_a_start(chat: ChatStore) -> None:
    chats = open_chats(chat.folder.parents[1])
    with chats.new("c2") as other:
        calls = [pending_call(chat), pending_call(other)]
        for one, call in zip((chat, other), calls, strict=True):
            with dying(one) as writer:
                writer.put_call(call)
        chats.finish_left()

        assert [ending_of(chat, calls[0])[1], ending_of(other, calls[1])[1]] == ["interrupted"] * 2


@pytest.mark.parametrize("stand_in", ["nothing", "link", "file"])
def test_dead_call_that_destroyed_its_workspace_leaves_a_chat_that_works(
    chat: ChatStore, stand_in: str
) -> None:
    put(chat.workspace, {"a": ("file", b"1")})
    save(chat)
    outside = chat.folder.parent / "outside"
    outside.mkdir()
    call = pending_call(chat)
    with writing(chat) as writer:
        writer.put_call(call)
        chat.workspace.rename(chat.folder.parent / "moved-away")
        if stand_in == "link":
            chat.workspace.symlink_to(outside)
        if stand_in == "file":
            chat.workspace.write_bytes(b"")
    upload(chat, "b", b"2")

    assert ending_of(chat, call) == ("error", "interrupted")
    assert chat.read_file(call.base, "a") == b"1"
    assert layout_of(chat.workspace) == {"b": ("file", b"2")}
    assert layout_of(outside) == {}
    assert fsck(chat) == ""


@pytest.mark.parametrize(
    ("state", "code"),
    [
        pytest.param("approved", "interrupted", id="approved-but-never-run"),
        pytest.param("denied", "denied", id="denied"),
        pytest.param("expired", "expired", id="expired"),
    ],
)
def test_call_whose_approval_was_settled_before_the_process_died_is_recorded_so(
    chat: ChatStore, state: str, code: str
) -> None:
    upload(chat, "a", b"1")
    call = pending_call(chat, status="pending", execution_id=new_id())
    approval = approval_of(call)
    with writing(chat) as writer:
        writer.put_call(call)
        assert writer.put_approval(approval)
        decided = approval.model_copy(update={"state": state})
        assert writer.put_approval(decided, before=approval)
    put(chat.workspace, {"edit": ("file", b"not the call's")})
    save(chat)

    assert ending_of(chat, call) == ("error", code)
    assert chat.calls() == []
    settled = chat.approval(approval.execution_id)
    assert settled is not None
    assert settled.state == state
    assert [one.source for one in chat.log(chat.head())] == ["edit", "tool_run", "user_upload"]
    assert fsck(chat) == ""


def test_approval_that_is_decided_meanwhile_is_not_decided_again(
    chat: ChatStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(chat, "a", b"1")
    approval = approval_of(pending_call(chat, status="pending", execution_id=new_id()))
    approved, denied = (
        approval.model_copy(update={"state": state}) for state in ("approved", "denied")
    )
    write_blob = GitStore.write_blob

    def deny_before_it_is_stored(store: GitStore, content: bytes) -> str:
        monkeypatch.undo()
        assert writer.put_approval(denied, before=approval)
        return write_blob(store, content)

    with writing(chat) as writer:
        assert writer.put_approval(approval)
        monkeypatch.setattr(GitStore, "write_blob", deny_before_it_is_stored)
        assert not writer.put_approval(approved, before=approval)
    assert chat.approval(approval.execution_id) == denied


def test_branch_that_moves_while_a_call_is_committed_is_not_overwritten(chat: ChatStore) -> None:
    upload(chat, "a", b"1")
    store = chat.folder / "store.git"
    pushed = git(store, "commit-tree", "-p", "main", "-m", "pushed", "main^{tree}").strip()

    assert not chat.store.swap_ref("refs/heads/main", pushed, str(chat.head()))
    git(store, "update-ref", "refs/heads/main", pushed)
    with writing(chat) as writer:
        (store / "refs/heads/main.lock").write_bytes(b"")
        with pytest.raises(MovedError, match="the branch 'main' has moved"):
            writer.finish_call(pending_call(chat), call_record())
    assert chat.head() == pushed
    assert save(chat) == pushed


def test_call_that_a_power_cut_brought_back_makes_no_branch_that_was_deleted(
    chat: ChatStore,
) -> None:
    upload(chat, "a", b"1")
    branch_off(chat, "topic")
    call = pending_call(chat, base=chat.head())
    with writing(chat) as writer:
        writer.checkout("main")
        branches.delete(writer, "topic", force=True)
    with dying(chat) as writer:
        writer.put_call(call)

    with writing(chat):
        pass

    assert chat.calls() == []
    assert [branch.name for branch in chat.branches()] == ["main"]


def test_a_rename_that_a_push_overtook_is_not_made(chat: ChatStore) -> None:
    main = upload(chat, "a", b"1") and chat.head()
    branch_off(chat, "idea")
    idea = upload(chat, "b", b"2") and chat.head()
    with dying(chat):
        rename = Rename(old="idea", new="new", at=main)
        assert put_stored(chat.store, branches.RENAME, rename, "rename")
    with writing(chat):
        pass

    assert {one.name: one.manifest_id for one in chat.branches()} == {"idea": idea, "main": main}


@given(st.data())
def test_a_torn_note_is_ignored(data: st.DataObject) -> None:
    with scratch() as folder, open_chats(folder).new("c1") as chat:
        texts = st.text("ab", min_size=1, max_size=30)
        old = pending_call(chat, args={"text": data.draw(texts)})
        new = pending_call(chat, args={"text": data.draw(texts)})
        file = chat.store.path / running_call.NAME
        contents = []
        for call in (old, new):
            running_call.put(chat.store.path, call, durable=False)
            contents.append(file.read_bytes())
        before, after = contents
        at = data.draw(st.integers(0, len(after)))
        file.write_bytes(data.draw(st.sampled_from((after[:at], after[:at] + before[at:]))))

        assert running_call.read(chat.store.path) in (None, old, new)
        with writing(chat):
            assert chat.calls() == []


def test_a_note_that_a_power_cut_brings_back_is_known_by_its_commit(chat: ChatStore) -> None:
    call = pending_call(chat, base=upload(chat, "a", b"1") and chat.head())
    file = chat.store.path / running_call.NAME
    with writing(chat) as writer:
        writer.put_call(call)
        noted = file.read_bytes()
        manifest = writer.finish_call(call, call_record(), snapshot=writer.scan())
    file.write_bytes(noted)
    with writing(chat):
        pass

    assert chat.calls() == []
    assert chat.head() == manifest


def test_a_running_call_of_an_older_store_was_interrupted(chat: ChatStore) -> None:
    call = pending_call(chat, base=upload(chat, "a", b"1") and chat.head())
    assert put_stored(chat.store, CALLS + call.id, call, "call: it runs")
    (chat.folder / "lock").write_bytes(b"")  # older versions leave no note
    with writing(chat):
        pass
    recorded = chat.manifest(str(chat.head())).tool_call

    assert recorded is not None
    assert (recorded.id, recorded.status) == (call.id, "error")
    assert str(recorded.error).startswith("interrupted")
    assert chat.calls() == []
