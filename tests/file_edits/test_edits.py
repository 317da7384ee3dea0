"""Editing one file from outside: on the content that was seen, as one manifest, or not at all."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covalt_git.errors import CovaltError
from covalt_git.file_edits import edits
from covalt_git.git_store.objects import blob_id
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.registry import Chats
from covalt_git.workspaces.writing import writing
from tests.tables import tables
from tests.workspaces.stores import FAST, layout_of, open_chats, put, save, scratch


def edit(chat: ChatStore, path: str, content: bytes, before: bytes | None) -> str:
    """Write a file over the content ``before``; return its blob id."""
    oid = None if before is None else blob_id(before, chat.store.object_format)
    with writing(chat) as writer:
        return edits.edit_file(writer, path, content, before=oid)


@pytest.mark.parametrize(("path", "why"), tables(__file__)["bad_paths"])
def test_a_path_that_no_file_can_have_everywhere_is_refused(
    chat: ChatStore, path: str, why: str
) -> None:
    outside = chat.folder.parent / "outside"
    outside.mkdir()
    put(
        chat.workspace,
        {
            "taken": ("file", b"1"),
            "folder/a": ("file", b"1"),
            "inside": ("link", b"folder"),
            "outside": ("link", os.fsencode(outside)),
        },
    )
    head = save(chat)
    layout = layout_of(chat.folder.parent)
    with pytest.raises(CovaltError, match=why) as caught:
        edit(chat, path, b"evil", None)
    assert caught.value.code == "bad_path"

    assert chat.head() == head
    assert [*outside.iterdir()] == []
    assert layout_of(chat.folder.parent).keys() == layout.keys()


def test_a_link_is_not_edited_and_what_it_leads_to_is_untouched(chat: ChatStore) -> None:
    put(chat.workspace, {"a": ("file", b"1"), "l": ("link", b"a")})
    save(chat)
    with pytest.raises(CovaltError, match="'l' is a link") as caught:
        edit(chat, "l", b"2", b"a")
    assert caught.value.code == "bad_path"

    assert layout_of(chat.workspace) == {"a": ("file", b"1"), "l": ("link", b"a")}


def test_a_file_that_is_not_stored_is_not_written(chats: Chats) -> None:
    config = WorkspaceConfig(durability="fast", max_file_mb=1, ignore=("*.log",))
    with open_chats(chats.folder.parent, config).new("c2") as chat:
        with pytest.raises(CovaltError, match="larger than 1 MiB") as caught:
            edit(chat, "a", b"x" * ((1 << 20) + 1), None)
        assert caught.value.hint == "raise workspace.max_file_mb in covalt.yaml"
        with pytest.raises(CovaltError, match=r"workspace\.ignore"):
            edit(chat, "a.log", b"1", None)

        assert layout_of(chat.workspace) == {}
        assert chat.head() is None


PATHS = st.sampled_from(["a", "d/a", "d/e/a", "b c", "ü"])


@given(edits=st.lists(st.tuples(PATHS, st.binary(max_size=9)), max_size=6))
def test_after_any_edits_the_branch_is_the_folder(edits: list[tuple[str, bytes]]) -> None:
    with scratch() as folder, open_chats(folder, FAST).new("c1") as chat:
        wanted: dict[str, bytes] = {}
        for path, content in edits:
            edit(chat, path, content, wanted.get(path))
            wanted[path] = content

        assert layout_of(chat.workspace) == {path: ("file", text) for path, text in wanted.items()}
        assert {path: chat.read_file(chat.head(), path) for path in wanted} == wanted
        assert chat.files(chat.head()).keys() == wanted.keys()
