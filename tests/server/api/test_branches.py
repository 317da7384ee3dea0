"""Renaming, deleting and restoring over the API."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api_client import Api, configure, refused


def names(api: Api) -> list[str]:
    return [one["name"] for one in api.get("list_branches", chat_id="c1")["branches"]]


@pytest.fixture
def branched(api: Api) -> Api:
    """The chat on main, with a branch idea that has a manifest of its own."""
    api.write("a.txt", "1")
    api.post("create_branch", chat_id="c1", name="idea")
    api.post("switch_branch", chat_id="c1", branch="idea")
    api.write("a.txt", "2")
    api.post("switch_branch", chat_id="c1", branch="main")
    return api


def test_a_branch_is_renamed(branched: Api) -> None:
    renamed = branched.post("rename_branch", chat_id="c1", branch="main", name="trunk")

    assert renamed["branch"]["name"] == "trunk"
    assert renamed["branch"]["active"] is True
    assert names(branched) == ["idea", "trunk"]
    assert branched.get("get_chat", chat_id="c1")["active_branch"] == "trunk"
    assert branched.get("list_chats")["chats"][0]["active_branch"] == "trunk"


def test_a_deleted_branch_is_out_of_sight_and_comes_back(branched: Api) -> None:
    refused(branched.tell("delete_branch", chat_id="c1", branch="idea"), 409, "only_there")
    gone = branched.post("delete_branch", chat_id="c1", branch="idea", force=True)
    seen = branched.get("get_chat", chat_id="c1")["manifests"]
    listed = branched.get("list_deleted_branches", chat_id="c1")["branches"]
    back = branched.post(
        "create_branch", chat_id="c1", name="idea", from_manifest=gone["manifest_id"]
    )

    assert (gone["name"], gone["manifests"], seen) == ("idea", 1, 1)
    assert listed == [gone]
    assert back["manifest_id"] == gone["manifest_id"]
    assert branched.get("get_chat", chat_id="c1")["manifests"] == 2
    assert branched.get("list_deleted_branches", chat_id="c1")["branches"] == []


def test_a_waiting_call_holds_its_branch_and_hides_its_tool(branched: Api) -> None:
    branched.post("switch_branch", chat_id="c1", branch="idea")
    waits = branched.call("app-builder:run_command", command="ls")
    branched.post("switch_branch", chat_id="c1", branch="main")
    configure(branched.root, 'default_role: r\nroles: {r: {allow: ["app-builder.read_file"]}}')
    answers = [
        branched.tell("rename_branch", chat_id="c1", branch="idea", name="blue"),
        branched.tell("delete_branch", chat_id="c1", branch="idea"),
    ]

    for answer in answers:
        told = refused(answer, 409, "call_waits")
        assert waits["execution_id"] in told["hint"]
        assert "run_command" not in answer.get_data(as_text=True)
    branched.post("delete_branch", chat_id="c1", branch="idea", force=True)
    configure(branched.root)
    (approval,) = branched.get("list_approvals", state="expired")["approvals"]
    assert approval["execution_id"] == waits["execution_id"]


@pytest.mark.parametrize(
    ("operation", "asked", "status", "code"),
    [
        pytest.param(
            "rename_branch", {"branch": "x", "name": "y"}, 404, "unknown_branch", id="who"
        ),
        pytest.param(
            "rename_branch", {"branch": "idea", "name": "main"}, 409, "branch_exists", id="to"
        ),
        pytest.param(
            "rename_branch", {"branch": "idea", "name": "a b"}, 400, "bad_name", id="name"
        ),
        pytest.param("delete_branch", {"branch": "x"}, 404, "unknown_branch", id="unknown"),
        pytest.param("delete_branch", {"branch": "main"}, 409, "active_branch", id="active"),
        pytest.param(
            "restore_workspace", {"manifest": "x"}, 404, "unknown_manifest", id="manifest"
        ),
        pytest.param(
            *("restore_workspace", {"manifest": "idea", "paths": ["b"]}, 404, "unknown_file"),
            id="path",
        ),
        pytest.param(
            "restore_workspace",
            {"manifest": "idea", "paths": ["a.txt"], "keep_files": True},
            *(400, "invalid_request"),
            id="keeps-and-restores",
        ),
        pytest.param(
            *("restore_workspace", {"manifest": "idea", "branch": "x"}, 400, "invalid_request"),
            id="a-branch-for-nothing",
        ),
    ],
)
def test_what_cannot_be_is_refused(
    branched: Api, operation: str, asked: dict[str, Any], status: int, code: str
) -> None:
    refused(branched.tell(operation, chat_id="c1", **asked), status, code)

    assert names(branched) == ["idea", "main"]
    assert (branched.workspace / "a.txt").read_text() == "1"


def test_files_come_back_as_a_new_state(branched: Api) -> None:
    (branched.workspace / "b.txt").write_text("typed")
    done = branched.post("restore_workspace", chat_id="c1", manifest="idea", paths=["a.txt"])
    again = branched.post("restore_workspace", chat_id="c1", manifest="idea", paths=["a.txt"])

    assert (done["branch"], done["made"]) == ("main", True)
    assert [one["path"] for one in done["changes"]] == ["a.txt"]
    assert again == {**done, "changes": [], "made": False}
    assert branched.files().keys() == {"a.txt", "b.txt"}
    assert branched.get("get_chat", chat_id="c1")["active_manifest_id"] == done["manifest_id"]
    row = branched.get("list_manifests", chat_id="c1", branch="main")["manifests"][0]
    assert (row["id"], row["source"]) == (done["manifest_id"], "restore")


def test_a_message_names_what_is_brought_back_and_the_files_may_stay(api: Api) -> None:
    one = api.post("add_message", chat_id="c1", text="one")["message_id"]
    api.write("a.txt", "1")
    kept = api.post("restore_workspace", chat_id="c1", manifest=one, keep_files=True)
    back = api.post("restore_workspace", chat_id="c1", manifest=one)

    assert (kept["branch"], kept["changes"], kept["made"]) == ("restore-1", [], True)
    assert back == {**kept, "made": False}  # that is where the message has come to
    assert api.get("get_chat", chat_id="c1")["active_leaf_message_id"] == one
    assert api.files().keys() == {"a.txt"}
