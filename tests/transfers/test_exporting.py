"""An export is one file that stock git reads, the same bytes for the same refs."""

from pathlib import Path

import pytest

from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.git_store.objects import BrokenStoreError
from covalt_git.transfers.exporting import Exported
from covalt_git.workspaces import records
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.writing import writing
from tests.workspaces.stores import (
    add_message,
    branch_off,
    checkout,
    export_to,
    git,
    layout_of,
    open_chats,
    pending_call,
    run_git,
    upload,
)


@pytest.fixture
def full(chat: ChatStore) -> ChatStore:
    """A chat with branches, records, a call that waits and a folder on main."""
    upload(chat, "a.txt", b"a\n" * 5000)
    add_message(chat, "main " * 10_000)
    branch_off(chat, "idea")
    (chat.workspace / "a.txt").write_bytes(b"a\n" * 5000 + b"b\n")
    (chat.workspace / "run").write_text("#!/bin/sh\n")
    (chat.workspace / "run").chmod(0o755)
    (chat.workspace / "link").symlink_to("a.txt")
    add_message(chat, "idea " * 10_000)
    checkout(chat, "main")
    upload(chat, "b.txt", b"b")
    with writing(chat) as writer:
        writer.put_call(pending_call(chat, status="pending"))
    return chat


def test_stock_git_verifies_and_clones_it(full: ChatStore, tmp_path: Path) -> None:
    path = tmp_path / "chat.bundle"
    done = export_to(full, path)

    assert done == Exported(("idea", "main"), done.objects, path.stat().st_size)
    git(full.folder / "store.git", "bundle", "verify", str(path))
    listed = git(tmp_path, "bundle", "list-heads", str(path)).split()[1::2]
    branches = ("refs/heads/idea", "refs/heads/main")
    assert listed == ["HEAD", "refs/covalt/chat", records.REF, *branches]
    git(tmp_path, "clone", "-q", str(path), "copy")
    copy = tmp_path / "copy"
    git(copy, "fetch", "-q", "origin", "refs/covalt/*:refs/covalt/*")
    assert {
        name: what for name, what in layout_of(copy).items() if ".git" not in name
    } == layout_of(full.workspace)
    assert git(copy, "branch", "--show-current").strip() == "main"
    heads = git(full.folder / "store.git", "rev-parse", "main", "idea")
    assert git(copy, "rev-parse", "origin/main", "origin/idea") == heads
    assert run_git(copy, "fsck", "--strict", "--full").stdout == b""
    assert len(git(copy, "ls-tree", "-r", "--name-only", records.REF).split()) == 2


def test_an_export_that_fails_leaves_no_file(full: ChatStore, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError):
        export_to(full, tmp_path / "x", branch="nope")
    with pytest.raises(CovaltError, match="cannot be written: no such file"):
        export_to(full, tmp_path / "nowhere/x")
    head = full.head()
    assert head is not None
    git(full.folder / "store.git", "update-ref", "refs/heads/broken", head)
    store = full.folder / "store.git"
    for pack in (store / "objects/pack").glob("*.pack"):
        pack.chmod(0o644)
        content = bytearray(pack.read_bytes())
        content[40:60] = bytes(20)
        pack.write_bytes(content)
    with (
        full,
        pytest.raises(BrokenStoreError),
        open_chats(full.folder.parents[1]).open("c1") as again,
    ):
        export_to(again, tmp_path / "x")

    assert list(tmp_path.iterdir()) == []
