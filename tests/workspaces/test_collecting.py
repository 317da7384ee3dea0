"""Garbage collection frees what nothing leads to, and never anything else."""

import os
import time
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.git_store import repacking
from covalt_git.git_store.graph import reachable
from covalt_git.models.commit_record import CommitRecord
from covalt_git.workspaces import branches, collecting
from covalt_git.workspaces.chat import HEADS, ChatStore
from covalt_git.workspaces.registry import Chats
from covalt_git.workspaces.writing import writing
from tests.examples import EVERY, examples
from tests.killing import killed_at
from tests.workspaces.stores import (
    add_message,
    branch_off,
    call_record,
    checkout,
    collect,
    fsck,
    git,
    open_chats,
    pending_call,
    scratch,
    upload,
)

LARGE = os.urandom(300_000)


def drop_branch(chat: ChatStore, name: str) -> None:
    """Delete a branch as git would: nothing remembers it."""
    chat.store.swap_ref(HEADS + name, chat.branch(name).manifest_id, None)


def grow_old(chat: ChatStore, seconds: float) -> None:
    """Let every object's file seem to have been written so long ago."""
    then = time.time() - seconds
    for path in (chat.folder / "store.git/objects").rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))


def contents(chat: ChatStore) -> dict[str, tuple[CommitRecord, dict[str, bytes]]]:
    """Return the record and all files of all manifests of all branches."""
    return {
        oid: (
            chat.manifest(oid).record,
            {path: chat.store.read_blob(file.oid) for path, file in chat.files(oid).items()},
        )
        for oid in chat.reachable()
    }


@pytest.fixture
def forgotten(chat: ChatStore) -> ChatStore:
    """A chat with a branch that nothing remembers, which had most of its bytes."""
    upload(chat, "a.txt", b"a")
    branch_off(chat, "idea")
    upload(chat, "large.bin", LARGE)
    checkout(chat, "main")
    upload(chat, "b.txt", b"b")
    drop_branch(chat, "idea")
    return chat


def test_what_nothing_leads_to_is_freed_after_an_hour(forgotten: ChatStore) -> None:
    before = contents(forgotten)
    assert collect(forgotten, everything=False).after.size > len(LARGE)

    grow_old(forgotten, 3599)
    assert collect(forgotten, everything=False).after.size > len(LARGE)
    grow_old(forgotten, 3601)
    done = collect(forgotten, everything=False)

    assert done.before.size > len(LARGE) > done.after.size
    assert done.after.objects < done.before.objects
    assert contents(forgotten) == before
    assert fsck(forgotten) == ""


def test_a_deleted_branch_stays_for_thirty_days(
    chat: ChatStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(chat, "a.txt", b"a")
    branch_off(chat, "idea")
    upload(chat, "large.bin", LARGE)
    head = chat.head()
    assert head is not None
    checkout(chat, "main")
    with writing(chat) as writer:
        branches.delete(writer, "idea", force=True)

    grow_old(chat, 7200)
    assert collect(chat, everything=False).forgotten == ()
    assert chat.read_file(head, "large.bin") == LARGE
    monkeypatch.setattr(collecting, "DELETED_S", -1)
    grow_old(chat, 7200)
    done = collect(chat, everything=False)

    assert done.forgotten == ("idea",)
    assert done.after.size < len(LARGE)
    assert fsck(chat) == ""


def test_a_waiting_call_keeps_the_manifest_it_was_asked_on(chat: ChatStore) -> None:
    upload(chat, "a.txt", b"a")
    branch_off(chat, "idea")
    upload(chat, "b.txt", b"b")
    base = chat.head()
    assert base is not None
    checkout(chat, "main")
    with writing(chat) as writer:
        writer.put_call(pending_call(chat, status="pending", base=base, branch="main"))
    drop_branch(chat, "idea")

    collect(chat)

    assert chat.read_file(base, "b.txt") == b"b"
    (waiting,) = chat.calls()
    assert waiting.base == base


def test_a_record_that_only_another_record_refers_to_is_kept(chat: ChatStore) -> None:
    """A large render plan is a record, and refers to its artifact's bytes, another one."""
    page = b"<p>" * 10_000
    with writing(chat) as writer:
        artifact = chat.records.keep(page)
        plan = {
            "renderer": "html",
            "config": {"filler": "x" * 20_000},
            "artifact": artifact.model_dump(),
        }
        call = pending_call(chat)
        writer.put_call(call)
        oid = writer.finish_call(call, call_record(render_plan=plan), snapshot=writer.scan())

    assert collect(chat).records == 0
    shown = chat.manifest(oid).record.call
    assert shown is not None
    assert shown.render_plan["artifact"] == artifact.model_dump()
    assert chat.records.content(artifact) == page


def test_what_was_seen_before_is_stored_again(chat: ChatStore) -> None:
    """The stat cache remembers a scan; its stored objects may be deleted before the next scan."""
    upload(chat, "a.txt", b"a")
    (chat.workspace / "sub").mkdir()
    (chat.workspace / "sub/b.txt").write_text("not saved yet")
    with writing(chat) as writer:
        writer.scan()
        collecting.collect(writer, everything=True)
        writer.commit_changes()

    assert fsck(chat) == ""
    assert chat.read_file(chat.head(), "sub/b.txt") == b"not saved yet"


def collect_everything(chats: Chats) -> None:
    with chats.open("c1") as chat:
        collect(chat)


@pytest.mark.kills
def test_a_killed_collection_loses_nothing(chats: Chats, forgotten: ChatStore) -> None:
    add_message(forgotten, "kept " * 10_000)
    branch_off(forgotten, "more")
    add_message(forgotten, "dropped " * 10_000)
    checkout(forgotten, "main")
    drop_branch(forgotten, "more")
    before = contents(forgotten)
    ends = set()
    store = forgotten.folder / "store.git"
    for steps in [*range(1, 60, EVERY), 1000]:
        ends.add(killed_at(steps, partial(collect_everything, chats)))

        assert contents(forgotten) == before
        upload(forgotten, f"{steps}.txt", b"%d" % steps)
        assert git(store, "fsck", "--strict", "--full", "--no-dangling") == ""
        before = contents(forgotten)
    assert ends == {True, False}
    assert repacking.usage(forgotten.store).size < len(LARGE)


STEPS = st.lists(
    st.sampled_from(["upload", "edit", "say", "branch", "main", "drop", "git"]),
    min_size=4,
    max_size=14,
)


@settings(max_examples=examples(15), deadline=None)
@given(STEPS)
def test_no_history_loses_anything_that_a_branch_has(steps: list[str]) -> None:
    with scratch() as folder, open_chats(folder).new("c1") as chat:
        upload(chat, "0.txt", b"0" * 3000)
        for number, step in enumerate(steps):
            match step:
                case "upload":
                    upload(chat, f"{number}.txt", b"%d" % number * 1000)
                case "edit":
                    (chat.workspace / "0.txt").write_bytes(b"0\n" * 1000 + b"%d" % number)
                case "say":
                    add_message(chat, f"{number} " * 10_000)
                case "branch":
                    branch_off(chat, f"b{number}")
                case "main":
                    checkout(chat, "main")
                case "drop":
                    others = [one.name for one in chat.branches() if not one.active]
                    for name in [name for name in others if name != "main"][:1]:
                        drop_branch(chat, name)
                case _:
                    git(chat.folder / "store.git", "repack", "-q", "-a", "-d", "-k")
        with writing(chat) as writer:
            writer.commit_changes()
        before = contents(chat)

        done = collect(chat)

        assert contents(chat) == before
        assert fsck(chat) == ""
        assert done.after.size <= done.before.size + 2000
        live = reachable(chat.store, chat.store.refs("refs/").values())
        assert done.after.objects == len(live)
