"""Large record fields: stored next to the commits, complete on reading, and readable without."""

import hashlib
import json
from typing import Any

import pytest

from covalt_git.conversations.commit_names import resolve
from covalt_git.models.calls import CallError, FileReference, RenderPlan
from covalt_git.models.commit_record import CallRecord, MessageRecord, UploadedFile
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.records import LARGE, MissingRecordError
from covalt_git.workspaces.registry import Chats
from covalt_git.workspaces.writing import writing
from tests.workspaces.stores import call_record, fsck, git, pending_call, put, save, upload

BIG = "x" * LARGE


def finish(chat: ChatStore, record: CallRecord) -> str:
    with writing(chat) as writer:
        return writer.finish_call(pending_call(chat), record, snapshot=writer.scan())


def line_of(chat: ChatStore, oid: str) -> Any:
    return json.loads(
        git(chat.folder / "store.git", "log", "-1", "--format=%B", oid).split("\n")[2]
    )


def plain_clone(chats: Chats, chat: ChatStore) -> ChatStore:
    """Return the chat as ``git clone`` copies it: without ``refs/covalt``."""
    folder = chats.folder / "copy"
    folder.mkdir()
    git(folder, "init", "--quiet", "--bare", "--initial-branch=main", "store.git")
    source = str(chat.folder / "store.git")
    git(folder / "store.git", "fetch", "--quiet", source, "refs/heads/*:refs/heads/*")
    return chats.open("copy")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("args", {"content": BIG}, id="args"),
        pytest.param("result", [BIG], id="result"),
        pytest.param("output", BIG + "ü\u2028\x00", id="output"),
        pytest.param("error", {"code": "tool_raised", "message": BIG}, id="error"),
        pytest.param("render_plan", {"renderer": "html", "config": {"d": BIG}}, id="render-plan"),
    ],
)
def test_field_over_sixteen_kib_is_stored_separately_and_comes_back(
    chat: ChatStore, field: str, value: Any
) -> None:
    record = call_record(**{field: value})
    oid = finish(chat, record)
    reference = line_of(chat, oid)["call"][field]
    digest = reference["ref"].removeprefix("sha256:")
    content = git(
        chat.folder / "store.git",
        *("cat-file", "blob", f"refs/covalt/records:{digest[:2]}/{digest}"),
    ).encode()

    assert set(reference) == {"ref", "size"}
    assert (hashlib.sha256(content).hexdigest(), len(content)) == (digest, reference["size"])
    assert chat.manifest(oid).record.call == record
    assert len(git(chat.folder / "store.git", "log", "-1", "--format=%B", oid)) < LARGE
    assert fsck(chat) == ""


def test_value_that_is_the_reference_of_another_is_not_taken_for_it(chat: ChatStore) -> None:
    oid = finish(chat, call_record(result=BIG))
    reference = line_of(chat, oid)["call"]["result"]
    forged = finish(chat, call_record(result=reference))

    assert getattr(chat.manifest(forged).record.call, "result", None) == reference


def test_history_without_the_records_stays_readable(chats: Chats, chat: ChatStore) -> None:
    put(chat.workspace, {"a": ("file", b"1")})
    plan = RenderPlan(renderer="html", config={"data": BIG})
    call = call_record(
        args={"content": BIG},
        result=[BIG],
        output=BIG,
        status="error",
        error=CallError(code="tool_raised", message=BIG),
        render_plan=plan.model_dump(exclude_none=True),
    )
    first = finish(chat, call)
    with writing(chat) as writer:
        writer.commit(
            "message",
            writer.scan(),
            subject="x",
            message=MessageRecord(role="user", text=BIG),
            upload=tuple(UploadedFile(path=f"{'p' * 60}{number}") for number in range(300)),
        )
    for number in range(300):
        (chat.workspace / f"{'e' * 60}{number}").mkdir()
    save(chat)
    with plain_clone(chats, chat) as copy:
        log = [copy.manifest(one.id) for one in copy.log(resolve(copy, "main"))]
        shown = copy.manifest(first).record.call
        done = copy.manifest(first).tool_call

        assert [one.source for one in log] == ["edit", "message", "tool_run"]
        assert shown is not None
        assert shown.args == line_of(chat, first)["call"]["args"]
        assert shown.result == line_of(chat, first)["call"]["result"]
        assert "is not in this store: 16386 bytes" in shown.output
        assert shown.error is not None
        assert (shown.error.code, "git fetch" in shown.error.hint) == ("missing_record", True)
        assert done is not None
        assert done.render_plan is not None
        assert "is not in this store" in str(done.render_plan.error)
        message = log[1].record.message
        assert message is not None
        assert "is not in this store" in str(message.text)
        assert resolve(copy, done.id) == first
        assert upload(copy, "b", b"2") == "b"


def test_altered_records_are_not_trusted(chat: ChatStore) -> None:
    oid = finish(chat, call_record(result=BIG))
    store = chat.folder / "store.git"
    digest = line_of(chat, oid)["call"]["result"]["ref"].removeprefix("sha256:")
    blob = git(store, "hash-object", "-w", "--stdin", given=b'"forged"').strip()
    below = git(store, "mktree", given=f"100644 blob {blob}\t{digest}\n".encode()).strip()
    root = git(store, "mktree", given=f"040000 tree {below}\t{digest[:2]}\n".encode()).strip()
    git(
        store,
        "update-ref",
        "refs/covalt/records",
        git(store, "commit-tree", "-m", "x", root).strip(),
    )
    call = chat.manifest(oid).record.call

    assert call is not None
    assert call.result == {"ref": f"sha256:{digest}", "size": len(BIG) + 2}
    with pytest.raises(MissingRecordError, match="was altered"):
        chat.records.content(FileReference.model_validate(call.result))
