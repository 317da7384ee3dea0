"""What people do to branches and chats in pages: restore, merge, decide, rename, fork, delete."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.api_client import Api
from tests.server.visitor import Page, Visitor


@pytest.fixture
def visitor(root: Path) -> Visitor:
    return Visitor.of(root)


@pytest.fixture
def branched(api: Api) -> Api:
    """A chat with a.txt on main, and on the branch idea another a.txt and a b.txt."""
    api.write("a.txt", "one\n")
    api.post("create_branch", chat_id="c1", name="idea")
    api.post("switch_branch", chat_id="c1", branch="idea")
    api.write("a.txt", "idea\n")
    api.write("b.txt", "b\n")
    api.post("switch_branch", chat_id="c1", branch="main")
    return api


def names(api: Api) -> list[str]:
    return [one["name"] for one in api.get("list_branches", chat_id="c1")["branches"]]


def folder(api: Api) -> dict[str, str]:
    found = sorted(path for path in api.workspace.rglob("*") if path.is_file())
    return {path.relative_to(api.workspace).as_posix(): path.read_text() for path in found}


def merge_page(visitor: Visitor, branch: str = "idea") -> Page:
    return visitor.open(f"/chats/c1/merge?branch={branch}")


def test_all_files_are_restored_from_the_page_of_a_state(visitor: Visitor, api: Api) -> None:
    first = api.write("a.txt", "one\n")["post_manifest_id"]
    api.write("a.txt", "two\n")
    api.write("b.txt", "b\n")

    page = visitor.send(visitor.open(f"/chats/c1/states/{first}").form("/chats/c1/restore"))

    assert page.address == "/chats/c1"
    assert "Restored" in page.text
    assert folder(api) == {"a.txt": "one\n"}


def test_one_file_is_restored_from_its_page(visitor: Visitor, api: Api) -> None:
    first = api.write("a.txt", "one\n")["post_manifest_id"]
    api.write("a.txt", "two\n")
    api.write("b.txt", "b\n")

    old = visitor.open(f"/chats/c1/files/a.txt?at={first}")
    page = visitor.send(old.form("/chats/c1/restore"))

    assert page.address == "/chats/c1/files/a.txt"
    assert folder(api) == {"a.txt": "one\n", "b.txt": "b\n"}


def test_the_newest_state_has_nothing_to_restore(visitor: Visitor, api: Api) -> None:
    api.write("a.txt", "one\n")

    assert "Restore" not in visitor.open("/chats/c1/states/HEAD").text


def test_a_branch_that_only_went_on_is_merged_by_moving_on(visitor: Visitor, branched: Api) -> None:
    page = merge_page(visitor)
    assert "main has nothing of its own" in page.text

    done = visitor.send(page.form("/chats/c1/merge"))

    assert "Moved on" in done.text
    assert folder(branched) == {"a.txt": "idea\n", "b.txt": "b\n"}


def test_a_merge_without_conflicts_has_two_parents(visitor: Visitor, branched: Api) -> None:
    branched.write("c.txt", "c\n")

    done = visitor.send(merge_page(visitor).form("/chats/c1/merge"))

    assert "Merged." in done.text
    assert folder(branched) == {"a.txt": "idea\n", "b.txt": "b\n", "c.txt": "c\n"}
    head = branched.get("get_workspace_manifest", chat_id="c1")
    assert len(head["parents"]) == 2


def test_a_conflict_is_shown_and_decided_before_anything_is_merged(
    visitor: Visitor, branched: Api
) -> None:
    branched.write("a.txt", "main\n")
    page = merge_page(visitor)
    assert "1 conflict to decide" in page.text
    assert page.link("on idea") == "/chats/c1/files/a.txt?at=idea"

    visitor.send(page.form("/chats/c1/merge"), **{"choice:a.txt": "theirs"})

    assert folder(branched) == {"a.txt": "idea\n", "b.txt": "b\n"}


def test_a_conflict_can_be_left_with_both_versions_and_decided_later(
    visitor: Visitor, branched: Api
) -> None:
    branched.write("a.txt", "main\n")
    waiting = visitor.send(merge_page(visitor).form("/chats/c1/merge"), **{"choice:a.txt": "both"})
    assert waiting.address == "/chats/c1/conflicts"
    assert "Conflicts to decide" in waiting.text
    assert set(folder(branched).values()) == {"main\n", "idea\n", "b\n"}
    assert "1 conflict of a merge to decide" in visitor.open("/chats/c1").text

    done = visitor.send(waiting.form("/chats/c1/conflicts"), "Take the other")

    assert "Decided." in done.text
    assert folder(branched) == {"a.txt": "idea\n", "b.txt": "b\n"}


def test_what_was_merged_already_has_nothing_to_merge(visitor: Visitor, branched: Api) -> None:
    branched.post("merge_branch", chat_id="c1", branch="idea")

    assert "There is nothing to merge" in merge_page(visitor).text


def test_a_branch_is_renamed_and_deleted(visitor: Visitor, branched: Api) -> None:
    form = visitor.open("/chats/c1").form("/chats/c1/branches/rename")
    visitor.send(form, branch="idea", name="better")
    assert names(branched) == ["better", "main"]

    form.action = "/chats/c1/branches/delete"
    refused = visitor.send(form, branch="better", name="")
    assert refused.status == 409
    assert names(branched) == ["better", "main"]

    visitor.send(form, branch="better", name="", force="on")
    assert names(branched) == ["main"]


def test_a_chat_is_forked(visitor: Visitor, branched: Api) -> None:
    page = visitor.send(visitor.open("/chats/c1").form("/chats/c1/fork"), title="Another way")

    assert page.address == "/chats/c2"
    assert page.title.startswith("Another way")
    assert (branched.root / "data/chats/c2/workspace/a.txt").read_text() == "one\n"


def test_a_chat_is_deleted_only_when_its_id_was_typed(visitor: Visitor, branched: Api) -> None:
    form = visitor.open("/chats/c1").form("/chats/c1/delete")

    assert "Nothing was deleted" in visitor.send(form, confirm="c2").text
    assert branched.store.exists()

    page = visitor.send(form, confirm="c1")
    assert page.address == "/chats"
    assert not branched.store.parent.exists()
