"""Workspaces of very many files that are made to hold up each call of their chat."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from covalt_git.git_objects import with_other_ids
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.workspaces import snapshot, spelling
from tests.workspaces.conftest import chat, chats
from tests.workspaces.stores import git_tree, layout_of, tree_of

if TYPE_CHECKING:
    import pytest

    from covalt_git.workspaces.chats import ChatStore

__all__ = ["chat", "chats"]

MANY = 3_000


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
