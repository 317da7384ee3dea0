"""Chats of a project whose storage is a git server: their list, creation and deletion, and first copies on other nodes."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.git_store.server_repository import Move, PushRefusedError, ServerError
from covalt_git.names import LOCAL_USER, is_id
from covalt_git.workspaces import lease as leases
from covalt_git.workspaces import node_copy
from covalt_git.workspaces.chat import ABOUT, write_stored
from covalt_git.workspaces.lease import REF
from covalt_git.workspaces.lease_holder import LeaseHolder
from covalt_git.workspaces.node_copy import Agreed
from covalt_git.workspaces.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from covalt_git.git_store.store import GitStore
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.storage import ChatRepository, Storage

_SHA1_DIGITS = 40
_FETCHES = 10


class SharedChats(NamedTuple):
    """The chats on the git server of ``storage``, of which ``folder`` has copies."""

    folder: Path
    storage: Storage

    def names(self, local: Iterable[str], most_age_s: float = 0.0) -> list[str]:
        """Return the chats on the server, and those among the ``local`` folders that were never there.

        Chats that are on this machine only must not look as if they were lost.  The list of the server may have been read
        ``most_age_s`` seconds ago.
        """
        ids = self.storage.chat_ids(most_age_s=most_age_s) or set()
        others = (name for name in local if name not in ids and is_id(name))
        return sorted({*ids, *(name for name in others if not self._is_copy(name))})

    def _is_copy(self, name: str) -> bool:
        return node_copy.agreed(self.folder / name / "store.git") is not None

    def refs_of(self, chat_id: str) -> dict[str, str] | None:
        """Return the refs of a chat on the server; None if it is not listed, or is being deleted."""
        if chat_id not in (self.storage.chat_ids() or ()):
            return None
        refs = self._repository(chat_id).refs()
        return refs if ABOUT in refs else None

    def _repository(self, chat_id: str) -> ChatRepository:
        repository = self.storage.repository(chat_id)
        assert repository is not None  # there is a server
        return repository

    @staticmethod
    def object_format(refs: Mapping[str, str]) -> str:
        """Return the object format of a repository with refs."""
        return "sha1" if len(refs[ABOUT]) == _SHA1_DIGITS else "sha256"

    def fill(self, store: GitStore, chat_id: str, refs: Mapping[str, str]) -> None:
        """Fetch a chat into an empty store, whose refs were ``refs``.

        Raises:
            ServerError: if the server cannot be reached, or the refs move all the time.
        """
        repository = self._repository(chat_id)
        for _ in range(_FETCHES):
            with contextlib.suppress(ServerError):  # a ref was deleted meanwhile
                if node_copy.fetch(repository, store, refs):
                    break
            refs = repository.refs()
        else:
            raise ServerError(f"the chat {chat_id!r} cannot be fetched", hint="try again")
        lease = node_copy.lease_of(store, refs)
        for ref, oid in refs.items():
            if ref != REF:
                store.swap_ref(ref, None, oid)
        if lease is not None:
            store.set_head(lease.head)
        node_copy.write_agreed(store.path, Agreed(refs=dict(refs), lease=lease))
        node_copy.copy_running_call(store)

    def add(self, chat_id: str, store: GitStore, *, unless: Mapping[str, str]) -> bool:
        """Push a new chat and list it; if a chat has the id, return False, and give the store the refs ``unless`` again.

        Raises:
            ServerError: if the server cannot be reached.
            PushRefusedError: if it does not accept the chat.
            CovaltError: if a copy of an earlier chat with the id is in the folder.
        """
        if (path := self.folder / chat_id).exists():
            raise CovaltError(
                f"{path} has a copy of an earlier chat {chat_id!r}",
                hint=f"choose another id, or move it away: mv {path} /tmp/",
                code="chat_exists",
                http_status=409,
            )
        if self.push_chat(chat_id, store):
            return True
        for ref, oid in store.refs("refs/").items():
            if unless.get(ref) != oid:
                store.swap_ref(ref, oid, unless.get(ref))
        return False

    def push_chat(self, chat_id: str, store: GitStore) -> bool:
        """Push a chat that the server does not have, and list it; return False if a chat has the id.

        Raises:
            ServerError: if the server cannot be reached.
            PushRefusedError: if it does not accept the chat.
        """
        self.storage.create(chat_id)
        repository = self._repository(chat_id)
        present: dict[str, str] = {}
        with contextlib.suppress(
            ServerError
        ):  # a server that creates a repository when it is pushed to
            present = repository.refs()
        if ABOUT in present:
            # If its creator died before it listed the chat, the chat is complete all the same.
            repository.fetch_objects(store, {ABOUT: present[ABOUT]})
            self.storage.list_chat(chat_id, store, present[ABOUT])
            return False
        lease = leases.first(store.head(), self.storage.node)
        refs = {**node_copy.own_refs(store), REF: write_stored(store, lease, lease.subject)}
        # What a deleted chat with this id left is replaced.  The push fails if the repository has changed since.
        moves = {
            ref: Move(present.get(ref), refs.get(ref))
            for ref in sorted(refs.keys() | present.keys())
            if refs.get(ref) != present.get(ref)
        }
        try:
            repository.push(store, moves)
        except PushRefusedError:
            if ABOUT in repository.refs():  # another node was faster
                return False
            raise
        node_copy.write_agreed(store.path, Agreed(refs=refs, lease=lease))
        self.storage.list_chat(chat_id, store, refs[ABOUT])
        return True

    def delete(
        self, chat: ChatStore, *, timeout_s: float, waiting: Callable[[str], None] | None
    ) -> None:
        """Delete a chat on the server; the caller holds its lock on this node.

        Raises:
            ChatBusyError: if another node is writing to it.
            ServerError: if the server cannot be reached.
        """
        repository = self._repository(chat.id)
        holder = LeaseHolder(chat, repository, self.storage.node, self.storage.lease_s)
        holder.take(Writer(chat, LOCAL_USER), timeout_s=timeout_s, waiting=waiting)
        holder.delete()
        self.storage.unlist_chat(chat.id, chat.store)
