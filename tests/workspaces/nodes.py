"""Nodes of a project whose chats are on a real git server: each has a folder of its own and the same server."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from covalt_git.git_store.store import GitStore
from covalt_git.models.project_config import WorkspaceConfig
from covalt_git.models.storage_config import GitStorage, StorageConfig
from covalt_git.workspaces.chat import ChatStore
from covalt_git.workspaces.lease import SKEW_S
from covalt_git.workspaces.lease_holder import LeaseHolder
from covalt_git.workspaces.registry import Chats
from covalt_git.workspaces.server_storage import ServerStorage
from covalt_git.workspaces.writer import Writer
from covalt_git.workspaces.writing import recover_folder
from tests.workspaces.stores import scratch

LEASE_S = 30
LATER = timedelta(seconds=LEASE_S + 2 * SKEW_S)


def settings(root: Path, url: str, create: tuple[str, ...] = (), **more: Any) -> GitStorage:
    """Return the storage of the node whose project is at ``root``."""
    config = StorageConfig(type="git", url=url, create=create, **{"lease_s": LEASE_S, **more})
    return GitStorage(root, config, (), is_trusted=True, project=root)


def on_files(server: Path) -> tuple[str, tuple[str, ...]]:
    """Return the URL and the command of a server that is a folder of bare repositories."""
    create = ("git", "init", "-q", "--bare", "-b", "main", f"{server}/{{chat_id}}.git")
    return f"file://{server}/{{chat_id}}.git", create


def node(folder: Path, name: str, url: str, create: tuple[str, ...] = (), **more: Any) -> Chats:
    """Return the chats of a node; ``more`` are fields of its storage."""
    root = folder / name
    (root / "data").mkdir(parents=True, exist_ok=True)
    (root / "data" / "node").write_text(f"{name}\n", encoding="utf-8")
    config = WorkspaceConfig(durability="fast").with_git_storage(
        settings(root, url, create, **more)
    )
    return Chats(root / "data" / "chats", config)


def prepare(chats: Chats) -> None:
    """Create the list of chats on the server of a node."""
    storage = chats.config.git_storage
    assert storage is not None
    with scratch() as folder, GitStore.create(folder / "any.git", durable=False) as store:
        ServerStorage(storage).prepare(store)


@contextmanager
def two_nodes() -> Iterator[tuple[Chats, Chats]]:
    """Yield two nodes with a server on files, which has an empty list of chats."""
    with scratch() as folder:
        url, create = on_files(folder / "server")
        nodes = node(folder, "a", url, create), node(folder, "b", url, create)
        prepare(nodes[0])
        yield nodes


def server_git(chats: Chats, chat_id: str, *arguments: str) -> str:
    """Return what stock git prints in a repository of a server on files."""
    storage = chats.config.git_storage
    assert storage is not None
    path = storage.config.url_of(chat_id).removeprefix("file://")
    outcome = subprocess.run(
        ["git", "-C", path, *arguments], capture_output=True, text=True, check=True
    )
    return outcome.stdout


def holder(chat: ChatStore, *, later: timedelta = timedelta()) -> LeaseHolder:
    """Return a holder of a chat's lease, whose clock is later than that of this machine."""
    repository = chat.storage.repository(chat.id)
    assert repository is not None
    return LeaseHolder(
        chat, repository, chat.storage.node, LEASE_S, clock=lambda: datetime.now(UTC) + later
    )


def taken(chat: ChatStore, *, later: timedelta = timedelta()) -> tuple[Writer, LeaseHolder]:
    """Take the lease of a chat, as a process that is paused afterwards; return its writer and the holder."""
    lease_holder = holder(chat, later=later)
    writer = Writer(chat, "local", holder=lease_holder)
    recover_folder(writer, unclean=False)
    lease_holder.take(writer)
    return writer, lease_holder
