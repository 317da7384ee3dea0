"""What the tests and proofs of watched workspaces ask of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.workspaces.stat_cache import StatCache
from covalt_git.workspaces.watches import watch_of
from covalt_git.workspaces.writing import writing
from tests.workspaces.test_stat_cache import settle

if TYPE_CHECKING:
    from covalt_git.workspaces.chats import ChatStore
    from covalt_git.workspaces.snapshot import Snapshot


def come_to_rest(chat: ChatStore) -> None:
    """Look until nothing is so fresh that it is read again, which its own event tells."""
    settle()
    for _ in range(3):
        with writing(chat) as writer:
            writer.save_edits()


def doubtful(chat: ChatStore) -> dict[str, set[str]] | None:
    """Return the names that the next look would be at; None for all."""
    cache = StatCache.beside(chat.workspace, chat.config, chat.store.object_format)
    with watch_of(chat.workspace, cache.settings) as watch:
        assert watch is not None
        return watch.since()


def believed_at(chat: ChatStore, manifest_id: str) -> str | None:
    """Return the tree that is believed to be there if the branch is at a manifest; None for none."""
    cache = StatCache.beside(chat.workspace, chat.config, chat.store.object_format)
    with watch_of(chat.workspace, cache.settings) as watch:
        assert watch is not None
        root = watch.root_at(manifest_id)
        return None if root is None else root.tree


def look(chat: ChatStore) -> Snapshot:
    """Look like somebody who only reads."""
    with chat.looking() as seen:
        return seen
