"""Commit format 1: the record of a commit, for covalt-git and for stock git."""

import json
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.json_values import canonical_json
from covalt_git.models.calls import CallError, PendingCall
from covalt_git.models.commit_record import (
    CallRecord,
    CommitRecord,
    MessageRecord,
    Source,
    UploadedFile,
    WorkspaceNote,
    WorkspaceNotes,
)
from covalt_git.names import new_id
from covalt_git.workspaces import commits
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.snapshot import Snapshot
from covalt_git.workspaces.writing import writing
from tests.examples import examples
from tests.workspaces.stores import (
    DIGEST,
    call_record,
    fsck,
    git,
    open_chats,
    pending_call,
    put,
    scratch,
    upload,
)

TEXT = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=60),
    st.sampled_from(
        ["a\n\nCovalt-Source: push", "\x00\x1b[31m", "\u2028\u0085", "Covalt-Status: a"]
    ),
    st.integers(16_000, 20_000).map("x".__mul__),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
REFERENCES = st.builds(
    lambda digits, size: {"ref": f"sha256:{digits}", "size": size},
    st.text("0123456789abcdef", min_size=64, max_size=64),
    st.integers(0, 10),
)
VALUES = JSON | REFERENCES | st.just({"ref": "x", "size": None}) | st.just({"ref": 1, "size": 2})
ERRORS = st.builds(CallError, code=st.just("tool_raised"), message=TEXT, traceback=TEXT)
CALLS = st.builds(
    call_record,
    args=st.dictionaries(TEXT, VALUES, max_size=3) | REFERENCES,
    result=VALUES,
    output=TEXT,
    status=st.sampled_from(["success", "error"]),
    error=st.none() | ERRORS,
    render_plan=st.none()
    | st.dictionaries(TEXT, JSON, max_size=2).map(
        lambda config: {"renderer": "code", "config": config}
    ),
)
NOTES = st.builds(
    WorkspaceNotes,
    empty_folders=st.lists(TEXT, max_size=3).map(tuple),
    not_stored=st.lists(st.builds(WorkspaceNote, path=TEXT, reason=TEXT), max_size=2).map(tuple),
)
RECORDS = st.builds(
    CommitRecord,
    id=st.builds(new_id),
    at=st.builds(commits.now),
    by=TEXT,
    call=st.none() | CALLS,
    upload=st.lists(st.builds(UploadedFile, path=TEXT), max_size=2).map(tuple),
    message=st.none() | st.builds(MessageRecord, role=st.just("user"), text=TEXT, ref=TEXT),
    workspace=NOTES,
)


@settings(deadline=None, max_examples=examples(60))
@given(
    record=RECORDS,
    source=st.sampled_from(get_args(Source)),
    subject=TEXT,
    message_id=st.none() | st.builds(new_id),
)
def test_record_is_read_unchanged(
    record: CommitRecord, source: Source, subject: str, message_id: str | None
) -> None:
    with scratch() as folder, open_chats(folder).new("c1") as chat:
        with writing(chat) as writer:
            fields = dict(record) | {"subject": subject, "message_id": message_id}
            oid = writer.commit(source, Snapshot(None, record.workspace), **fields)
        manifest = chat.manifest(oid)

        assert manifest.record == record
        assert (manifest.source, manifest.source_ref) == (source, record.id)
        assert manifest.message_id == message_id
        assert manifest.created_at == record.at
        assert_git_reads_it(chat, oid, record)
        assert fsck(chat) == ""


def assert_git_reads_it(chat: ChatStore, oid: str, record: CommitRecord) -> None:
    store = chat.folder / "store.git"
    message = git(store, "log", "-1", "--format=%B", oid)
    subject, empty, line, empty_again, *trailers = message.rstrip("\n").split("\n")
    assert (empty, empty_again) == ("", "")
    assert line.encode() == canonical_json.dumps(json.loads(line))
    assert json.loads(line)["v"] == 1
    assert json.loads(line)["id"] == record.id
    assert git(store, "log", "-1", "--format=%s", oid) == f"{subject.rstrip()}\n"
    source = subject.partition(":")[0]
    assert git(store, "log", "-1", "--format=%(trailers:key=Covalt-Source,valueonly)", oid) == (
        f"{source}\n\n"
    )
    assert git(store, "interpret-trailers", "--parse", given=message.encode()).splitlines() == (
        trailers
    )


def finished(chat: ChatStore, call: PendingCall, record: CallRecord) -> str:
    with writing(chat) as writer:
        writer.commit_changes()
        writer.put_call(call)
        return writer.finish_call(call, record, snapshot=writer.scan())


def test_call_is_recorded_in_trailers_that_git_reads(chat: ChatStore) -> None:
    call = pending_call(chat, message_id=new_id())
    oid = finished(chat, call, call_record(status="error"))
    store = chat.folder / "store.git"

    assert git(store, "log", "-1", "--format=%s%n%an <%ae>%n%cn", oid).splitlines() == [
        "tool_run: app-builder:write_file",
        "local <local@covalt.invalid>",
        "covalt-git",
    ]
    assert git(store, "log", "-1", "--format=%(trailers:only)", oid).splitlines()[:-1] == [
        "Covalt-Source: tool_run",
        f"Covalt-Source-Ref: {call.id}",
        f"Covalt-Message: {call.message_id}",
        "Covalt-Status: error",
        f"Covalt-Toolset: app-builder 1.0.0 {call.toolset.digest}",
    ]
    status = git(store, "log", "--format=%(trailers:key=Covalt-Status,valueonly)", oid)
    assert status.strip() == "error"
    assert git(store, "log", "--format=%H", "--grep", "^Covalt-Status: error").strip() == oid


@pytest.mark.parametrize(
    ("subject", "shown"),
    [
        pytest.param("two\nlines", "two lines", id="line-feed"),
        pytest.param("a\x1b[31mred\x07", "a [31mred", id="escape"),
        pytest.param("a\u2028b\u0085c", "a b c", id="unicode-line-ends"),
        pytest.param("x" * 200, "x" * 99 + "…", id="too-long"),
        pytest.param("half \udcff pair", "half ? pair", id="surrogate"),
        pytest.param("", "", id="empty"),
    ],
)
def test_subject_is_one_short_line(chat: ChatStore, subject: str, shown: str) -> None:
    with writing(chat) as writer:
        oid = writer.commit("edit", writer.scan(), subject=subject)

    printed = git(chat.folder / "store.git", "log", "-1", "--format=%s", oid)
    assert printed.rstrip("\n") == f"edit: {shown}".rstrip()


@pytest.mark.parametrize(
    ("by", "author"),
    [
        pytest.param("local", "local <local@covalt.invalid>", id="local"),
        pytest.param("ann@example.com", "ann@example.com <ann@example.com@c", id="address"),
        pytest.param("Ann <x>\nauthor", "Ann-x-author <Ann-x-author@covalt", id="injection"),
        pytest.param("日本", "unknown <unknown@covalt.invalid>", id="nothing-left"),
        pytest.param("...", "unknown <unknown@covalt.invalid>", id="dots"),
    ],
)
def test_principal_is_an_author_that_git_accepts(chat: ChatStore, by: str, author: str) -> None:
    put(chat.workspace, {"a": ("file", b"1")})
    with writing(chat, by=by) as writer:
        oid = writer.commit_changes()
    assert oid is not None

    shown = git(chat.folder / "store.git", "log", "-1", "--format=%an <%ae>", oid)
    assert shown.startswith(author)
    assert chat.manifest(oid).record.by == by
    assert fsck(chat) == ""


def hand_made(chat: ChatStore, message: str, *, at: str = "1700000000 +0000") -> str:
    """Return a commit with that message on top of main, made by stock git."""
    store = chat.folder / "store.git"
    content = (
        f"tree {git(store, 'rev-parse', 'main^{tree}').strip()}\n"
        f"parent {chat.branch('main').manifest_id}\n"
        f"author Ann Example <ann@example.com> {at}\n"
        f"committer Ann Example <ann@example.com> {at}\n\n{message}"
    )
    oid = git(store, "hash-object", "-t", "commit", "-w", "--stdin", given=content.encode())
    git(store, "update-ref", "refs/heads/main", oid.strip())
    return oid.strip()


AT = '"2026-11-20T18:00:00.000Z"'
CALL = (
    f'{{"args":{{}},"finished_at":{AT},"started_at":{AT},"status":"success","tool_id":"a:b",'
    f'"toolset":{{"digest":"{DIGEST}","id":"a","version":"1"}}}}'
)
RECORD = f'{{"at":{AT},"by":"local","call":{CALL},"id":"01","v":1}}'


def ours(record: str) -> str:
    """Return the message of a call's commit with that record."""
    return f"tool_run: a:b\n\n{record}\n\nCovalt-Source: tool_run\nCovalt-Source-Ref: 01\n"


def altered(old: str, new: str) -> str:
    """Return a good message, one thing in its record replaced."""
    assert old in RECORD
    return ours(RECORD.replace(old, new))


def test_hand_made_commit_of_our_format_is_what_it_says(chat: ChatStore) -> None:
    upload(chat, "a", b"1")
    manifest = chat.manifest(hand_made(chat, ours(RECORD)))

    assert (manifest.source, manifest.source_ref) == ("tool_run", "01")
    call = manifest.tool_call
    assert call is not None
    assert call.tool_id == "a:b"


@pytest.mark.parametrize(
    "message",
    [
        pytest.param("", id="empty"),
        pytest.param("fix the page\n", id="one-line"),
        pytest.param("fix\n\nbecause\n\nSigned-off-by: Ann <a@b.c>\n", id="a-persons"),
        pytest.param(f"tool_run: x\n\n{RECORD}\n", id="no-trailers"),
        pytest.param(f"tool_run: x\n\n{RECORD}\n\nCovalt-Source: edit\n", id="sources-differ"),
        pytest.param(f"hack: x\n\n{RECORD}\n\nCovalt-Source: hack\n", id="unknown-source"),
        pytest.param(ours(RECORD[:-1]), id="cut-off"),
        pytest.param(ours("[]"), id="a-list"),
        pytest.param(ours('"text"'), id="a-text"),
        pytest.param(ours("null"), id="null"),
        pytest.param(ours("{}"), id="nothing-in-it"),
        pytest.param(ours("[" * 100_000), id="nested"),
        pytest.param(altered('"v":1', '"v":2'), id="version-2"),
        pytest.param(altered('"v":1', '"v":1,"v":1'), id="key-twice"),
        pytest.param(altered('"v":1', '"v":1,"x":1'), id="unknown-key"),
        pytest.param(altered("success", "fine"), id="status"),
        pytest.param(altered('"args":{}', '"args":[]'), id="args"),
        pytest.param(altered('"args":{}', '"args":{},"render_plan":{"x":1}'), id="render-plan"),
        pytest.param(altered('"args":{}', '"args":{"ref":"x","size":"y"}'), id="bad-reference"),
        pytest.param(altered(CALL, '"text"'), id="call-is-a-text"),
        pytest.param(altered(CALL, f'{{"ref":"{DIGEST}","size":1}}'), id="call-is-a-reference"),
    ],
)
def test_commit_that_is_not_ours_or_was_altered_is_a_push(chat: ChatStore, message: str) -> None:
    upload(chat, "a", b"1")
    parent = chat.head()
    oid = hand_made(chat, message)
    manifest = chat.manifest(oid)

    assert (manifest.source, manifest.source_ref) == ("push", oid)
    assert manifest.parent_id == parent
    assert manifest.created_at == "2023-11-14T22:13:20Z"
    assert manifest.record.by == "Ann Example"
    assert manifest.record.call is None
    assert [one.source for one in chat.log(oid)] == ["push", "user_upload"]
    assert upload(chat, "b", b"2") == "b"


def test_commit_of_a_time_beyond_all_calendars_is_read(chat: ChatStore) -> None:
    upload(chat, "a", b"1")
    manifest = chat.manifest(hand_made(chat, "x", at="99999999999999 +0000"))

    assert manifest.created_at == "1970-01-01T00:00:00Z"
