"""Chats: created completely or not at all, found by their names, and reported if damaged."""

import os
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from covalt_git.conversations.commit_names import resolve
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.git_store.objects import BrokenStoreError
from covalt_git.workspaces.chat import ABOUT
from covalt_git.workspaces.registry import ChatExistsError, Chats, OneChat
from tests.workspaces.stores import dying, fsck, git, loose, open_chats, put, save, upload


@pytest.mark.parametrize("chat_id", ["my_chat", "my-chat"])
def test_ids_that_differ_only_by_dash_and_underscore_are_one(chats: Chats, chat_id: str) -> None:
    chats.new("my-chat").store.close()

    with pytest.raises(ChatExistsError, match="the chat 'my-chat' already exists") as caught:
        chats.new(chat_id)
    assert caught.value.hint == "covalt-git chat show my-chat"
    assert chats.ids() == ["my-chat"]


def test_what_a_killed_new_left_behind_is_no_chat_and_in_nobodys_way(chats: Chats) -> None:
    put(
        chats.folder,
        {
            ".new-0/store.git/HEAD": ("file", b"ref: refs/heads/main\n"),
            ".new-1/workspace": ("folder", b""),
            "half/workspace": ("folder", b""),
            "a file": ("file", b""),
        },
    )

    assert chats.ids() == []
    with chats.new("c1") as chat:
        assert fsck(chat) == ""
    assert chats.ids() == ["c1"]
    assert sorted(path.name for path in chats.folder.iterdir()) == ["a file", "c1", "half"]


def test_folder_in_the_place_of_a_chat_is_kept(chats: Chats) -> None:
    put(chats.folder, {"c1/workspace/precious": ("file", b"1")})

    with pytest.raises(CovaltError):
        chats.new("c1")
    assert (chats.folder / "c1/workspace/precious").read_bytes() == b"1"
    assert [path.name for path in chats.folder.iterdir()] == ["c1"]


# Damage


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


DAMAGES = [
    pytest.param(lambda _: b"", id="empty"),
    pytest.param(cut, id="cut"),
    pytest.param(lambda _: b"\0" * 100, id="zeros"),
    pytest.param(lambda _: b"not compressed", id="garbage"),
    pytest.param(lambda _: zlib.compress(b"blob 3\0abc"), id="another-object"),
    pytest.param(lambda _: zlib.compress(b"commit 3\0abc"), id="another-commit"),
    pytest.param(lambda _: zlib.compress(b"tree 3\0abc"), id="another-tree"),
    pytest.param(lambda _: zlib.compress(b"blob 9\0abc"), id="wrong-size"),
    pytest.param(lambda _: zlib.compress(b"nonsense"), id="no-header"),
    pytest.param(None, id="gone"),
]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", ["commit", "blob"])
def test_damaged_object_is_named_in_plain_words(
    chats: Chats, kind: str, damage: Callable[[bytes], bytes] | None
) -> None:
    with chats.new("c1") as chat:
        put(chat.workspace, {"a": ("file", os.urandom(200))})
        head = save(chat)
        name = {"commit": head, "blob": f"{head}:a"}[kind]
        oid = git(chat.folder / "store.git", "rev-parse", name).strip()
    path = loose(chats.folder / "c1/store.git", oid)
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage(path.read_bytes()))
    with chats.open("c1") as chat:
        with pytest.raises(BrokenStoreError, match=oid) as caught:
            chat.read_file(resolve(chat, "main"), "a")
        assert "\n" not in caught.value.message
        assert chat.branch("main").manifest_id == head


@pytest.mark.parametrize("kind", ["tree", "blob"])
def test_empty_object_that_a_power_cut_left_is_written_again(chats: Chats, kind: str) -> None:
    store = chats.folder / "c1/store.git"
    with chats.new("c1") as chat:
        put(chat.workspace, {"a": ("file", b"1")})
        head = save(chat)
    name = {"tree": f"{head}^{{tree}}", "blob": f"{head}:a"}[kind]
    oid = git(store, "rev-parse", name).strip()
    path = loose(store, oid)
    path.write_bytes(b"")
    (chats.folder / "c1/stat.cache").unlink(missing_ok=True)  # it is of an earlier boot, then
    with chats.as_left("c1") as chat, dying(chat):
        pass
    with chats.open("c1") as chat:
        save(chat)

        assert fsck(chat) == ""


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\0" * 41, id="zeros"),
        pytest.param(b"abc123\n", id="short"),
        pytest.param(b"not an id, and longer than forty characters\n", id="text"),
        pytest.param(b"\xff\xfe\n", id="bytes"),
    ],
)
def test_damaged_branch_is_named_and_never_begun_anew(chats: Chats, content: bytes) -> None:
    with chats.new("c1") as chat:
        upload(chat, "a", b"1")
    (chats.folder / "c1/store.git/refs/heads/main").write_bytes(content)
    with chats.open("c1") as chat:
        uses: list[Callable[[], object]] = [
            chat.branches,
            chat.head,
            lambda: resolve(chat, "main"),
            lambda: upload(chat, "b", b"2"),
        ]
        for use in uses:
            with pytest.raises(BrokenStoreError, match=r"the ref refs/heads/main of .* is damaged"):
                use()
    assert (chats.folder / "c1/store.git/refs/heads/main").read_bytes() == content


NEWER = b"[core]\n\trepositoryformatversion = 9\n"
EXTENDED = b"[core]\n\trepositoryformatversion = 1\n[extensions]\n\tfuture = true\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("HEAD", b"", id="head-empty"),
        pytest.param("HEAD", b"\0" * 30, id="head-zeros"),
        pytest.param("HEAD", b"ref: refs/covalt/chat\n", id="head-elsewhere"),
        pytest.param("HEAD", b"a" * 40 + b"\n", id="head-detached"),
        pytest.param("HEAD", None, id="head-gone"),
        pytest.param("HEAD", b"ref: ", id="head-cut-off"),
        pytest.param("config", b"[[[\n", id="config"),
        pytest.param("config", NEWER, id="version"),
        pytest.param("config", EXTENDED, id="extension"),
    ],
)
def test_damaged_store_is_reported(chats: Chats, name: str, content: bytes | None) -> None:
    with chats.new("c1") as chat:
        upload(chat, "a", b"1")
    path = chats.folder / "c1/store.git" / name
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)

    with pytest.raises(BrokenStoreError):
        chats.open("c1").branches()


def test_an_agent_has_the_chats_that_it_made_and_a_person_all(tmp_path: Path) -> None:
    everybodys = open_chats(tmp_path)
    ones, others = (replace(everybodys, maker=f"agent:{name}") for name in ("one", "other"))
    for chats in (everybodys, ones, others):
        with chats.new() as made:
            assert made.card().made_by == chats.maker

    assert everybodys.ids() == ["c1", "c2", "c3"]
    assert (ones.ids(), others.ids()) == (["c2"], ["c3"])
    assert [ones.has(one) for one in ("c1", "c2", "c3", "c9", "../c2")] == [
        *(False, True, False, False, False)
    ]
    for chat_id in ("c1", "c3", "c9"):
        with pytest.raises(UnknownNameError) as missing:
            ones.open(chat_id)
        assert missing.value.hint.startswith("did you mean 'c2'?")
    with everybodys.open("c1") as first:
        only = replace(ones, only=OneChat("c1", first.card().created_at))
    assert (only.ids(), only.open("c1").id) == (["c1"], "c1")
    with pytest.raises(UnknownNameError):
        only.open("c2")
    assert replace(only, only=OneChat("c1", "2026-11-20T17:24:00.000Z")).ids() == []


def test_a_chat_that_does_not_say_who_made_it_is_no_agents(tmp_path: Path) -> None:
    chats = replace(open_chats(tmp_path), maker="agent:one")
    with chats.new() as chat:
        store = chat.folder / "store.git"
    git(store, "update-ref", ABOUT, git(store, "write-tree").strip())

    assert chats.ids() == []
    assert open_chats(tmp_path).ids() == ["c1"]
