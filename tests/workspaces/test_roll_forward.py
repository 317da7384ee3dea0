"""A switch of the folder that a process did not finish: the next writer does, and keeps edits."""

import json
import shutil

import pytest

from covalt_git.errors import CovaltError
from covalt_git.git_store.objects import BrokenStoreError, TreeEntry
from covalt_git.paths import typed
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.folders import Folder
from covalt_git.workspaces.switching import Switch
from covalt_git.workspaces.trees import FolderState, edited
from tests.workspaces.stores import (
    Layout,
    branch_off,
    checkout,
    clear,
    fsck,
    layout_of,
    put,
    save,
    upload,
)

OLD: Layout = {
    "a": ("file", b"old a"),
    "b": ("file", b"same"),
    "c/d": ("file", b"gone later"),
    "f": ("file", b"a file, then a folder"),
    "g/h": ("file", b"a folder, then a file"),
    "k": ("link", b"a"),
    "p": ("file", b"becomes a program"),
    "e": ("folder", b""),
}
NEW: Layout = {
    "a": ("file", b"new a"),
    "b": ("file", b"same"),
    "f/i": ("file", b"below"),
    "g": ("file", b"now a file"),
    "k": ("file", b"no link"),
    "p": ("program", b"becomes a program"),
    "n/o": ("link", b"../a"),
    "z": ("folder", b""),
}
STEPS = ["c/d", "f", "g/h", "e", "a", "f/i", "g", "k", "n/o", "p", "z"]
"""The paths in the order in which a switch from OLD to NEW moves them."""


@pytest.fixture
def half(chat: ChatStore) -> ChatStore:
    """A chat on main (OLD) that has a branch idea (NEW)."""
    put(chat.workspace, OLD)
    branch_off(chat, "idea")
    clear(chat.workspace)
    put(chat.workspace, NEW)
    save(chat)
    checkout(chat, "main")
    return chat


def begin_switch(chat: ChatStore, steps: int) -> None:
    """Leave behind what a process does that is killed after so many files of main to idea."""
    old, new = (chat.branch(name).manifest_id for name in ("main", "idea"))
    journal = {"v": 1, "old": old, "new": new, "head": "refs/heads/idea"}
    (chat.folder / "switch.json").write_text(json.dumps(journal))
    for path in STEPS[:steps]:
        target = chat.workspace / path
        if target.is_symlink() or target.is_file():
            target.unlink()
            parent = target.parent
            if parent != chat.workspace and not any(parent.iterdir()):
                parent.rmdir()
        elif target.is_dir():
            target.rmdir()
        if path in NEW:
            put(chat.workspace, {path: NEW[path]})


EDITS: dict[str, Layout] = {
    "file that is the same": {"b": ("file", b"edited")},
    "file that differs": {"a": ("file", b"edited")},
    "link": {"k": ("link", b"elsewhere")},
    "new file": {"new by hand": ("file", b"mine")},
    "file that goes": {"c/d": ("file", b"edited")},
    "next to a deleted file": {"c/mine": ("file", b"mine")},
    "in an empty folder that goes": {"e/mine": ("file", b"mine")},
}
EARLY_EDITS: dict[str, Layout] = {
    "file where a folder goes": {"f": ("file", b"edited")},
    "file in a folder where a file goes": {"g/h": ("file", b"edited")},
    "new in a folder where a file goes": {"g/mine": ("file", b"mine")},
    "file where a new folder goes": {"n": ("file", b"mine")},
    "link where a new folder goes": {"n": ("link", b"b")},
    "folder where a new link goes": {"n/o/x": ("file", b"mine")},
    "file where an empty folder goes": {"z": ("file", b"mine")},
}
"""Edits that are possible until the switch has put something else in their place."""


@pytest.mark.parametrize(
    ("steps", "edit"),
    [
        *(pytest.param(0, edit, id=f"{name}-0") for name, edit in (EDITS | EARLY_EDITS).items()),
        *(pytest.param(5, edit, id=f"{name}-5") for name, edit in (EDITS | EARLY_EDITS).items()),
        *(pytest.param(len(STEPS), edit, id=f"{name}-all") for name, edit in EDITS.items()),
    ],
)
def test_edit_made_in_a_half_switched_folder_is_kept(
    half: ChatStore, steps: int, edit: Layout
) -> None:
    begin_switch(half, steps)
    ((path, entry),) = edit.items()
    (half.workspace / path).unlink(missing_ok=True)
    put(half.workspace, edit)
    head = save(half)

    assert layout_of(half.workspace)[path] == entry
    assert half.active_branch() == "idea"
    assert path in half.files(head)
    assert fsck(half) == ""
    checkout(half, "main")
    assert layout_of(half.workspace) == OLD
    checkout(half, "idea")
    assert layout_of(half.workspace)[path] == entry


def test_switch_that_finds_head_locked_by_others_changes_nothing(chat: ChatStore) -> None:
    put(chat.workspace, {"a": ("file", b"main")})
    save(chat)
    branch_off(chat, "idea")
    put(chat.workspace, {"a": ("file", b"idea")})
    save(chat)
    lock = chat.store.path / "HEAD.lock"
    lock.write_text("of another git")
    with pytest.raises(BrokenStoreError, match="is locked"):
        checkout(chat, "main")

    assert layout_of(chat.workspace) == {"a": ("file", b"idea")}
    assert not (chat.folder / "switch.json").exists()
    assert lock.read_text() == "of another git"
    lock.unlink()
    checkout(chat, "main")
    assert layout_of(chat.workspace) == {"a": ("file", b"main")}
    assert not lock.exists()


def test_switch_that_keeps_head_needs_no_lock_of_it(chat: ChatStore) -> None:
    upload(chat, "a", b"1")
    lock = chat.store.path / "HEAD.lock"
    lock.write_text("of another git")
    upload(chat, "b", b"2")
    lock.unlink()

    assert layout_of(chat.workspace) == {"a": ("file", b"1"), "b": ("file", b"2")}
    assert save(chat) == chat.head()


def test_journal_that_is_not_ours_is_named_and_nothing_is_touched(chat: ChatStore) -> None:
    upload(chat, "a", b"1")
    (chat.folder / "switch.json").write_text('{"v": 1, "from": "x"}')

    with pytest.raises(CovaltError, match="is not a switch journal") as caught:
        save(chat)
    assert f"rm {typed(chat.folder / 'switch.json')}" in caught.value.hint
    assert layout_of(chat.workspace) == {"a": ("file", b"1")}


def staged_switch(chat: ChatStore, path: str) -> Switch:
    """Stage a switch that brings one link into the workspace."""
    oid = chat.files(chat.branch("idea").manifest_id)["n/o"].oid
    tree = edited(chat.store, None, {path: TreeEntry(b"", 0o120000, oid)})
    switch = Switch(chat, FolderState(), FolderState(tree))
    staging = chat.folder / "staging-1"
    staging.mkdir()
    switch.stage(staging)
    return switch


def test_a_folder_created_during_staging_is_not_replaced(half: ChatStore) -> None:
    switch = staged_switch(half, "n/o")
    put(half.workspace, {"n/mine": ("file", b"mine")})

    with Folder.opened(half.workspace) as root:
        switch.place(root)
    assert layout_of(half.workspace) == {
        **OLD,
        "n/mine": ("file", b"mine"),
        "n/o": ("link", b"../a"),
    }


@pytest.mark.parametrize("comes", ["file", "link"])
def test_what_takes_the_place_of_a_folder_at_that_moment_is_somebodys_edit(
    chat: ChatStore, monkeypatch: pytest.MonkeyPatch, comes: str
) -> None:
    put(chat.workspace, {"kept": ("file", b"x"), "d/e": ("folder", b"")})
    save(chat)
    branch_off(chat, "idea")
    shutil.rmtree(chat.workspace / "d")
    put(chat.workspace, {"d/goes": ("file", b"idea")})
    save(chat)
    state, seen = Folder.state, list[str]()

    def then(folder: Folder, path: str, object_format: str) -> object:
        found = state(folder, path, object_format)
        if not seen and path.startswith("d/"):
            seen.append(path)
            shutil.rmtree(chat.workspace / "d", ignore_errors=True)
            put(chat.workspace, {"d": (comes, b"kept")})
        return found

    monkeypatch.setattr(Folder, "state", then)
    checkout(chat, "main")

    assert len(seen) == 1
    assert chat.active_branch() == "main"
    assert layout_of(chat.workspace) == {"kept": ("file", b"x"), "d": (comes, b"kept")}
    monkeypatch.undo()
    assert chat.read_file(save(chat), "d") == b"kept"
