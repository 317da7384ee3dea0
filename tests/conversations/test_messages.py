"""The conversation: messages are commits, and going back in it is a branch that loses nothing."""

from typing import Any

import pytest

from covalt_git.conversations import conversation, messages
from covalt_git.conversations.conversation import Conversation, Message
from covalt_git.conversations.messages import BadMessageError, MessageStep
from covalt_git.errors import CovaltError
from covalt_git.models.commit_record import MessageRecord
from covalt_git.names import BadNameError
from covalt_git.workspaces import commits
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.writing import writing
from tests.workspaces.stores import (
    branch_off,
    call_record,
    checkout,
    fsck,
    git,
    layout_of,
    pending_call,
    put,
    upload,
)


def say(chat: ChatStore, text: str | None, role: str = "user", **where: Any) -> str:
    """Add a message and return its id."""
    ref = where.pop("ref", None)
    with writing(chat) as writer:
        place = messages.add(writer, MessageRecord(role=role, text=text, ref=ref), **where)
    assert place.message_id is not None
    return place.message_id


def work(chat: ChatStore, message_id: str | None, path: str, content: bytes, **ended: Any) -> str:
    """Make a call for a message that writes one file; return its manifest."""
    with writing(chat) as writer:
        call = pending_call(chat, base=writer.commit_changes(), message_id=message_id)
        writer.put_call(call)
        put(chat.workspace, {path: ("file", content)})
        return writer.finish_call(call, call_record(**ended), snapshot=writer.scan())


def retry(chat: ChatStore, message: str | None = None, **how: Any) -> MessageStep:
    with writing(chat) as writer:
        return messages.retry(writer, message, **how)


def edit(chat: ChatStore, message: str, text: str, **how: Any) -> MessageStep:
    with writing(chat) as writer:
        return messages.edit(writer, message, text=text, **how)


def switch(chat: ChatStore, message: str) -> MessageStep:
    with writing(chat) as writer:
        return messages.switch(writer, message)


def go_on(chat: ChatStore, message: str | None = None, **how: Any) -> MessageStep:
    with writing(chat) as writer:
        return messages.continue_from(writer, message, **how)


def find(chat: ChatStore, text: str) -> Message:
    return Conversation(chat).find(text)


def told(chat: ChatStore) -> list[tuple[str | None, int, int]]:
    """Return the messages in order: their texts, and which of how many siblings they are."""
    found = Conversation(chat).messages.values()
    return [(one.text, one.number, one.siblings) for one in found]


def texts(chat: ChatStore) -> dict[str, bytes]:
    """Return the files of the folder."""
    return {path: content for path, (_, content) in layout_of(chat.workspace).items()}


# Adding


@pytest.mark.parametrize(
    ("words", "error"),
    [
        pytest.param({"role": "user"}, BadMessageError, id="neither-text-nor-id"),
        pytest.param({"role": "The User", "text": "x"}, BadNameError, id="role"),
        pytest.param({"role": "user", "ref": "a b"}, BadMessageError, id="space-in-id"),
        pytest.param({"role": "user", "ref": ""}, BadMessageError, id="empty-id"),
        pytest.param({"role": "user", "text": "\udc80"}, BadMessageError, id="no-characters"),
    ],
)
def test_a_message_that_cannot_be_is_refused_and_nothing_is_made(
    chat: ChatStore, words: dict[str, str], error: type[CovaltError]
) -> None:
    with writing(chat) as writer, pytest.raises(error) as caught:
        messages.add(writer, MessageRecord(**words))

    assert caught.value.hint
    assert chat.head() is None


def test_a_conversation_is_read_as_it_was_while_a_branch_moves(
    chat: ChatStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(chat, "first")
    above = ChatStore.above

    def move_after_reading(self: ChatStore, *tips: str, **how: Any) -> dict[str, int]:
        found = above(self, *tips, **how)
        monkeypatch.undo()
        say(chat, "second")
        return found

    monkeypatch.setattr(ChatStore, "above", move_after_reading)
    assert [one.text for one in Conversation(chat).messages.values()] == ["first"]
    assert [one.text for one in Conversation(chat).messages.values()] == ["first", "second"]


def test_the_applications_id_names_one_message(chat: ChatStore) -> None:
    first = say(chat, None, ref="msg_1")

    assert find(chat, "msg_1").id == first
    for taken in ("msg_1", first):
        with pytest.raises(CovaltError, match=f"there is a message {taken!r}"):
            say(chat, None, ref=taken)


def test_messages_of_one_millisecond_keep_their_order(
    chat: ChatStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "now", lambda: "2026-11-23T12:00:00.000Z")
    first = say(chat, "one")
    words = [f"two, {number}" for number in range(8)]
    for text in words:
        say(chat, text, parent=first)

    assert [text for text, *_ in told(chat)] == ["one", *words]


# Retrying


@pytest.mark.requirement("covalt-2.3.switch")
def test_a_retry_of_a_users_message_keeps_it_and_goes_back_before_its_calls(
    chat: ChatStore,
) -> None:
    question = say(chat, "make it 1")
    upload(chat, "table.csv", b"1;2")
    work(chat, question, "a", b"1")
    say(chat, "done", "assistant")
    place = retry(chat, question)

    assert (place.branch, place.message_id) == ("retry-1", question)
    assert texts(chat) == {"table.csv": b"1;2"}
    say(chat, "really done", "assistant")
    assert told(chat) == [("make it 1", 1, 1), ("done", 1, 2), ("really done", 2, 2)]


def test_the_first_message_is_retried_on_a_branch_with_nothing_on_it(chat: ChatStore) -> None:
    first = say(chat, "one", "assistant")
    work(chat, first, "a", b"1")
    place = retry(chat, first)

    assert (place.branch, place.manifest_id, place.message_id) == ("retry-1", None, None)
    assert texts(chat) == {}
    assert chat.active_branch() == "retry-1"
    second = say(chat, "one again", "assistant")
    assert told(chat) == [("one", 1, 2), ("one again", 2, 2)]
    work(chat, second, "b", b"2")
    checkout(chat, "main")
    assert texts(chat) == {"a": b"1"}
    checkout(chat, "retry-1")
    assert texts(chat) == {"b": b"2"}
    assert fsck(chat) == ""


# Editing


def test_an_edit_is_a_sibling_with_the_files_that_were_there(chat: ChatStore) -> None:
    put(chat.workspace, {"before": ("file", b"0"), "empty": ("folder", b"")})
    first = say(chat, "look at this")
    upload(chat, "table.csv", b"1;2")
    answer = say(chat, "I see", "assistant")
    work(chat, answer, "made", b"1")
    place = edit(chat, first, "look closer")

    assert place.branch == "edit-1"
    assert layout_of(chat.workspace) == {
        "before": ("file", b"0"),
        "table.csv": ("file", b"1;2"),
        "empty": ("folder", b""),
    }
    edited = find(chat, str(place.message_id))
    assert (edited.role, edited.text, edited.number, edited.siblings) == (
        "user",
        "look closer",
        2,
        2,
    )
    parents = [chat.manifest(find(chat, one).own_manifest_id).parents for one in (first, edited.id)]
    assert parents[0] == parents[1]
    assert fsck(chat) == ""


# Switching


def test_a_message_that_was_only_merged_is_gone_on_from(chat: ChatStore) -> None:
    upload(chat, "a", b"1")
    branch_off(chat, "idea")
    said = say(chat, "one")
    checkout(chat, "main")
    upload(chat, "b", b"1")
    store = chat.folder / "store.git"
    tree = git(store, "rev-parse", "main^{tree}").strip()
    merge = git(store, "commit-tree", tree, "-p", "main", "-p", "idea", given=b"m").strip()
    git(store, "update-ref", "refs/heads/main", merge)
    git(store, "branch", "-D", "idea")

    with pytest.raises(CovaltError) as caught:
        switch(chat, said)
    assert caught.value.hint.endswith(f"covalt-git chat message continue c1 {said}")
    assert go_on(chat, said).branch == "continue-1"


# Reading


def test_an_imitated_commit_without_a_message_is_not_a_message(chat: ChatStore) -> None:
    upload(chat, "a", b"1")
    store = chat.folder / "store.git"
    text = git(store, "log", "-1", "--format=%B").replace("user_upload", "message")
    fake = git(store, "commit-tree", "main^{tree}", "-p", "main", given=text.encode()).strip()
    git(store, "update-ref", "refs/heads/main", fake)

    assert chat.manifest(fake).source == "message"
    assert Conversation(chat).messages == {}


# Calls


def test_a_call_for_a_message_of_another_branch_is_refused(chat: ChatStore) -> None:
    say(chat, "one")
    two = say(chat, "two", "assistant")
    retry(chat, two)

    with pytest.raises(CovaltError, match="does not contain the message") as caught:
        conversation.of_call(chat, two)
    assert caught.value.hint == f"covalt-git chat message switch c1 {two}"
