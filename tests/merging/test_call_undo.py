"""Undo of one call: exactly the files before it, together with every later change, as stock git merges them."""

import os

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.file_edits import restoring
from covalt_git.merging import branch_merge, call_undo
from covalt_git.merging.call_undo import CallUndo
from covalt_git.merging.merge_conflicts import Choice, Choices, NotMergeableError
from covalt_git.models.chats import WorkspaceManifest
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.writing import writing
from tests.examples import examples
from tests.merging.merges import (
    TEXT,
    become,
    differ_in_how_both_made_one,
    folder,
    gits_tree,
    histories,
    parted,
    text,
    tree_id,
)
from tests.workspaces.stores import (
    FAST,
    Layout,
    branch_off,
    call_record,
    checkout,
    clear,
    fsck,
    open_chats,
    put,
    save,
    scratch,
)

SLOW = settings(
    max_examples=examples(20),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
SEED = {"seed": ("file", b"so that there is a commit before the call")}


def call(chat: ChatStore, layout: Layout) -> WorkspaceManifest:
    """Let a call leave exactly a layout in the folder; return its commit, also if it changed nothing."""
    clear(chat.workspace)
    put(chat.workspace, layout)
    with writing(chat) as writer:
        scan = writer.scan()
        oid = writer.commit("tool_run", scan, subject="app-builder:write_file", call=call_record())
    return chat.manifest(oid)


def undo(
    chat: ChatStore,
    commit: WorkspaceManifest,
    branch: str | None = None,
    choices: Choices | None = None,
) -> CallUndo:
    """Undo a call, and make sure that the preview said so, and that nothing is left to be committed."""
    with writing(chat) as writer:
        writer.commit_changes()
    heads = [head.manifest_id for head in chat.branches()]
    with chat.scan_in_memory() as scan:
        preview = call_undo.preview(chat, scan, commit, branch, choices)
    assert [head.manifest_id for head in chat.branches()] == heads
    with writing(chat) as writer:
        outcome = call_undo.undo(writer, commit, branch, choices)
        at = chat.head()
        assert writer.commit_changes() == at
        if at is not None and outcome.status == "undone" and branch in {None, chat.active_branch()}:
            assert chat.manifest(at).record.workspace == writer.scan().notes
    assert preview == outcome._replace(manifest_id=None)
    assert fsck(chat) == ""
    return outcome


@SLOW
@given(histories(), st.sampled_from(["sha1", "sha256"]))
def test_without_later_changes_the_files_are_exactly_those_before(
    history: tuple[Layout, Layout, Layout], object_format: str
) -> None:
    before, after, _ = history
    config = FAST.model_copy(update={"object_format": object_format})
    with scratch() as place, open_chats(place, config).new("c1") as chat:
        become(chat, before)
        earlier = chat.state(chat.head())
        files = folder(chat)
        commit = call(chat, after)
        outcome = undo(chat, commit)

        assert folder(chat) == files
        assert chat.state(chat.head()) == earlier
        assert outcome.conflicts == ()
        assert undo(chat, commit).status == "nothing_to_undo"


@SLOW
@given(histories())
def test_later_changes_stay_as_stock_git_merges_them(
    history: tuple[Layout, Layout, Layout],
) -> None:
    assume(not differ_in_how_both_made_one(*history))
    after, later, before = history
    with scratch() as place, open_chats(place).new("c1") as chat:
        become(chat, SEED | before)
        commit = call(chat, SEED | after)
        become(chat, SEED | later)
        files = folder(chat)
        outcome = undo(chat, commit)
        with open_chats(place).new("c2") as other:
            parted(other, SEED | after, SEED | later, SEED | before)
            gits = gits_tree(other, "main", "idea")

        if outcome.status == "conflicts":
            assert gits is None
            assert folder(chat) == files
            kept = undo(chat, commit, choices={None: Choice("ours")})
            assert kept.status != "conflicts"
            for conflict in outcome.conflicts:
                assert folder(chat).get(conflict.path) == files.get(conflict.path)
        elif gits is not None:
            assert tree_id(chat, "HEAD") == gits


def test_lines_that_were_changed_later_stop_the_undo_and_are_shown(chat: ChatStore) -> None:
    become(chat, {"a": ("file", TEXT), "b": ("file", b"b")})
    commit = call(chat, {"a": ("file", text(_4="of the call")), "b": ("file", b"B")})
    # Uncommitted: what a user types now is a later change too.
    mine = text(_4="mine", _8="mine too")
    (chat.workspace / "a").write_bytes(mine)
    outcome = undo(chat, commit)

    assert outcome.status == "conflicts"
    assert outcome.changes == ()
    (conflict,) = outcome.conflicts
    assert (conflict.path, conflict.kind, conflict.decision) == ("a", "text", None)
    lines = outcome.lines["a"] or ""
    assert "<<<<<<< main\nmine\n||||||| base\nof the call\n=======\nline 4\n>>>>>>>" in lines
    assert outcome.possible["a"] == ("ours", "theirs", "union")
    assert folder(chat) == {"a": ("file", mine), "b": ("file", b"B")}

    # The decision is about the conflict; the rest of the call is undone.
    assert undo(chat, commit, choices={"a": Choice("ours")}).status == "undone"
    assert folder(chat) == {"a": ("file", mine), "b": ("file", b"b")}


@pytest.mark.parametrize(
    ("decision", "expected"), [("theirs", b"1\nx\n2\n"), ("union", b"1\nlater\nx\n2\n")]
)
def test_a_conflict_is_decided_for_the_lines_before_the_call_or_both(
    chat: ChatStore, decision: str, expected: bytes
) -> None:
    become(chat, {"a": ("file", b"1\nx\n2\n")})
    commit = call(chat, {"a": ("file", b"1\ncall\n2\n")})
    become(chat, {"a": ("file", b"1\nlater\n2\n")})
    undo(chat, commit, choices={"a": Choice(decision)})  # type: ignore[arg-type]
    assert folder(chat)["a"] == ("file", expected)


def test_a_file_of_the_call_that_a_user_changed_later_is_not_deleted(chat: ChatStore) -> None:
    become(chat, {"b": ("file", b"b")})
    commit = call(chat, {"a": ("file", b"new"), "b": ("file", b"b")})
    (chat.workspace / "a").write_bytes(b"new and mine")
    outcome = undo(chat, commit)
    (conflict,) = outcome.conflicts
    assert (conflict.kind, conflict.deleted) == ("modify_delete", "theirs")
    assert folder(chat)["a"] == ("file", b"new and mine")


def test_a_file_that_was_renamed_later_keeps_its_new_name(chat: ChatStore) -> None:
    become(chat, {"a": ("file", TEXT), "b": ("file", b"b")})
    commit = call(chat, {"a": ("file", TEXT), "b": ("file", b"B")})
    become(chat, {"moved": ("file", TEXT), "b": ("file", b"B")})
    assert undo(chat, commit).status == "undone"
    assert folder(chat) == {"moved": ("file", TEXT), "b": ("file", b"b")}


def test_another_branch_is_changed_without_the_folder(chat: ChatStore) -> None:
    become(chat, {"a": ("file", b"1\n")})
    commit = call(chat, {"a": ("file", b"2\n"), "new": ("file", b"n")})
    branch_off(chat, "idea")
    (chat.workspace / "mine").write_bytes(b"not committed")
    files, head = folder(chat), chat.head()
    with writing(chat) as writer:
        outcome = call_undo.undo(writer, commit, "main")

    assert (outcome.status, outcome.branch) == ("undone", "main")
    assert (folder(chat), chat.head(), chat.active_branch()) == (files, head, "idea")
    restored = chat.branch("main").manifest_id
    assert restored == outcome.manifest_id
    assert chat.read_file(restored, "a") == b"1\n"
    assert [*chat.files(restored)] == ["a"]
    record = chat.manifest(str(restored)).record
    assert record.undone is not None
    assert (record.undone.call_id, record.undone.manifest_id) == (commit.record.id, commit.id)
    checkout(chat, "main")
    assert folder(chat) == {"a": ("file", b"1\n")}


def test_a_call_of_a_merged_branch_is_undone_after_the_merge(chat: ChatStore) -> None:
    become(chat, {"a": ("file", TEXT)})
    branch_off(chat, "idea")
    commit = call(chat, {"a": ("file", text(_1="idea")), "new": ("file", b"n")})
    checkout(chat, "main")
    become(chat, {"a": ("file", text(_7="main"))})
    with pytest.raises(CovaltError) as refused:
        undo(chat, commit)
    assert refused.value.code == "call_elsewhere"
    assert refused.value.hint.endswith("--branch idea")

    with writing(chat) as writer:
        assert branch_merge.merge(writer, "idea").status == "merged"
    assert undo(chat, commit).status == "undone"
    assert folder(chat) == {"a": ("file", text(_7="main"))}
    # The branch counts as merged, and only the undo takes its change back.
    with writing(chat) as writer:
        assert branch_merge.merge(writer, "idea").status == "already_merged"


def test_an_undo_can_be_undone_by_the_next_one(chat: ChatStore) -> None:
    become(chat, {"a": ("file", b"1")})
    commit = call(chat, {"a": ("file", b"2")})
    undo(chat, commit)
    with writing(chat) as writer:
        restoring.undo(writer)
    assert folder(chat) == {"a": ("file", b"2")}
    assert undo(chat, commit).status == "undone"
    assert folder(chat) == {"a": ("file", b"1")}


def test_what_no_commit_has_is_named_and_stays(chat: ChatStore) -> None:
    chat.config = chat.config.model_copy(update={"max_file_mb": 1, "ignore": ("cache/",)})
    become(chat, {"a": ("file", b"1")})
    large = {"large": ("file", os.urandom(1 << 20) + b"x"), "cache/x": ("file", b"x")}
    commit = call(chat, {"a": ("file", b"2"), **large})
    outcome = undo(chat, commit)

    assert outcome.status == "undone"
    notes = {note.path: note.reason for note in outcome.unstored}
    assert set(notes) == {"large", "cache"}
    assert "larger than 1 MiB" in notes["large"]
    assert "workspace.ignore" in notes["cache"]
    assert folder(chat) == {"a": ("file", b"1"), **large}


def test_an_untracked_file_is_not_overwritten(chat: ChatStore) -> None:
    chat.config = chat.config.model_copy(update={"max_file_mb": 1})
    become(chat, {"a": ("file", b"1"), "b": ("file", b"b")})
    commit = call(chat, {"b": ("file", b"b")})
    large = b"x" * ((1 << 20) + 1)
    (chat.workspace / "a").write_bytes(large)
    head = save(chat)
    with chat.scan_in_memory() as scan, pytest.raises(CovaltError):
        call_undo.preview(chat, scan, commit)
    with writing(chat) as writer, pytest.raises(CovaltError):
        call_undo.undo(writer, commit)
    assert (folder(chat)["a"], chat.head()) == (("file", large), head)


def test_a_choice_is_for_a_conflict_and_possible(chat: ChatStore) -> None:
    become(chat, {"a": ("file", b"\x00one")})
    commit = call(chat, {"a": ("file", b"\x00two")})
    become(chat, {"a": ("file", b"\x00three")})
    with writing(chat) as writer:
        with pytest.raises(NotMergeableError):
            call_undo.undo(writer, commit, None, {"a": Choice("union")})
        with pytest.raises(UnknownNameError) as unknown:
            call_undo.undo(writer, commit, None, {"b": Choice("ours")})
    assert "chat undo" in unknown.value.hint
    assert folder(chat)["a"] == ("file", b"\x00three")
