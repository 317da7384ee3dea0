"""Migration of chats between this machine and a git server, one chat at a time, verified by object ids.

A chat that was migrated is skipped, so an interrupted migration is repeated.  A ref has the same object id on both sides
only if everything that it reaches is the same, so equal refs are the proof; before a chat leaves the server, all objects of its
copy are read too.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Literal

from covalt_git.errors import CovaltError
from covalt_git.git_store.graph import reachable
from covalt_git.git_store.server_repository import ServerError
from covalt_git.names import LOCAL_USER
from covalt_git.workspaces import node_copy
from covalt_git.workspaces.chat import ABOUT, ChatStore
from covalt_git.workspaces.lease import GONE, REF
from covalt_git.workspaces.lease_holder import LeaseHolder
from covalt_git.workspaces.lock import held
from covalt_git.workspaces.node_copy import Agreed
from covalt_git.workspaces.shared_chats import SharedChats
from covalt_git.workspaces.storage import storage_of
from covalt_git.workspaces.writer import Writer
from covalt_git.workspaces.writing import recover

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.workspaces.registry import Chats
    from covalt_git.workspaces.storage import ChatRepository

Migrated = Literal["migrated", "already there"]


class NotMigratedError(CovaltError):
    """A chat was not migrated, and is unchanged."""

    code = "not_migrated"
    http_status = 409


def to_server(chats: Chats, chat_id: str) -> Migrated:
    """Push a chat of this machine to the git server of the project, whose list of chats exists.

    Raises:
        NotMigratedError: if the server has another chat with this id.
        ChatBusyError: if a process is writing to it.
        ServerError: if the server cannot be reached.
    """
    with _locked(chats, chat_id) as chat:
        is_copy = node_copy.agreed(chat.store.path) is not None
        present = _present(chat)
        # A copy without refs on the server is of a chat that the server has lost, so it is pushed again.
        if is_copy and (ABOUT in present or GONE in present):
            return "already there"
        shared = SharedChats(chats.folder, storage_of(chats.config))
        if not shared.push_chat(chat_id, chat.store):
            # An earlier migration may have pushed it, and ended before it noted that.
            present = _present(chat)
            if _without_lease(present) != node_copy.own_refs(chat.store):
                raise NotMigratedError(
                    f"the git server has another chat {chat_id!r}, or this one with other commits",
                    hint="to keep it: write storage: {type: local} into covalt.yaml, and"
                    f" covalt-git chat export {chat_id} -o FILE; then import it with another id",
                )
            node_copy.fetch(_repository(chat), chat.store, present)
            lease = node_copy.lease_of(chat.store, present)
            node_copy.write_agreed(chat.store.path, Agreed(refs=present, lease=lease))
        _check_equal(chat)
        return "migrated"


def to_this_machine(chats: Chats, chat_id: str) -> Migrated:
    """Take a chat away from the git server, after all of it is on this machine.

    Raises:
        NotMigratedError: if the chat on this machine differs from that on the server.
        BrokenStoreError: if an object is missing.
        ChatBusyError: if another node, or a process of this one, is writing to it.
        ServerError: if the server cannot be reached.
    """
    shared = SharedChats(chats.folder, storage_of(chats.config))
    is_listed = chat_id in ((chats.config.git_storage and shared.storage.chat_ids()) or ())
    if is_listed:
        chats.has(chat_id)  # fetches it
    with _locked(chats, chat_id, recovers=False) as chat:
        store = chat.store
        is_copy = node_copy.agreed(store.path) is not None
        if not is_copy and not is_listed:
            return "already there"
        repository = _repository(chat)
        present = repository.refs()
        if is_copy and ABOUT in present:
            storage = chat.storage
            holder = LeaseHolder(chat, repository, storage.node, storage.lease_s)
            writer = Writer(chat, LOCAL_USER, holder=holder)
            holder.take(writer)
            recover(writer)
            holder.push()
            _check_equal(chat)
            reachable(store, node_copy.own_refs(store).values())
            # First: from here on, no command takes the folder for a copy that may be removed.
            node_copy.forget_agreed(store.path)
            holder.delete()
        elif ABOUT in present:
            if _without_lease(present) != node_copy.own_refs(store):
                raise NotMigratedError(
                    f"the chat {chat_id!r} on this machine differs from that on the git server",
                    hint="to keep it: write storage: {type: local} into covalt.yaml, and"
                    f" covalt-git chat export {chat_id} -o FILE",
                )
            # An earlier migration ended after it had verified the chat.
            lease = node_copy.lease_of(store, present)
            holder = LeaseHolder(chat, repository, chat.storage.node, chat.storage.lease_s)
            holder.resume(Agreed(refs=present, lease=lease))
            holder.delete()
        node_copy.forget_agreed(store.path)
        shared.storage.unlist_chat(chat_id, store)
        return "migrated"


def _present(chat: ChatStore) -> dict[str, str]:
    """Return the refs of a chat on the server; none if its repository does not exist yet."""
    try:
        return _repository(chat).refs()
    except ServerError:
        return {}


def _without_lease(refs: dict[str, str]) -> dict[str, str]:
    return {ref: oid for ref, oid in refs.items() if ref != REF}


@contextlib.contextmanager
def _locked(chats: Chats, chat_id: str, *, recovers: bool = True) -> Iterator[ChatStore]:
    folder = chats.path(chat_id)
    with (
        held(folder, chat_id, timeout_s=5, waiting=None) as handover,
        ChatStore(chat_id, folder, chats.config) as chat,
    ):
        if recovers:
            recover(Writer(chat, LOCAL_USER), unclean=handover.unclean)
        yield chat


def _repository(chat: ChatStore) -> ChatRepository:
    repository = chat.storage.repository(chat.id)
    if repository is None:
        raise CovaltError(
            "storage in covalt.yaml is not a git server",
            hint="write storage: {type: git, url: 'https://.../{chat_id}.git'}",
        )
    return repository


def _check_equal(chat: ChatStore) -> None:
    """Check that the server and the copy have the same refs.

    Raises:
        ServerError: if they differ.
    """
    present = _without_lease(_repository(chat).refs())
    if present != node_copy.own_refs(chat.store):
        raise ServerError(
            f"the git server does not have what was pushed to the chat {chat.id!r}",
            hint="covalt-git storage check",
        )
