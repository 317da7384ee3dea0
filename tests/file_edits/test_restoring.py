"""Restoring: any state comes back exactly, as a new state, and nothing is lost by it."""

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.conversations import conversation, messages
from covalt_git.file_edits import restoring
from covalt_git.file_edits.restoring import Restored
from covalt_git.models.commit_record import MessageRecord
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.writing import writing
from tests.examples import examples
from tests.workspaces.stores import Layout, clear, fsck, layout_of, open_chats, put, save, scratch

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


# The law


@pytest.mark.requirement("covalt-2.2.materialize")
@settings(max_examples=examples(25), deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_every_manifest_of_a_random_history_comes_back_exactly(seed: int) -> None:
    chance = random.Random(seed)
    with scratch() as folder, open_chats(folder).new("c1") as chat:
        shapes: dict[str, Layout] = {}
        for _ in range(8):
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
    found = list(conversation.Conversation(chat).messages)
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
