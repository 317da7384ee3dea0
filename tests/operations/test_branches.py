"""Branches of a chat: created, switched to, renamed, deleted; and files restored from other manifests."""

from typing import Any

import pytest

from tests.operations_client import Operations
from tests.workspaces.stores import git


def names(operate: Operations, chat_id: str = "c1") -> list[str]:
    return [one["name"] for one in operate("list_branches", chat_id=chat_id)["branches"]]


def paths(answer: Any) -> list[tuple[str, str]]:
    return [(one["path"], one["kind"]) for one in answer["changes"]]


@pytest.fixture
def own(new: Operations) -> Operations:
    """Operations on a project with a chat ``new``, on main, with a.txt in its only manifest."""
    new.commit("new", **{"a.txt": "1"})
    return new


@pytest.mark.requirement("covalt-0.workspace", "covalt-2.3.switch")
def test_each_branch_has_its_own_history_and_files(own: Operations) -> None:
    made = own("create_branch", chat_id="new", name="idea")
    switched = own("switch_branch", chat_id="new", branch="idea")
    own.commit("new", **{"b.txt": "2"})
    own("switch_branch", chat_id="new", branch="main")
    back = own("switch_branch", chat_id="new", branch="idea")
    branches = {one["name"]: one for one in own("list_branches", chat_id="new")["branches"]}

    assert made["manifest_id"] == switched["manifest_id"] == branches["main"]["manifest_id"]
    assert switched["changes"] == []
    assert paths(back) == [("b.txt", "added")]
    assert branches["idea"]["active"] is True
    lengths = {
        name: len(own("list_manifests", chat_id="new", branch=name)["manifests"])
        for name in (None, "main", "idea")
    }
    assert lengths == {None: 2, "main": 1, "idea": 2}
    assert {path.name for path in own.workspace("new").iterdir()} == {"a.txt", "b.txt"}


@pytest.mark.requirement("covalt-7.3.get_workspace_file")
def test_edits_stay_on_the_branch_they_were_made_on(operate: Operations) -> None:
    (operate.workspace("c1") / "mine.txt").write_text("typed")
    operate("switch_branch", chat_id="c1", branch="idea")

    assert not (operate.workspace("c1") / "mine.txt").exists()
    content = operate("get_workspace_file", chat_id="c1", path="mine.txt", manifest="main")
    assert content == b"typed"


def test_a_branch_with_manifests_of_its_own_is_deleted_by_force_and_can_come_back(
    operate: Operations,
) -> None:
    assert operate.error("delete_branch", chat_id="c1", branch="idea").code == "only_there"
    before = operate("get_chat", chat_id="c1")["manifests"]
    gone = operate("delete_branch", chat_id="c1", branch="idea", force=True)
    seen = operate("get_chat", chat_id="c1")["manifests"]
    listed = operate("list_deleted_branches", chat_id="c1")["branches"]
    git(operate.store("c1"), "gc", "--prune=now", "--quiet")
    start = gone["manifest_id"]
    unknown = operate.error("get_workspace_manifest", chat_id="c1", manifest=start)
    back = operate("create_branch", chat_id="c1", name="idea", from_manifest=start)
    left = operate("list_deleted_branches", chat_id="c1")["branches"]

    assert (gone["name"], gone["manifests"], seen) == ("idea", 1, before - 1)
    assert (listed[0], [one["name"] for one in left]) == (gone, ["gone"])
    assert (unknown.code, back["manifest_id"]) == ("unknown_manifest", start)
    assert operate("get_chat", chat_id="c1")["manifests"] == before


def test_a_branch_with_a_pending_call_is_not_moved_and_its_hidden_tool_not_named(
    operate: Operations, ids: dict[str, str]
) -> None:
    operate("create_branch", chat_id="c3", name="other")
    operate("switch_branch", chat_id="c3", branch="other")
    text = (operate.root / "covalt.yaml").read_text()
    (operate.root / "covalt.yaml").write_text(text.replace("guest: {", "guest: {chats: manage, "))
    guest = operate.as_role("guest")
    for error in (
        guest.error("rename_branch", chat_id="c3", branch="main", name="blue"),
        guest.error("delete_branch", chat_id="c3", branch="main"),
    ):
        assert error.code == "call_waits"
        assert ids["approval"] in error.hint
        assert "edit_file" not in str(error.as_json())

    gone = operate("delete_branch", chat_id="c3", branch="main", force=True)
    (approval,) = operate("list_approvals", state="expired")["approvals"]
    assert gone["manifests"] == 1  # the commit of the call that ended
    assert approval["execution_id"] == ids["approval"]


def test_the_history_of_a_path_has_the_commits_that_changed_it(own: Operations) -> None:
    def history(path: str, **which: Any) -> list[str]:
        found = own("list_manifests", chat_id="new", path=path, **which)
        return [one["id"] for one in found["manifests"]]

    first = own("get_chat", chat_id="new")["active_manifest_id"]
    own("create_branch", chat_id="new", name="idea")
    own("switch_branch", chat_id="new", branch="idea")
    there = own.commit("new", **{"b/c.txt": "1"})
    own("switch_branch", chat_id="new", branch="main")
    last = own.commit("new", **{"a.txt": "2"})
    merged = own("merge_branch", chat_id="new", branch="idea")["manifest_id"]

    assert history("a.txt") == [last, first]
    assert history("./b/") == history("b/c.txt", manifest="HEAD") == [there]
    assert history("b", manifest="HEAD", first_parents=True) == [merged]
    assert history("a.txt", limit=1) == [last]
    assert history("a.txt", limit=1, before=last) == [first]
    assert history("no.txt") == []


def test_undo_goes_back_change_by_change_and_redo_takes_each_undo_back(own: Operations) -> None:
    file = own.workspace("new") / "a.txt"
    own.commit("new", **{"a.txt": "2"})
    own("add_message", chat_id="new", text="no change of a file")
    file.write_text("3")  # is not committed yet

    def step(name: str) -> str:
        assert own(f"{name}_change", chat_id="new")["made"]
        return file.read_text() if file.exists() else "none"

    def redoable() -> bool:
        return bool(own("get_chat", chat_id="new")["status"]["redoable"])

    assert [step("undo") for _ in range(3)] == ["2", "1", "none"]
    assert own.error("undo_change", chat_id="new").code == "nothing_to_undo"
    assert redoable()
    assert [step("redo"), step("redo"), step("undo")] == ["1", "2", "1"]
    assert [step("redo"), step("redo")] == ["2", "3"]
    assert not redoable()
    assert own.error("redo_change", chat_id="new").code == "nothing_to_redo"
    assert step("undo") == "2"
    file.write_text("4")
    assert own.error("redo_change", chat_id="new").code == "nothing_to_redo"
    assert [step("undo"), step("undo")] == ["2", "1"]
    own("restore_workspace", chat_id="new", manifest="HEAD~1")
    assert not redoable()


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("create_branch", {"name": "main"}, "branch_exists"),
    ("create_branch", {"name": "main/x"}, "branch_exists"),
    ("create_branch", {"name": "../x"}, "bad_name"),
    ("create_branch", {"name": ""}, "bad_name"),
    ("rename_branch", {"branch": "idea", "name": "main"}, "branch_exists"),
    ("rename_branch", {"branch": "idea", "name": "a b"}, "bad_name"),
    ("delete_branch", {"branch": "main"}, "active_branch"),
    ("restore_workspace", {"manifest": "idea", "paths": ["b"]}, "unknown_file"),
    (
        "restore_workspace",
        {"manifest": "idea", "paths": ["a.txt"], "keep_files": True},
        "invalid_request",
    ),
    ("restore_workspace", {"manifest": "idea", "branch": "x"}, "invalid_request"),
    ("list_manifests", {"manifest": "idea", "branch": "idea"}, "invalid_request"),
]


def test_a_refused_request_changes_no_branch_and_no_file(operate: Operations) -> None:
    for name, request, code in REFUSED:
        assert operate.error(name, chat_id="c1", **request).code == code, (name, request)

    assert names(operate) == ["idea", "main"]
    assert (operate.workspace("c1") / "a.txt").read_text() == "one\n"


def test_a_chat_continues_from_a_message_with_the_current_files(
    operate: Operations, ids: dict[str, str]
) -> None:
    request = {"chat_id": "c1", "manifest": ids["message"], "keep_files": True}
    done = operate("restore_workspace", **request)

    assert (done["branch"], done["changes"], done["made"]) == ("restore-1", [], True)
    assert operate("get_chat", chat_id="c1")["active_leaf_message_id"] == ids["message"]
    assert (operate.workspace("c1") / "b.txt").exists()
