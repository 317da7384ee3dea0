"""Restoring: any state comes back exactly, as a new state, and nothing is lost by it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.conversations import conversation, messages
from covalt_git.errors import UnknownNameError
from covalt_git.file_edits import restoring
from covalt_git.models.commit_record import MessageRecord
from covalt_git.workspaces.switching import InTheWayError
from covalt_git.workspaces.writing import writing
from tests.examples import examples
from tests.workspaces.stores import (
    Layout,
    as_listed,
    clear,
    fsck,
    layout_of,
    open_chats,
    put,
    save,
    scratch,
    tree_of,
)

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.file_edits.restoring import Restored
    from covalt_git.workspaces.chat import ChatStore

OLD: Layout = {
    "a": ("file", b"old"),
    "b/c": ("file", b"1"),
    "b/d": ("program", b"2"),
    "b/e/f": ("link", b"../c"),
    "g": ("file", b"a file, then a folder"),
    "empty": ("folder", b""),
}
NEW: Layout = {
    "a": ("file", b"new"),
    "b/d": ("file", b"2"),
    "b/h": ("file", b"3"),
    "g/i": ("file", b"4"),
    "hollow": ("folder", b""),
}


@pytest.fixture
def two(chat: ChatStore) -> ChatStore:
    """A chat that was as OLD and is as NEW."""
    put(chat.workspace, OLD)
    save(chat)
    clear(chat.workspace)
    put(chat.workspace, NEW)
    save(chat)
    return chat


def old(chat: ChatStore) -> str:
    return [manifest.id for manifest in chat.log(chat.branch("main").manifest_id)][-1]


def restore(chat: ChatStore, manifest_id: str, *paths: str) -> Restored:
    with writing(chat) as writer:
        return restoring.restore(writer, manifest_id, paths)


def keep_files(chat: ChatStore, manifest_id: str, branch: str | None = None) -> Restored:
    with writing(chat) as writer:
        return restoring.keep_files(writer, manifest_id, branch=branch)


# All files


def test_what_no_state_holds_stays_and_is_noted(two: ChatStore) -> None:
    (two.workspace / "out").symlink_to("/etc")
    (two.workspace / "__pycache__").mkdir()
    (two.workspace / "__pycache__/x").write_text("1")
    done = restore(two, old(two))
    notes = two.manifest(str(done.manifest_id)).record.workspace

    assert (two.workspace / "out").is_symlink()
    assert (two.workspace / "__pycache__/x").is_file()
    assert [note.path for note in notes.not_stored] == ["out"]


def test_what_stands_in_the_way_is_named_and_nothing_has_changed(two: ChatStore) -> None:
    clear(two.workspace)
    put(two.workspace, {"a": ("file", b"new")})
    (two.workspace / "g").symlink_to("/etc")
    save(two)

    with pytest.raises(InTheWayError, match="'g' is in the way of 'g'"):
        restore(two, old(two))
    assert two.read_file(two.head(), "a") == b"new"
    assert (two.workspace / "a").read_bytes() == b"new"


# Some paths


@pytest.mark.parametrize(
    ("paths", "above", "changed"),
    [
        (["a"], ["a"], ["a"]),
        (["b/"], ["b/"], ["b/c", "b/d", "b/e/f", "b/h"]),
        (["g"], ["g"], ["g", "g/i"]),
        (["b/h"], ["b/h"], ["b/h"]),
        (["a", "./"], [""], ["a", "b/c", "b/d", "b/e/f", "b/h", "g", "g/i"]),
    ],
)
def test_a_path_comes_back_with_all_below_it_and_nothing_else(
    two: ChatStore, paths: list[str], above: list[str], changed: list[str]
) -> None:
    done = restore(two, old(two), *paths)
    expected = {path: it for path, it in NEW.items() if not path.startswith(tuple(above))}
    expected |= {path: it for path, it in OLD.items() if path.startswith(tuple(above))}

    assert layout_of(two.workspace) == expected
    assert sorted(change.path for change in done.changes) == changed
    assert save(two) == done.manifest_id


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        pytest.param("aa", "did you mean 'a'?", id="near"),
        pytest.param("../a", "list them with", id="outside"),
        pytest.param("/a", "list them with", id="absolute"),
        pytest.param("a/x", "list them with", id="below-a-file"),
    ],
)
def test_an_unknown_path_is_told_with_the_nearest(two: ChatStore, path: str, hint: str) -> None:
    head = two.head()

    with pytest.raises(UnknownNameError, match="no file") as caught:
        restore(two, old(two), "a", path)
    assert hint in caught.value.hint
    assert two.head() == head
    assert layout_of(two.workspace) == NEW


# Keeping the files


def test_the_conversation_goes_back_and_the_files_stay(chat: ChatStore) -> None:
    with writing(chat) as writer:
        first = messages.add(writer, MessageRecord(role="user", text="one"))
        messages.add(writer, MessageRecord(role="assistant", text="two"))
    put(chat.workspace, {"mine": ("file", b"typed"), "empty": ("folder", b"")})
    inode = (chat.workspace / "mine").stat().st_ino
    done = keep_files(chat, str(first.manifest_id))

    assert (done.branch, done.changes, chat.active_branch()) == ("restore-1", (), "restore-1")
    assert chat.manifest(str(chat.head())).parents == (first.manifest_id,)
    assert as_listed(chat).active_leaf_message_id == first.message_id
    assert layout_of(chat.workspace).keys() == {"mine", "empty"}
    assert (chat.workspace / "mine").stat().st_ino == inode
    assert tree_of(chat, "restore-1") == tree_of(chat, "main")
    assert save(chat) == done.manifest_id
    assert fsck(chat) == ""


# Naming


# The law


@settings(max_examples=examples(25), deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_every_manifest_of_a_random_history_comes_back_exactly(seed: int) -> None:
    chance = random.Random(seed)
    with scratch() as folder, open_chats(folder).new("c1") as chat:
        shapes: dict[str, Layout] = {}
        for _ in range(12):
            _step(chat, chance)
            shapes[save(chat)] = layout_of(chat.workspace)
        for oid in chance.sample(sorted(shapes), len(shapes)):
            done = restore(chat, oid)

            assert layout_of(chat.workspace) == shapes[oid]
            assert chat.manifest(str(done.manifest_id)).tree_id == chat.manifest(oid).tree_id
            assert save(chat) == done.manifest_id
        assert set(chat.reachable()) >= shapes.keys()
        assert fsck(chat) == ""


def _step(chat: ChatStore, chance: random.Random) -> None:
    """Talk, go back, or work in the folder, at random."""
    found = list(conversation.Conversation.of(chat).messages)
    do = chance.choice(["work", "work", "say", "retry", "edit", "switch", "continue"])
    text = str(chance.random())
    with writing(chat) as writer:
        if do == "work" or (do != "say" and not found):
            _work(chat.workspace, chance)
        elif do == "say":
            messages.add(writer, MessageRecord(role="user", text=text))
        elif do == "retry":
            messages.retry(writer, chance.choice(found))
            _work(chat.workspace, chance)
        elif do == "edit":
            messages.edit(writer, chance.choice(found), text=text)
        elif do == "switch":
            messages.switch(writer, chance.choice(found))
        else:
            messages.continue_from(writer, chance.choice(found))


def _work(folder: Path, chance: random.Random) -> None:
    """Make, change and remove files, folders and links at random."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if chance.random() < 0.3 and (path.is_symlink() or not path.is_dir()):
            path.unlink()
    kinds = ["file", "program", "link", "folder"]
    for name in chance.sample(["a", "b/a", "b/c/d", "e", "e/f", "ü", "a b/-"], 4):
        target = folder / name
        blocked = any(one.is_file() or one.is_symlink() for one in target.parents)
        if not blocked and (target.is_symlink() or not target.is_dir()):
            target.unlink(missing_ok=True)
            content = b"e" if (kind := chance.choice(kinds)) == "link" else chance.randbytes(4)
            put(folder, {name: (kind, content)})
    put(folder, {"last": ("file", chance.randbytes(4))})
