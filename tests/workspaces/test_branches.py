"""Branches and checkout: only what differs is touched, and nothing unsaved is ever overwritten."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from covalt_git.conversations.commit_names import resolve
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.git_store import BrokenStoreError
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.names import BadNameError
from covalt_git.paths import typed
from covalt_git.workspaces import branches
from covalt_git.workspaces.branches import BranchExistsError
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.switching import InTheWayError, UnsafeTreeError
from covalt_git.workspaces.writing import writing
from tests.workspaces.stores import (
    Layout,
    branch_off,
    checkout,
    fsck,
    git,
    git_tree,
    layout_of,
    loose,
    open_chats,
    put,
    run_git,
    save,
    tree_of,
    upload,
)

if TYPE_CHECKING:
    from covalt_git.workspaces.registry import Chats


def objects_of(chat: ChatStore) -> set[str]:
    return {str(path) for path in (chat.folder / "store.git" / "objects").rglob("*")}


def test_creating_a_branch_makes_a_ref_and_no_commit(chat: ChatStore) -> None:
    upload(chat, "a.txt", b"1")
    head = chat.head()
    before = objects_of(chat)
    with writing(chat) as writer:
        branches.create(writer, "try/blue", head)

    assert objects_of(chat) == before
    assert git(chat.folder / "store.git", "rev-parse", "refs/heads/try/blue").strip() == head
    assert [(one.name, one.active) for one in chat.branches()] == [
        ("main", True),
        ("try/blue", False),
    ]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        pytest.param("main", BranchExistsError, id="active"),
        pytest.param("idea", BranchExistsError, id="other"),
        pytest.param("idea/two", BranchExistsError, id="below-another"),
        pytest.param("try", BranchExistsError, id="above-another"),
        pytest.param("HEAD", BadNameError, id="head"),
        pytest.param("../x", BadNameError, id="leads-up"),
        pytest.param("a.lock", BadNameError, id="lock"),
        pytest.param("-a", BadNameError, id="option"),
        pytest.param("a b", BadNameError, id="space"),
        pytest.param("", BadNameError, id="empty"),
        pytest.param("@{-1}", BadNameError, id="git-expression"),
    ],
)
def test_branch_that_cannot_be_is_refused(
    chat: ChatStore, name: str, error: type[CovaltError]
) -> None:
    upload(chat, "a.txt", b"1")
    head = chat.head()
    with writing(chat) as writer:
        branches.create(writer, "idea", head)
        branches.create(writer, "try/blue", head)
        before = git(chat.folder / "store.git", "for-each-ref")

        with pytest.raises(error) as caught:
            branches.create(writer, name, head)
    assert caught.value.hint
    assert git(chat.folder / "store.git", "for-each-ref") == before


def test_branch_of_a_chat_in_which_nothing_happened_is_refused(chat: ChatStore) -> None:
    with writing(chat) as writer, pytest.raises(CovaltError, match="no manifest to branch from"):
        branches.create(writer, "idea", writer.commit_changes())


def test_checkout_of_an_unknown_branch_names_the_nearest(chat: ChatStore) -> None:
    upload(chat, "a.txt", b"1")
    branch_off(chat, "blue")

    with pytest.raises(UnknownNameError) as caught:
        checkout(chat, "blu")
    assert caught.value.message == "no branch 'blu'"
    assert "did you mean 'blue'?" in caught.value.hint


def test_checkout_touches_only_what_differs(chat: ChatStore) -> None:
    same = [f"same/{number}.txt" for number in range(5)] + ["run.sh"]
    put(chat.workspace, {path: ("file", path.encode()) for path in same})
    put(chat.workspace, {"changed": ("file", b"1"), "gone/x": ("file", b"2")})
    branch_off(chat, "idea")
    (chat.workspace / "changed").write_bytes(b"one")
    (chat.workspace / "gone/x").unlink()
    put(chat.workspace, {"new/y": ("file", b"3")})
    save(chat)

    def marks() -> dict[str, tuple[int, int, int]]:
        found = [(path, (chat.workspace / path).stat()) for path in same]
        return {path: (one.st_ino, one.st_mtime_ns, one.st_ctime_ns) for path, one in found}

    before = marks()
    changes = checkout(chat, "main")

    assert [(change.path, change.kind) for change in changes] == [
        ("changed", "modified"),
        ("gone/x", "added"),
        ("new/y", "deleted"),
    ]
    assert marks() == before
    assert not (chat.workspace / "new").exists()


def test_checkout_of_the_active_branch_saves_edits_and_moves_nothing(chat: ChatStore) -> None:
    upload(chat, "a.txt", b"1")
    (chat.workspace / "a.txt").write_bytes(b"2")

    assert checkout(chat, "main") == []
    assert chat.read_file(chat.head(), "a.txt") == b"2"
    assert [one.source for one in chat.log(chat.head())] == ["edit", "user_upload"]


def test_checkout_saves_edits_on_the_branch_they_were_made_on(chat: ChatStore) -> None:
    upload(chat, "a.txt", b"1")
    branch_off(chat, "idea")
    (chat.workspace / "a.txt").write_bytes(b"edited on idea")
    put(chat.workspace, {"untracked": ("file", b"new on idea")})
    checkout(chat, "main")

    assert layout_of(chat.workspace) == {"a.txt": ("file", b"1")}
    checkout(chat, "idea")
    assert layout_of(chat.workspace) == {
        "a.txt": ("file", b"edited on idea"),
        "untracked": ("file", b"new on idea"),
    }
    assert fsck(chat) == ""


def test_edit_and_edit_back_make_no_manifest(chat: ChatStore) -> None:
    upload(chat, "a.txt", b"1")
    head = chat.head()
    (chat.workspace / "a.txt").unlink()
    (chat.workspace / "a.txt").write_bytes(b"1")
    os.utime(chat.workspace / "a.txt", (1, 1))

    assert save(chat) == head


def swap_states() -> dict[str, Layout]:
    return {
        "file": {"x": ("file", b"a file")},
        "program": {"x": ("program", b"a file")},
        "link": {"x": ("link", b"z")},
        "folder": {"x/y": ("file", b"in a folder"), "x/d/e": ("link", b"../y")},
        "empty": {"x": ("folder", b"")},
        "empty-inside": {"x/y/w": ("folder", b"")},
        "nothing": {},
    }


SWAPS = [
    pytest.param(old, new, id=f"{old}-to-{new}")
    for old in swap_states()
    for new in swap_states()
    if old != new
]


@pytest.mark.parametrize(("old", "new"), SWAPS)
def test_files_folders_and_links_take_each_others_place(
    chat: ChatStore, old: str, new: str
) -> None:
    always: Layout = {"z": ("file", b"what the link names")}
    put(chat.workspace, always | swap_states()[old])
    branch_off(chat, "idea")
    here = layout_of(chat.workspace)
    for path in sorted(chat.workspace.rglob("x*/**/*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    for path in chat.workspace.glob("x"):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    if (chat.workspace / "x").is_symlink():
        (chat.workspace / "x").unlink()
    put(chat.workspace, swap_states()[new])
    save(chat)
    there = layout_of(chat.workspace)

    assert there == always | swap_states()[new]
    checkout(chat, "main")
    assert layout_of(chat.workspace) == here
    checkout(chat, "idea")
    assert layout_of(chat.workspace) == there
    assert (chat.workspace / "z").read_bytes() == b"what the link names"
    assert fsck(chat) == ""


IN_THE_WAY = [
    pytest.param({"x": ("file", b"")}, id="for-a-file"),
    pytest.param({"x": ("link", b"a")}, id="for-a-link"),
    pytest.param({"x/y": ("file", b"")}, id="for-a-folder"),
    pytest.param({"x": ("folder", b"")}, id="for-an-empty-folder"),
    pytest.param({"x/e": ("folder", b"")}, id="above-an-empty-folder"),
]


@pytest.mark.parametrize("wanted", IN_THE_WAY)
def test_ignored_file_is_never_overwritten(chats: Chats, wanted: Layout) -> None:
    with chats.new("c1") as chat:
        put(chat.workspace, {"a": ("file", b"1")})
        branch_off(chat, "idea")
        put(chat.workspace, wanted | {"b": ("file", b"2")})
        save(chat)
        checkout(chat, "main")
        put(chat.workspace, {"a": ("file", b"edited"), "sub/q": ("file", b"3")})
    config = WorkspaceConfig(durability="fast", ignore=("x",))
    with open_chats(chats.folder.parent, config).open("c1") as chat:
        (chat.workspace / "x").write_bytes(b"precious")
        before = layout_of(chat.workspace)

        with pytest.raises(InTheWayError) as caught:
            checkout(chat, "idea")
        assert caught.value.message.startswith("'x' is in the way of 'x")
        assert typed(chat.workspace / "x") in caught.value.hint
        assert layout_of(chat.workspace) == before
        assert chat.active_branch() == "main"
        assert not (chat.folder / "switch.json").exists()
        (chat.workspace / "x").unlink()
        checkout(chat, "idea")
        assert chat.active_branch() == "idea"


def test_what_lies_in_a_folder_where_a_file_goes_is_never_removed(chat: ChatStore) -> None:
    put(chat.workspace, {"d": ("file", b"a file here")})
    branch_off(chat, "idea")
    (chat.workspace / "d").unlink()
    put(chat.workspace, {"d/m.py": ("file", b"1"), "d/__pycache__/m.pyc": ("file", b"precious")})
    save(chat)
    before = layout_of(chat.workspace)

    with pytest.raises(InTheWayError, match="'d/__pycache__' is in the way of 'd'"):
        checkout(chat, "main")
    assert layout_of(chat.workspace) == before


def test_a_pipe_that_no_state_can_hold_is_in_the_way(chat: ChatStore) -> None:
    put(chat.workspace, {"p": ("file", b"1"), "k": ("file", b"1")})
    branch_off(chat, "idea")
    (chat.workspace / "p").unlink()
    os.mkfifo(chat.workspace / "p")

    with pytest.raises(InTheWayError, match="'p' is in the way of 'p'"):
        checkout(chat, "main")
    assert (chat.workspace / "p").is_fifo()


def test_link_to_a_folder_outside_is_not_followed_when_files_go_below_it(chat: ChatStore) -> None:
    outside = chat.folder.parent / "outside"
    outside.mkdir()
    put(chat.workspace, {"d/x": ("file", b"1"), "k": ("file", b"1")})
    branch_off(chat, "idea")
    (chat.workspace / "d/x").unlink()
    (chat.workspace / "d").rmdir()
    (chat.workspace / "d").symlink_to(outside)

    with pytest.raises(InTheWayError):
        checkout(chat, "main")
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_stock_git_clones_merges_and_checks_the_store(tmp_path: Path, object_format: str) -> None:
    config = WorkspaceConfig.model_validate({"object_format": object_format})
    with open_chats(tmp_path, config).new("c1") as chat:
        put(chat.workspace, {"a.txt": ("file", b"1\n"), "b/c.sh": ("program", b"#!/bin/sh\n")})
        branch_off(chat, "idea")
        put(chat.workspace, {"a.txt": ("file", b"1\n2\n"), "l": ("link", b"a.txt")})
        save(chat)
        store, copy = chat.folder / "store.git", tmp_path / "copy"

        git(tmp_path, "clone", "--quiet", str(store), str(copy))
        assert git(copy, "rev-parse", "--show-object-format").strip() == object_format
        assert git(copy, "status", "--porcelain") == ""
        (copy / ".git").rename(tmp_path / "aside")
        assert layout_of(copy) == layout_of(chat.workspace)
        assert git(store, "log", "--format=%s", "--all").splitlines() == [
            "edit: a.txt, l",
            "edit: a.txt, b/c.sh",
        ]
        assert git(store, "diff", "--stat", "main", "idea").splitlines()[-1].strip() == (
            "2 files changed, 2 insertions(+)"
        )
        assert git(store, "cat-file", "blob", "idea:a.txt") == "1\n2\n"
        assert tree_of(chat, "idea") == git_tree(layout_of(chat.workspace), object_format)
        assert fsck(chat) == ""


def test_our_patch_of_a_change_is_the_one_that_git_prints(chat: ChatStore) -> None:
    put(
        chat.workspace,
        {
            "a.txt": ("file", b"1\n2\n3\n"),
            "gone": ("file", b"x\n"),
            "made-a-link": ("file", b"was a file mode 1\n"),
            "run.sh": ("file", b"#!/bin/sh\n"),
        },
    )
    first = save(chat)
    for path in ("gone", "made-a-link"):
        (chat.workspace / path).unlink()
    put(
        chat.workspace,
        {
            "a.txt": ("program", b"1\ntwo\n3\n old file mode 4\n"),
            "made-a-link": ("link", b"a.txt"),
            "new/n ü": ("file", b"y"),
            "run.sh": ("program", b"#!/bin/sh\n"),
        },
    )
    second = save(chat)
    ours = "".join(chat.patch(change) for change in chat.changes(first, second))
    scratch = chat.folder.parent / "scratch"
    scratch.mkdir()
    git(scratch, "clone", "--quiet", str(chat.folder / "store.git"), ".")
    git(scratch, "reset", "--hard", "--quiet", first)
    git(scratch, "apply", "--index", given=ours.encode())

    assert git(scratch, "write-tree") == git(scratch, "rev-parse", f"{second}^{{tree}}")


def pushed(chat: ChatStore, branch: str, entries: bytes) -> str:
    """Put a commit of a tree that no snapshot makes on a branch, past every check of ours."""
    store = chat.folder / "store.git"
    tree = git(store, "mktree", "-z", "--missing", given=entries).strip()
    commit = git(store, "commit-tree", tree, "-p", "main", "-m", "by hand").strip()
    git(store, "update-ref", f"refs/heads/{branch}", commit)
    return commit


@pytest.mark.parametrize(
    ("mode", "name", "content", "why"),
    [
        pytest.param("120000", b"l", b"/etc/passwd", "link", id="link-outside"),
        pytest.param("120000", b"l", b"../../..", "link", id="link-up"),
        pytest.param("100644", b"a\nb", b"x", "control character", id="line-feed"),
        pytest.param("100644", b"\xff", b"x", "not UTF-8", id="latin-1"),
        pytest.param("160000", b"sub", b"", "neither a file", id="submodule"),
        pytest.param("tree", b"..", b"x", "outside", id="leads-up"),
        pytest.param("tree", b".git", b"x", "git directory", id="git-directory"),
    ],
)
def test_state_of_others_that_is_not_safe_never_comes_into_the_folder(
    chat: ChatStore, mode: str, name: bytes, content: bytes, why: str
) -> None:
    upload(chat, "a.txt", b"1")
    store = chat.folder / "store.git"
    blob = git(store, "hash-object", "-w", "--stdin", given=content).strip()
    if mode == "tree":
        below = f"100644 blob {blob}\tevil\0".encode()
        tree = git(store, "mktree", "-z", given=below).strip()
        entry = f"040000 tree {tree}\t".encode()
    elif mode == "160000":
        entry = f"160000 commit {chat.head()}\t".encode()
    else:
        entry = f"{mode} blob {blob}\t".encode()
    commit = pushed(chat, "evil", entry + name + b"\0")
    before = layout_of(chat.folder)

    with pytest.raises(UnsafeTreeError, match=why):
        checkout(chat, "evil")
    unstored = {path for path in layout_of(chat.folder) if not path.startswith("store.git")}
    assert {path for path in unstored - set(before) if not path.startswith("lock")} <= {"staging"}
    assert chat.active_branch() == "main"
    assert upload(chat, "b.txt", b"2") == "b.txt"
    assert chat.manifest(commit).source == "push"
    assert len(chat.changes(chat.head(), commit)) == 3


def test_a_folder_whose_only_file_gives_way_to_another_stays(chat: ChatStore) -> None:
    put(chat.workspace, {"d/e/old": ("file", b"1"), "x/y/gone": ("file", b"2")})
    branch_off(chat, "idea")
    (chat.workspace / "d/e/old").rename(chat.workspace / "d/e/new")
    shutil.rmtree(chat.workspace / "x")
    put(chat.workspace, {"x": ("file", b"a file now")})
    save(chat)
    inode = (chat.workspace / "d/e").stat().st_ino

    checkout(chat, "main")
    assert layout_of(chat.workspace) == {"d/e/old": ("file", b"1"), "x/y/gone": ("file", b"2")}
    checkout(chat, "idea")
    assert layout_of(chat.workspace) == {"d/e/new": ("file", b"1"), "x": ("file", b"a file now")}
    assert (chat.workspace / "d/e").stat().st_ino == inode


def test_branch_whose_content_is_damaged_is_not_half_checked_out(chat: ChatStore) -> None:
    put(chat.workspace, {"a": ("file", b"1"), "gone": ("file", b"2"), "z": ("file", b"3")})
    branch_off(chat, "idea")
    (chat.workspace / "gone").unlink()
    put(chat.workspace, {"a": ("file", b"one"), "new": ("file", b"n"), "z": ("file", b"three")})
    save(chat)
    oid = tree_of(chat, "idea")["z"][1]
    checkout(chat, "main")
    before = layout_of(chat.workspace)
    inodes = [path.stat().st_ino for path in sorted(chat.workspace.iterdir())]
    loose(chat.folder / "store.git", oid).write_bytes(b"damaged")

    with pytest.raises(BrokenStoreError, match=oid):
        checkout(chat, "idea")
    assert layout_of(chat.workspace) == before
    assert [path.stat().st_ino for path in sorted(chat.workspace.iterdir())] == inodes
    assert chat.active_branch() == "main"
    assert not (chat.folder / "switch.json").exists()
    assert upload(chat, "b", b"goes on") == "b"


def test_folder_that_is_gone_is_brought_back_as_the_branch_has_it(chat: ChatStore) -> None:
    layout: Layout = {"a/b": ("program", b"1"), "l": ("link", b"a/b"), "e/f": ("folder", b"")}
    put(chat.workspace, layout)
    head = save(chat)
    chat.workspace.rename(chat.folder.parent / "moved-away")
    with writing(chat) as writer:
        seen = writer.scan()

        assert writer.commit_changes() == head
    assert layout_of(chat.workspace) == layout
    assert seen.notes.empty_folders == ("e/f",)


def test_folder_that_cannot_be_brought_back_whole_is_not_taken_for_emptied(
    chat: ChatStore,
) -> None:
    put(chat.workspace, {"a": ("file", b"1"), "b": ("file", b"2")})
    head = save(chat)
    oid = tree_of(chat, "main")["b"][1]
    blob = loose(chat.folder / "store.git", oid)
    aside = blob.rename(chat.folder / "aside")
    chat.workspace.rename(chat.folder.parent / "moved-away")
    for _ in range(2):
        with pytest.raises(BrokenStoreError, match=oid):
            save(chat)
    assert chat.head() == head
    aside.rename(blob)

    assert save(chat) == head
    assert layout_of(chat.workspace) == {"a": ("file", b"1"), "b": ("file", b"2")}


def test_something_in_place_of_the_folder_is_never_removed_or_followed(chat: ChatStore) -> None:
    upload(chat, "a", b"1")
    elsewhere = chat.folder.parent / "elsewhere"
    chat.workspace.rename(elsewhere)
    chat.workspace.symlink_to(elsewhere)

    with pytest.raises(CovaltError, match="is not a folder") as caught:
        save(chat)
    assert "mv " in caught.value.hint
    assert chat.workspace.is_symlink()
    chat.workspace.unlink()
    save(chat)
    assert layout_of(chat.workspace) == {"a": ("file", b"1")}


def test_packed_refs_and_objects_are_read_like_loose_ones(chat: ChatStore) -> None:
    upload(chat, "a", b"1")
    branch_off(chat, "idea")
    upload(chat, "b", b"2")
    store = chat.folder / "store.git"
    assert run_git(store, "gc", "--quiet", "--prune=now").returncode == 0
    head = chat.head()
    upload(chat, "c", b"3")
    checkout(chat, "main")

    assert chat.manifest(resolve(chat, "idea")).parent_id == head
    assert layout_of(chat.workspace) == {"a": ("file", b"1")}
    assert fsck(chat) == ""


def moved_by_git(chat: ChatStore) -> str:
    """Move the active branch with stock git alone, to a commit with one more file; return the commit."""
    store = chat.folder / "store.git"
    blob = git(store, "hash-object", "-w", "--stdin", given=b"new").strip()
    entries = (
        git(store, "ls-tree", "-z", "main").encode() + f"100644 blob {blob}\tnew.txt\0".encode()
    )
    return pushed(chat, "main", entries)


def test_the_folder_follows_a_branch_that_git_moved(chat: ChatStore) -> None:
    upload(chat, "a.txt", b"1")
    chat.close()
    commit = moved_by_git(chat)
    with ChatStore("c1", chat.folder, chat.config) as opened:
        assert save(opened) == commit
        assert layout_of(opened.workspace) == {"a.txt": ("file", b"1"), "new.txt": ("file", b"new")}


def test_files_that_a_user_put_back_after_a_push_are_an_edit(chat: ChatStore) -> None:
    upload(chat, "a.txt", b"1")
    commit = moved_by_git(chat)
    save(chat)
    (chat.workspace / "new.txt").unlink()

    edit = save(chat)
    assert chat.manifest(edit).parent_id == commit
    assert chat.files(edit).keys() == {"a.txt"}
