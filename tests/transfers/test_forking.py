"""A fork has all of a chat's history and none of its room, and each goes its own way."""

import pytest

from covalt_git.git_store import repacking
from covalt_git.models.chats import Origin
from covalt_git.transfers.forking import fork
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.registry import Chats
from covalt_git.workspaces.writing import writing
from tests.workspaces.stores import (
    add_message,
    branch_off,
    checkout,
    collect,
    fsck,
    git,
    layout_of,
    pending_call,
    save,
    upload,
)

LONG = "a long text, which is a record of its own " * 1000


def forked(chat: ChatStore, chats: Chats, **options: str) -> ChatStore:
    with writing(chat) as writer:
        return fork(writer, chats, **options)


@pytest.fixture
def full(chat: ChatStore) -> ChatStore:
    """A chat with two branches, a record, packs and loose objects, an edit, and a call that waits."""
    for number in range(5):
        upload(chat, f"{number}.txt", b"%d" % number)
    said = add_message(chat, LONG)
    branch_off(chat, "idea")
    upload(chat, "idea.txt", b"an idea")
    with writing(chat) as writer:
        repacking.combine(chat.store, most=0)
        waits = pending_call(chat, status="pending", execution_id=None, base=said)
        writer.put_call(waits)
    upload(chat, "later.txt", b"later")
    (chat.workspace / "edited.txt").write_text("not saved yet")
    return chat


def test_calls_that_wait_stay_and_records_come_along(full: ChatStore, chats: Chats) -> None:
    with forked(full, chats) as other:
        texts = [
            message.text
            for one in other.log(other.head())
            if (message := other.manifest(one.id).record.message)
        ]

        assert (len(full.calls()), other.calls()) == (1, [])
        assert texts == [LONG]


def test_a_fork_at_a_manifest_has_its_history_on_main(full: ChatStore, chats: Chats) -> None:
    first = list(full.log(full.head()))[-1].id
    with forked(full, chats, at=first) as other:
        save(other)

        assert git(other.folder / "store.git", "rev-list", "--branches").split() == [first]
        assert other.active_branch() == "main"
        assert layout_of(other.workspace) == {"0.txt": ("file", b"0")}
        assert other.card().forked_from == Origin(chat_id="c1", manifest_id=first)
        collect(other)
        assert repacking.usage(other.store).objects < 8
        assert fsck(other) == ""


def test_whatever_becomes_of_one_is_nothing_to_the_other(full: ChatStore, chats: Chats) -> None:
    other = forked(full, chats)
    with other:
        upload(other, "only-there.txt", b"x")
        checkout(other, "main")
        collect(other)
        assert fsck(full) == ""
        upload(full, "only-here.txt", b"y")
        collect(full)
        assert fsck(other) == fsck(full) == ""
        before = layout_of(full.workspace)
    chats.delete("c2")

    collect(full)
    assert fsck(full) == ""
    assert layout_of(full.workspace) == before
    with forked(full, chats) as third:
        chats.delete("c1")
        collect(third)
        save(third)
        assert fsck(third) == ""
        assert layout_of(third.workspace) == before
