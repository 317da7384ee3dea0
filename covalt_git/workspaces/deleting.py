"""Deleting a chat: its history, its folder and all that waits in it, for good."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalt_git.git_store import BrokenStoreError
from covalt_git.workspaces import chat_folders
from covalt_git.workspaces.lock import held

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from covalt_git.workspaces.chats import Chats


@dataclass(frozen=True, slots=True)
class Loss:
    """What goes with a chat; ``size`` is what the disk gets back, in bytes, less what forks share.

    ``manifests``, ``branches`` and ``waiting`` calls are None where the store cannot be read.
    """

    manifests: int | None
    branches: int | None
    waiting: int | None
    size: int


def loss(chats: Chats, chat_id: str) -> Loss:
    """Return what would go with a chat.

    Raises:
        UnknownNameError: naming the nearest chat.
    """
    folder = chats.path(chat_id)
    size = _freed(folder)
    try:
        with chats.open(chat_id) as chat:
            born = [branch for branch in chat.branches() if branch.manifest_id is not None]
            return Loss(len(chat.reachable()), len(born), len(chat.calls()), size)
    except BrokenStoreError:
        return Loss(None, None, None, size)


def delete(
    chats: Chats,
    chat_id: str,
    *,
    timeout_s: float = 5,
    waiting: Callable[[str], None] | None = None,
) -> Loss:
    """Delete a chat, even one whose store is damaged; return what went with it.

    It is there with all it has, or nothing of it is seen any more.

    Raises:
        UnknownNameError: naming the nearest chat.
        ChatBusyError: when somebody writes to it, such as a call that runs.
    """
    folder = chats.path(chat_id)
    with held(folder, chat_id, timeout_s=timeout_s, waiting=waiting):
        gone = loss(chats, chat_id)
        chat_folders.remove(folder, durable=chats.config.durability == "full")
    return gone


def _freed(folder: Path) -> int:
    """Return the bytes of the files that no other folder has, too."""
    size = 0
    for top, _, names in os.walk(folder):
        for name in names:
            try:
                status = os.lstat(f"{top}/{name}")
            except FileNotFoundError:
                continue
            if status.st_nlink == 1:
                size += status.st_size
    return size
