"""Which states of a chat changed a file: found by the blob it had in each, along first parents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalt_git.workspaces import trees

if TYPE_CHECKING:
    from covalt_git.models.chats import FileState
    from covalt_git.workspaces.chats import ChatStore

MOST_FOUND = 10
MOST_LOOKED_AT = 100
"""The states that a page names, and those it looks at to find them."""


@dataclass(frozen=True, slots=True)
class FileHistory:
    """The ids of the states that changed a file, newest first; ``whole``: no older one did."""

    states: tuple[str, ...]
    whole: bool


def file_history(chat: ChatStore, manifest_id: str, path: str) -> FileHistory:
    """Return the states that changed a file, among a manifest and the nearest of its ancestors."""
    found: list[str] = []
    looked_at = 0
    oid: str | None = manifest_id
    commit = chat.store.read_commit(manifest_id)
    file = trees.find(chat.store, commit.tree, path)
    while oid is not None and looked_at < MOST_LOOKED_AT and len(found) < MOST_FOUND:
        looked_at += 1
        parent_id = commit.parents[0] if commit.parents else None
        before: FileState | None = None
        if parent_id is not None:
            parent = chat.store.read_commit(parent_id)
            same = parent.tree == commit.tree
            before = file if same else trees.find(chat.store, parent.tree, path)
            commit = parent
        if before != file:
            found.append(oid)
        oid, file = parent_id, before
    return FileHistory(tuple(found), whole=oid is None)
