"""Workspaces whose many or huge files would slow down each call or download of their chat."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from covalt_git.file_edits import uploads
from covalt_git.git_store import with_other_ids
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.runtime.http_files import WorkspaceFiles
from covalt_git.workspaces import snapshot, spelling
from covalt_git.workspaces.folders import Folder
from tests.workspaces.conftest import chat, chats
from tests.workspaces.stores import git_tree, layout_of, tree_of

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from covalt_git.workspaces.chats import ChatStore

__all__ = ["chat", "chats"]

MANY = 1_000


def test_many_changed_files_of_a_folder_are_written_at_once(
    chat: ChatStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tool changes all files of a large folder: a change at a time, its tree costs the square."""
    most = 0

    def counted(content: bytes, changes: Any) -> bytes | None:
        nonlocal most
        most = max(most, len(changes))
        return with_other_ids(content, changes)

    monkeypatch.setattr(spelling, "with_other_ids", counted)
    for number in range(MANY):
        (chat.workspace / f"{number}").touch()
    snapshot.take(chat.store, chat.workspace, WorkspaceConfig())
    for number in range(MANY):
        if number % 2:
            (chat.workspace / f"{number}").write_bytes(b"x")
        else:
            os.utime(chat.workspace / f"{number}")

    seen = snapshot.take(chat.store, chat.workspace, WorkspaceConfig())

    chat.store.flush()
    assert seen.tree is not None
    assert most <= spelling._FEW
    assert tree_of(chat, seen.tree) == git_tree(layout_of(chat.workspace))


def test_a_huge_file_of_the_same_name_is_not_read(tmp_path: Path) -> None:
    """A tool leaves a sparse file of 1 TiB under the name of a download, to exhaust the memory."""
    huge = tmp_path / "cat.png"
    huge.touch()
    os.truncate(huge, 1 << 40)

    name = WorkspaceFiles(tmp_path, WorkspaceConfig(), "sha1").save("cat.png", b"cat")

    assert (name, (tmp_path / name).read_bytes()) == ("cat_1.png", b"cat")


class CountingFolder(Folder):
    """A folder that counts how often it is asked whether a name is available."""

    asked = 0

    def is_free(self, path: str) -> bool:
        CountingFolder.asked += 1
        return super().is_free(path)


def test_many_numbered_names_cost_few_lookups(tmp_path: Path) -> None:
    """A tool takes the numbered names of a download, so that each next one tries all of them."""
    (tmp_path / "cat.png").write_bytes(b"other")
    for number in range(1, 2 * MANY):
        (tmp_path / f"cat_{number}.png").touch()

    with CountingFolder.opened(tmp_path) as root:
        upload = uploads.Upload("cat.png", b"cat")
        placing = uploads.place(root, [upload], "", WorkspaceConfig(), "sha1")

    assert list(placing.fresh) == [f"cat_{2 * MANY}.png"]
    assert 0 < CountingFolder.asked < 250
