"""Forms of pages for branches and chats: restore, merge, resolve, rename, fork, delete."""

import pytest

from tests.api_client import Api
from tests.server.visitor import Visitor


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


def folder(api: Api) -> dict[str, str]:
    found = sorted(path for path in api.workspace.rglob("*") if path.is_file())
    return {path.relative_to(api.workspace).as_posix(): path.read_text() for path in found}


def test_files_are_restored_from_the_page_of_a_state_or_of_a_file(
    visitor: Visitor, api: Api
) -> None:
    first = api.write("a.txt", "one\n")["post_manifest_id"]
    api.write("a.txt", "two\n")
    api.write("b.txt", "b\n")

    old = visitor.open(f"/chats/c1/files/a.txt?at={first}")
    page = visitor.send(old.form("/chats/c1/restore"))
    assert page.address == "/chats/c1/files/a.txt"
    assert folder(api) == {"a.txt": "one\n", "b.txt": "b\n"}

    page = visitor.send(visitor.open(f"/chats/c1/states/{first}").form("/chats/c1/restore"))
    assert page.address == "/chats/c1"
    assert folder(api) == {"a.txt": "one\n"}
    newest = visitor.open("/chats/c1/states/HEAD")
    assert "/chats/c1/restore" not in [form.action for form in newest.forms]


def test_a_conflict_is_resolved_before_the_merge(visitor: Visitor, branched: Api) -> None:
    branched.write("a.txt", "main\n")
    page = visitor.open("/chats/c1/merge?branch=idea")
    assert page.link("Show the file on idea") == "/chats/c1/files/a.txt?at=idea"
    assert "<<<<<<< main main ||||||| base one ======= idea >>>>>>> idea" in page.text

    visitor.send(page.form("/chats/c1/merge"), **{"choice:a.txt": "theirs"})

    assert folder(branched) == {"a.txt": "idea\n", "b.txt": "b\n"}


def test_a_chat_is_deleted_only_by_its_id(visitor: Visitor, branched: Api) -> None:
    form = visitor.open("/chats/c1").form("/chats/c1/delete")

    visitor.send(form, confirm="c2")
    assert branched.store.exists()

    page = visitor.send(form, confirm="c1")
    assert page.address == "/chats"
    assert not branched.store.parent.exists()
