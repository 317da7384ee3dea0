"""Deleting a chat removes all of it, or nothing."""

import errno
import shutil
from functools import partial

import pytest

from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.lock import ChatBusyError
from covalt_git.workspaces.registry import Chats, DeletionLoss
from covalt_git.workspaces.writing import writing
from tests.examples import EVERY
from tests.killing import killed_at
from tests.workspaces.stores import branch_off, open_chats, pending_call, upload


def test_everything_of_a_chat_is_deleted_and_listed_before(chat: ChatStore, chats: Chats) -> None:
    upload(chat, "a.txt", b"a" * 10_000)
    branch_off(chat, "idea")
    upload(chat, "b.txt", b"b")
    with writing(chat) as writer:
        writer.put_call(pending_call(chat, status="pending"))
        (chat.workspace / "node_modules").mkdir()
        (chat.workspace / "node_modules/link").symlink_to("/etc")

        assert (chats.loss("c1").manifests, chats.loss("c1").branches) == (2, 2)

    gone = chats.delete("c1")

    assert (gone.manifests, gone.branches, gone.waiting) == (2, 2, 1)
    assert gone.size > 10_000
    assert list(chats.folder.iterdir()) == []
    with pytest.raises(UnknownNameError):
        chats.open("c1")
    with pytest.raises(UnknownNameError):
        chats.delete("c1")


def test_a_chat_with_a_writer_is_not_deleted(chat: ChatStore, chats: Chats) -> None:
    with writing(chat), pytest.raises(ChatBusyError, match="is writing since"):
        chats.delete("c1", timeout_s=0)

    assert chats.ids() == ["c1"]
    upload(chat, "a.txt", b"a")


def test_a_damaged_chat_can_be_deleted(chat: ChatStore, chats: Chats) -> None:
    upload(chat, "a.txt", b"a")
    (chat.folder / "store.git/HEAD").write_text("nonsense")
    (chat.folder / "store.git/refs/heads/main").write_text("")

    gone = chats.delete("c1")

    assert gone == DeletionLoss(None, None, None, gone.size)
    assert chats.ids() == []


@pytest.mark.kills
def test_a_killed_deletion_leaves_the_complete_chat_or_no_chat(
    chat: ChatStore, chats: Chats
) -> None:
    upload(chat, "a.txt", b"a")
    left = []
    for step in range(1, 100, EVERY):
        place = chats.folder.parent / f"killed-{step}"
        shutil.copytree(chats.folder, place / "chats")
        copy = open_chats(place)
        killed = killed_at(step, partial(copy.delete, "c1"))
        left.append(copy.ids())
        if copy.ids():
            with copy.open("c1") as again:
                assert upload(again, "b.txt", b"b") == "b.txt"
            copy.delete("c1")
        copy.new("c2").store.close()
        assert [path.name for path in copy.folder.iterdir()] == ["c2"]
        if not killed:
            break

    assert not killed
    assert left == sorted(left, reverse=True)
    assert [left[0], left[-1]] == [["c1"], []]


def test_the_rest_of_a_failed_chat_is_removed_with_the_next(
    chats: Chats, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left", "here")

    chats.new("c1").store.close()
    with monkeypatch.context() as failing:
        failing.setattr("shutil.rmtree", lambda *_, **__: None)
        failing.setattr("os.rename", refuse)
        with pytest.raises(CovaltError, match="no space left"):
            chats.new("c2")
    assert len(list(chats.folder.iterdir())) == 2

    chats.new("c2").store.close()
    assert sorted(path.name for path in chats.folder.iterdir()) == ["c1", "c2"]


def test_a_chat_in_the_making_is_left_alone_while_its_maker_lives(chats: Chats) -> None:
    with chats.creating("sha1") as store:
        made = store.path.parent
        (made / "file").write_text("on its way")
        chats.new("c1").store.close()
        assert (made / "file").exists()
    assert [path.name for path in chats.folder.iterdir()] == ["c1"]
