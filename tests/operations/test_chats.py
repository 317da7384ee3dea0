"""Chats: their lists, status, history and notes; forks, bundles, garbage and deletion."""

from typing import Any

import pytest

from tests.api_client import NO_NOTES
from tests.operations_client import Operations
from tests.workspaces.stores import git, loose


def chats(operate: Operations) -> dict[str, Any]:
    return {chat["id"]: chat for chat in operate("list_chats")["chats"]}


def test_a_chat_needs_a_new_and_valid_id(operate: Operations) -> None:
    for chat_id, code in {
        "c1": "chat_exists",
        "": "bad_name",
        "My Chat": "bad_name",
        "../x": "bad_name",
        "a\0b": "bad_name",
    }.items():
        assert operate.error("create_chat", chat_id=chat_id).code == code
    assert [*chats(operate)] == ["c3", "c2", "c1"]


def test_a_new_chat_is_empty(new: Operations) -> None:
    told = new("get_chat", chat_id="new")

    assert told["branches"] == [{"name": "main", "manifest_id": None, "active": True}]
    assert told["status"]["changes"] == told["status"]["waiting"] == []
    assert new("list_manifests", chat_id="new", branch="main")["manifests"] == []
    assert new("get_workspace_files", chat_id="new", manifest="HEAD")["files"] == []
    for name in ("HEAD", ""):
        assert new("get_workspace_diff", chat_id="new", old=name)["changes"] == []
    unchanged = {"manifest_id": None, "changed": False, "notes": NO_NOTES}
    assert new("save_edits", chat_id="new") == unchanged
    for name, request in {
        "get_workspace_manifest": {},
        "create_branch": {"name": "idea"},
        "export_chat": {},
    }.items():
        assert new.error(name, chat_id="new", **request).code == "invalid_request"


def test_the_status_has_what_is_not_committed(new: Operations) -> None:
    ignoring = "version: 1\nworkspace: {ignore: ['*.log'], durability: fast}\n"
    (new.root / "covalt.yaml").write_text(ignoring)
    for name in ("kept.txt", "left.log", "aux", "caf\udce9"):
        (new.workspace("new") / name).write_text("1")
    (new.workspace("new") / "empty").mkdir()
    status = new("get_chat", chat_id="new")["status"]

    assert [(one["path"], one["kind"]) for one in status["changes"]] == [
        ("aux", "added"),
        ("kept.txt", "added"),
    ]
    assert status["ignored"] == ["left.log"]
    assert status["workspace"]["empty_folders"] == ["empty"]
    assert [note["path"] for note in status["workspace"]["unportable"]] == ["aux"]
    assert [note["path"] for note in status["workspace"]["not_stored"]] == ["caf\\xe9"]


def test_the_history_comes_in_pages(new: Operations) -> None:
    for number in range(5):
        new.commit("new", a=str(number))
    whole = new("list_manifests", chat_id="new")["manifests"]
    pages = [
        new("list_manifests", chat_id="new", limit=2),
        new("list_manifests", chat_id="new", limit=2, before=whole[1]["id"]),
        new("list_manifests", chat_id="new", limit=2, before=whole[3]["id"], branch="main"),
    ]

    assert [row for page in pages for row in page["manifests"]] == whole
    assert [page["more"] for page in pages] == [True, True, False]
    assert new.error("list_manifests", chat_id="new", before="0" * 40).code == "unknown_manifest"
    for limit in (0, 501):
        error = new.error("list_manifests", chat_id="new", limit=limit)
        assert error.code == "invalid_request"


@pytest.mark.requirement("covalt-7.3.get_workspace_manifest")
def test_a_message_has_the_last_manifest_that_was_made_for_it(new: Operations) -> None:
    for content, message in (("1", "m1"), ("2", "m1"), ("3", None)):
        made = new(
            "call_tool",
            chat_id="new",
            tool_id="app-builder:write_file",
            args={"path": "a.txt", "content": content},
            message_id=message,
        )
        if content == "2":
            last = made["post_manifest_id"]
    told = new("get_workspace_manifest", chat_id="new", message_id="m1")

    assert (told["id"], told["message_id"]) == (last, "m1")
    unknown = new.error("get_workspace_manifest", chat_id="new", message_id="m2")
    assert unknown.code == "unknown_message"
    both = new.error("get_workspace_manifest", chat_id="new", message_id="m1", manifest="main")
    assert both.code == "invalid_request"


def test_the_history_does_not_name_a_hidden_tool(operate: Operations, ids: dict[str, str]) -> None:
    guest = operate.as_role("guest")
    listed = guest("list_manifests", chat_id="c1")
    detail = guest("get_workspace_manifest", chat_id="c1", manifest=ids["call"])

    assert {row["title"] for row in listed["manifests"] if row["source"] == "tool_run"} == {
        "a tool call"
    }
    assert (detail["title"], detail["status"], detail["record"]) == ("a tool call", None, {})
    for answer in (listed, detail, guest("get_chat", chat_id="c3")):
        assert "write_file" not in str(answer)
        assert "edit_file" not in str(answer)


def test_a_damaged_chat_hides_no_other(operate: Operations) -> None:
    head = git(operate.store("c1"), "rev-parse", "main").strip()
    loose(operate.store("c1"), head).unlink()
    for file in (operate.root / "data").glob("index.db*"):
        file.unlink()
    listed = operate("list_chats")

    assert [chat["id"] for chat in listed["chats"]] == ["c3", "c2"]
    assert [chat["chat_id"] for chat in listed["damaged"]] == ["c1"]
    assert head in listed["damaged"][0]["message"]
