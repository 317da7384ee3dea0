"""Uploads: a name that is taken gets a number, and what cannot be stored adds nothing at all."""

import os
import resource

import pytest

from covalt_git.errors import CovaltError
from covalt_git.file_edits import uploads
from covalt_git.file_edits.uploads import NewFile
from covalt_git.models.commit_record import UploadedFile
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.registry import Chats
from covalt_git.workspaces.writer import Writer
from covalt_git.workspaces.writing import writing
from tests.tables import tables
from tests.workspaces.stores import layout_of, open_chats, put, save, tree_of, upload

TABLES = tables(__file__)


NOT_UTF_8 = (os.fsdecode(b"\xff"), "not UTF-8")


TOO_LONG = ("x" * 256, "longer than 255 bytes")


def test_uploads_of_one_call_are_one_manifest_that_says_what_was_renamed(chat: ChatStore) -> None:
    put(chat.workspace, {"a.txt": ("file", b"there"), "d/x": ("file", b"there")})
    with writing(chat) as writer:
        placed = uploads.upload(
            writer,
            [
                NewFile("a.txt", b"one"),
                NewFile("a.txt", b"two"),
                NewFile("a.txt", b"one"),
                NewFile("a.txt", b"there"),
                NewFile("run.sh", b"#!/bin/sh\n", executable=True),
            ],
        )
    manifest = chat.manifest(str(chat.head()))

    assert [(one.path, one.renamed_from) for one in placed] == [
        ("a_1.txt", "a.txt"),
        ("a_2.txt", "a.txt"),
        ("a_1.txt", "a.txt"),
        ("a.txt", None),
        ("run.sh", None),
    ]
    assert [one.source for one in chat.log(manifest.id)] == ["user_upload", "edit"]
    assert manifest.record.upload == tuple(
        UploadedFile(path=one.path, renamed_from=one.renamed_from) for one in placed
    )
    assert tree_of(chat, "main")["run.sh"][0] == "100755"


def test_a_file_that_appears_during_an_upload_is_not_replaced(
    chat: ChatStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_changes = Writer.commit_changes

    def commit_after_an_edit(writer: Writer) -> str | None:
        put(chat.workspace, {"a": ("file", b"a user's")})
        return commit_changes(writer)

    monkeypatch.setattr(Writer, "commit_changes", commit_after_an_edit)
    assert upload(chat, "a", b"uploaded") == "a_1"
    assert layout_of(chat.workspace) == {"a": ("file", b"a user's"), "a_1": ("file", b"uploaded")}


def test_folder_or_link_of_that_name_is_not_replaced(chat: ChatStore) -> None:
    outside = chat.folder.parent / "outside"
    outside.write_bytes(b"precious")
    put(chat.workspace, {"data/x": ("file", b"1"), "l": ("link", str(outside).encode())})

    assert upload(chat, "data", b"2") == "data_1"
    assert upload(chat, "l", b"3") == "l_1"
    assert outside.read_bytes() == b"precious"


@pytest.mark.parametrize(("name", "why"), [*TABLES["refused_names"], NOT_UTF_8, TOO_LONG])
def test_refused_name_adds_nothing(chat: ChatStore, name: str, why: str) -> None:
    upload(chat, "a", b"1")
    head = chat.head()
    with writing(chat) as writer, pytest.raises(CovaltError, match=why):
        uploads.upload(writer, [NewFile("good", b"2"), NewFile(name, b"3")])

    assert layout_of(chat.workspace) == {"a": ("file", b"1")}
    assert chat.head() == head


@pytest.mark.parametrize("folder", TABLES["refused_folders"])
def test_refused_folder_adds_nothing_anywhere(chats: Chats, chat: ChatStore, folder: str) -> None:
    outside = chats.folder.parent / "elsewhere"
    outside.mkdir()
    put(
        chat.workspace,
        {
            "file": ("file", b"1"),
            "real/x": ("file", b"2"),
            "inside": ("link", b"real"),
            "outside": ("link", str(outside).encode()),
            "dangling": ("link", b"nowhere"),
        },
    )
    head = save(chat)
    before = layout_of(chats.folder.parent)

    with writing(chat) as writer, pytest.raises(CovaltError) as caught:
        uploads.upload(writer, [NewFile("evil", b"3")], folder=folder)
    assert caught.value.message
    assert "\n" not in caught.value.message
    after = layout_of(chats.folder.parent)
    assert {path for path in after if "evil" in path} == set()
    assert after.keys() == before.keys()
    assert chat.head() == head


def test_too_large_upload_adds_nothing_and_names_the_setting(chats: Chats) -> None:
    config = WorkspaceConfig(durability="fast", max_file_mb=1)
    with open_chats(chats.folder.parent, config).new("c1") as chat:
        with (
            writing(chat) as writer,
            pytest.raises(CovaltError, match="larger than 1 MiB") as caught,
        ):
            uploads.upload(writer, [NewFile("a", b"1"), NewFile("big", b"x" * ((1 << 20) + 1))])
        assert caught.value.hint == "raise workspace.max_file_mb in covalt.yaml"
        assert layout_of(chat.workspace) == {}
        assert chat.head() is None
        assert upload(chat, "big", b"x" * (1 << 20)) == "big"


def test_upload_that_cannot_be_written_adds_nothing(chat: ChatStore) -> None:
    large = b"x" * (1 << 20)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(large) // 2, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"), writing(chat) as writer:
            uploads.upload(writer, [NewFile("a", b"first"), NewFile("b", large)], folder="new")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert layout_of(chat.workspace) == {}

    assert upload(chat, "b", large, folder="new") == "new/b"
    assert list(chat.folder.glob("staging*")) == []


def test_upload_that_the_project_ignores_is_refused_not_lost(chats: Chats) -> None:
    config = WorkspaceConfig(durability="fast", ignore=("*.log", "node_modules/"))
    with open_chats(chats.folder.parent, config).new("c1") as chat:
        for name, folder in (("a.log", ""), ("a", "node_modules"), ("a", "x/node_modules/y")):
            with pytest.raises(CovaltError, match=r"workspace\.ignore"):
                upload(chat, name, b"1", folder=folder)

        assert layout_of(chat.workspace) == {}
        assert upload(chat, "node_modules", b"a file is no folder") == "node_modules"
