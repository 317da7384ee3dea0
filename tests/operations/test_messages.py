"""Messages of a chat: retried, edited, switched to and continued."""

from typing import Any

import pytest

from tests.operations.conftest import add_message
from tests.operations_client import Operations
from tests.workspaces.stores import git


def listed(operate: Operations) -> Any:
    return operate("list_messages", chat_id="new")["messages"]


def write_file(operate: Operations, message_id: str) -> Any:
    return operate(
        "call_tool",
        chat_id="new",
        tool_id="app-builder:write_file",
        args={"path": "a.txt", "content": "1"},
        message_id=message_id,
    )


@pytest.mark.requirement("covalt-0.workspace", "covalt-2.3.switch")
def test_retries_and_edits_of_a_message_are_siblings_on_branches(new: Operations) -> None:
    one = add_message(new, "Make\na page")
    two = add_message(new, "Here it is", role="assistant", ref="m2")
    made = write_file(new, "m2")
    retried = new("retry_message", chat_id="new")
    three = add_message(new, "Or this", role="assistant")
    edited = new("edit_message", chat_id="new", message=one, text="Make a blue page")
    back = new("switch_to_message", chat_id="new", message="m2")
    went = new("continue_message", chat_id="new", message=one)
    rows = listed(new)

    assert made["message_id"] == two
    assert (retried["branch"], retried["message_id"]) == ("retry-1", one)
    assert [(one["path"], one["kind"]) for one in retried["changes"]] == [("a.txt", "deleted")]
    assert edited["branch"] == "edit-1"
    assert (back["branch"], back["manifest_id"]) == ("main", made["post_manifest_id"])
    assert went["branch"] == "continue-1"
    assert [(row["title"], row["number"], row["siblings"], row["branches"]) for row in rows] == [
        ("Make a page", 1, 2, ["continue-1"]),
        ("Here it is", 1, 2, ["main"]),
        ("Or this", 2, 2, ["retry-1"]),
        ("Make a blue page", 2, 2, ["edit-1"]),
    ]
    assert [row["parent_id"] for row in rows] == [None, one, one, None]
    assert [row["id"] for row in rows] == [one, two, three, edited["message_id"]]
    assert [row["active"] for row in rows] == [True, False, False, False]
    assert git(new.store("new"), "fsck", "--strict") == ""


@pytest.mark.requirement("covalt-2.3.leaf", "covalt-2.3.manifest")
def test_lists_and_details_follow_the_active_message(new: Operations) -> None:
    one, two = add_message(new, "one"), add_message(new, "two", role="assistant")
    for operation, leaf in (("retry_message", one), ("switch_to_message", two)):
        place = new(operation, chat_id="new", message=two)
        chat = new("get_chat", chat_id="new")
        row = next(row for row in new("list_chats")["chats"] if row["id"] == "new")

        for told in (chat, row):
            assert told["active_branch"] == place["branch"]
            assert told["active_manifest_id"] == place["manifest_id"]
            assert told["active_leaf_message_id"] == leaf


def test_a_message_has_its_whole_text_and_what_its_calls_changed(new: Operations) -> None:
    add_message(new, "x" * 500, ref="m1")
    write_file(new, "m1")
    told = new("get_message", chat_id="new", message="m1")
    manifest = new("get_workspace_manifest", chat_id="new", message_id="m1")

    assert (told["text"], told["title"]) == ("x" * 500, "x" * 200)
    assert [one["path"] for one in told["changes"]] == ["a.txt"]
    assert manifest["id"] == told["manifest_id"]
