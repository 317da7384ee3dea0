"""The conversation over the API: its messages, and going back in it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api_client import NO_NOTES, Api, refused
from tests.workspaces.stores import git


def add(api: Api, text: str | None, **how: Any) -> str:
    """Add a message and return its id."""
    return str(api.post("add_message", chat_id="c1", text=text, **how)["message_id"])


def listed(api: Api) -> list[Any]:
    return list(api.get("list_messages", chat_id="c1")["messages"])


def call(api: Api, message_id: str, content: str) -> Any:
    return api.post(
        "call_tool",
        chat_id="c1",
        tool_id="app-builder:write_file",
        args={"path": "a.txt", "content": content},
        message_id=message_id,
    )


def test_a_conversation_is_retried_edited_and_gone_back_in(api: Api) -> None:
    one = add(api, "Make\na page")
    two = add(api, "Here it is", role="assistant", ref="m2")
    made = call(api, "m2", "1")
    retried = api.post("retry_message", chat_id="c1")
    three = add(api, "Or this", role="assistant")
    edited = api.post("edit_message", chat_id="c1", message=one, text="Make a blue page")
    back = api.post("switch_to_message", chat_id="c1", message="m2")
    went = api.post("continue_message", chat_id="c1", message=one)

    assert made["message_id"] == two
    assert (retried["branch"], retried["message_id"]) == ("retry-1", one)
    assert [(one["path"], one["kind"]) for one in retried["changes"]] == [("a.txt", "deleted")]
    assert edited["branch"] == "edit-1"
    assert (back["branch"], back["manifest_id"]) == ("main", made["post_manifest_id"])
    assert went["branch"] == "continue-1"
    rows = listed(api)
    assert [(row["title"], row["number"], row["siblings"], row["branches"]) for row in rows] == [
        ("Make a page", 1, 2, ["continue-1"]),
        ("Here it is", 1, 2, ["main"]),
        ("Or this", 2, 2, ["retry-1"]),
        ("Make a blue page", 2, 2, ["edit-1"]),
    ]
    assert [row["parent_id"] for row in rows] == [None, one, one, None]
    assert [row["id"] for row in rows] == [one, two, three, edited["message_id"]]
    assert [row["active"] for row in rows] == [True, False, False, False]
    assert git(api.store, "fsck", "--strict") == ""


def test_the_index_knows_of_every_step_at_once(api: Api) -> None:
    one = add(api, "one")
    two = add(api, "two")
    for operation, leaf in (("retry_message", one), ("switch_to_message", two)):
        place = api.post(operation, chat_id="c1", message=two)
        chat = api.get("get_chat", chat_id="c1")
        row = next(row for row in api.get("list_chats")["chats"] if row["id"] == "c1")

        for told in (chat, row):
            assert told["active_branch"] == place["branch"]
            assert told["active_manifest_id"] == place["manifest_id"]
            assert told["active_leaf_message_id"] == leaf


def test_a_message_is_told_whole(api: Api) -> None:
    add(api, "x" * 500, ref="m1")
    call(api, "m1", "1")
    told = api.get("get_message", chat_id="c1", message="m1")

    assert told["text"] == "x" * 500
    assert told["title"] == "x" * 200
    assert [one["path"] for one in told["changes"]] == ["a.txt"]
    manifest = api.get("get_workspace_manifest", chat_id="c1", message_id="m1")
    assert manifest["id"] == told["manifest_id"]


def test_the_first_message_is_retried_on_a_branch_with_nothing_on_it(api: Api) -> None:
    one = add(api, "one")
    place = api.post("retry_message", chat_id="c1", message=one)

    assert place == {
        "branch": "retry-1",
        "manifest_id": None,
        "message_id": None,
        "changes": [],
        "notes": NO_NOTES,
    }
    assert api.get("get_chat", chat_id="c1")["active_manifest_id"] is None
    assert add(api, "uno") != one
    assert [row["number"] for row in listed(api)] == [1, 2]


def test_a_call_is_refused_for_a_message_elsewhere(api: Api) -> None:
    add(api, "one")
    two = add(api, "two")
    api.post("retry_message", chat_id="c1")
    body = {"chat_id": "c1", "tool_id": "app-builder:list_files", "args": {}}

    refused(api.tell("call_tool", **body, message_id=two), 409, "message_elsewhere")
    refused(api.tell("call_tool", **body, message_id="m9"), 404, "unknown_message")
    assert api.get("list_calls", chat_id="c1")["calls"] == []


@pytest.mark.parametrize(
    ("operation", "asked", "status", "code"),
    [
        pytest.param("add_message", {}, 400, "bad_message", id="nothing-said"),
        pytest.param("add_message", {"text": "x", "role": "A B"}, 400, "bad_name", id="role"),
        pytest.param("add_message", {"ref": "m1"}, 409, "message_exists", id="twice"),
        pytest.param(
            "add_message", {"text": "x", "parent": "m9"}, 404, "unknown_message", id="parent"
        ),
        pytest.param("retry_message", {"branch": "main"}, 409, "branch_exists", id="taken"),
        pytest.param("retry_message", {"branch": "../x"}, 400, "bad_name", id="no-branch"),
        pytest.param(
            "edit_message", {"message": "m9", "text": "x"}, 404, "unknown_message", id="edit"
        ),
        pytest.param("switch_to_message", {"message": "m9"}, 404, "unknown_message", id="switch"),
        pytest.param("continue_message", {"message": ""}, 404, "unknown_message", id="continue"),
    ],
)
def test_what_cannot_be_is_refused(
    api: Api, operation: str, asked: dict[str, str], status: int, code: str
) -> None:
    add(api, None, ref="m1")
    before = git(api.store, "for-each-ref")

    told = refused(api.tell(operation, chat_id="c1", **asked), status, code)
    assert told["hint"]
    assert git(api.store, "for-each-ref") == before


def test_a_chat_without_messages_lists_none(api: Api) -> None:
    assert listed(api) == []
    refused(api.ask("get_message", chat_id="c1", message="m1"), 404, "unknown_message")
    refused(api.tell("retry_message", chat_id="c1"), 400, "invalid_request")
