"""Branches and checkout: only what differs is touched, and nothing unsaved is ever overwritten."""

import pytest

from covalt_git.errors import CovaltError
from covalt_git.git_store.objects import BrokenStoreError
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.paths import typed
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.registry import Chats
from covalt_git.workspaces.writing import writing
from tests.workspaces.stores import (
    Layout,
    branch_off,
    checkout,
    git,
    layout_of,
    loose,
    open_chats,
    put,
    save,
    tree_of,
    upload,
)


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

        with pytest.raises(CovaltError) as caught:
            checkout(chat, "idea")
        assert caught.value.code == "in_the_way"
        itself = "'x' is not overwritten, because the file in the workspace is not stored"
        assert caught.value.message.startswith(("'x' is in the way of 'x", itself))
        assert typed(chat.workspace / "x") in caught.value.hint
        assert layout_of(chat.workspace) == before
        assert chat.active_branch() == "main"
        assert not (chat.folder / "switch.json").exists()
        (chat.workspace / "x").unlink()
        checkout(chat, "idea")
        assert chat.active_branch() == "idea"


def test_files_in_a_folder_where_a_file_goes_are_never_removed(chat: ChatStore) -> None:
    put(chat.workspace, {"d": ("file", b"a file here")})
    branch_off(chat, "idea")
    (chat.workspace / "d").unlink()
    put(chat.workspace, {"d/m.py": ("file", b"1"), "d/__pycache__/m.pyc": ("file", b"precious")})
    save(chat)
    before = layout_of(chat.workspace)

    with pytest.raises(CovaltError, match="'d/__pycache__' is in the way of 'd'") as caught:
        checkout(chat, "main")
    assert caught.value.code == "in_the_way"
    assert layout_of(chat.workspace) == before


def test_link_to_a_folder_outside_is_not_followed_when_files_go_below_it(chat: ChatStore) -> None:
    outside = chat.folder.parent / "outside"
    outside.mkdir()
    put(chat.workspace, {"d/x": ("file", b"1"), "k": ("file", b"1")})
    branch_off(chat, "idea")
    (chat.workspace / "d/x").unlink()
    (chat.workspace / "d").rmdir()
    (chat.workspace / "d").symlink_to(outside)

    with pytest.raises(CovaltError) as caught:
        checkout(chat, "main")
    assert caught.value.code == "in_the_way"
    assert list(outside.iterdir()) == []


def pushed(chat: ChatStore, branch: str, entries: bytes) -> str:
    """Put a commit with a tree that no snapshot creates on a branch, without any checks."""
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

    with pytest.raises(CovaltError, match=why) as caught:
        checkout(chat, "evil")
    assert caught.value.code == "unsafe_tree"
    unstored = {path for path in layout_of(chat.folder) if not path.startswith("store.git")}
    assert {path for path in unstored - set(before) if not path.startswith("lock")} == set()
    assert chat.active_branch() == "main"
    assert upload(chat, "b.txt", b"2") == "b.txt"
    assert chat.manifest(commit).source == "push"
    assert len(chat.changes(chat.head(), commit)) == 3


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


def test_folder_that_cannot_be_brought_back_whole_is_not_taken_for_emptied(chat: ChatStore) -> None:
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


def test_files_that_a_user_put_back_after_a_push_are_an_edit(chat: ChatStore) -> None:
    upload(chat, "a.txt", b"1")
    store = chat.folder / "store.git"
    blob = git(store, "hash-object", "-w", "--stdin", given=b"new").strip()
    entries = f"{git(store, 'ls-tree', '-z', 'main')}100644 blob {blob}\tnew.txt\0"
    commit = pushed(chat, "main", entries.encode())
    save(chat)
    (chat.workspace / "new.txt").unlink()

    edit = save(chat)
    assert chat.manifest(edit).parent_id == commit
    assert chat.files(edit).keys() == {"a.txt"}


def test_a_folder_that_loses_its_files_and_stays_is_the_same_folder(chat: ChatStore) -> None:
    put(chat.workspace, {"d/x": ("file", b"x")})
    save(chat)
    branch_off(chat, "empty")
    (chat.workspace / "d" / "x").unlink()
    save(chat)
    checkout(chat, "main")
    folder = chat.workspace / "d"
    folder.chmod(0o700)
    number = folder.stat().st_ino

    checkout(chat, "empty")

    assert layout_of(chat.workspace) == {"d": ("folder", b"")}
    assert (folder.stat().st_ino, folder.stat().st_mode & 0o777) == (number, 0o700)
