"""Storage of chats on a git server: the repository of each chat, and the list of chats.

The server cannot list its repositories, so the repository ``covalt.registry`` has a ref for each chat,
``refs/covalt/chats/<id>``.  A chat is pushed before its ref there, and its ref is removed last: a listed chat that has no
description was being deleted.
"""

from __future__ import annotations

import contextlib
import socket
import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from covalt_git.credentials.command import SecretCommand
from covalt_git.credentials.values import SecretStore
from covalt_git.errors import CovaltError
from covalt_git.git_store.server_repository import (
    Move,
    PushRefusedError,
    ServerError,
    ServerRepository,
)
from covalt_git.names import is_id, new_id, suggest_id
from covalt_git.system import atomic_write
from covalt_git.system.node_folder import data_of
from covalt_git.trust import Consents, NotTrustedError, git_storage
from covalt_git.workspaces.storage import REGISTRY

if TYPE_CHECKING:
    from covalt_git.git_store.store import GitStore
    from covalt_git.models.storage_config import GitStorage

CHATS = "refs/covalt/chats/"
_MARK = "refs/covalt/registry"
_LISTS: dict[str, tuple[float, set[str]]] = {}
"""The chats in each list of chats that this process has read, and when it read it."""


@dataclass
class ServerStorage:
    """Storage on a git server.  ``settings`` are those of ``covalt.yaml``."""

    settings: GitStorage

    @property
    def lease_s(self) -> float:
        """The time for which a lease is taken, in seconds."""
        return self.settings.config.lease_s

    @cached_property
    def node(self) -> str:
        """The host name of this machine, and random characters: copies of a disk have the same, two projects do not."""
        file = data_of(self.settings.root) / "node"
        with contextlib.suppress(FileNotFoundError):
            return file.read_text(encoding="utf-8").strip()
        host = suggest_id(socket.gethostname().partition(".")[0]) or "node"
        with contextlib.suppress(FileExistsError):  # another process is first
            atomic_write.create_private(file, f"{host}-{new_id()[-6:]}\n".encode())
        return file.read_text(encoding="utf-8").strip()

    @cached_property
    def _password(self) -> str | None:
        name = self.settings.config.password_name
        if name is None:
            return None
        command = SecretCommand.of(self.settings.root, self.settings.secret_command)
        value = SecretStore.of_this_machine(None if command is None else command.ask).value(name)
        if value is None:
            raise CovaltError(
                f"the secret {name} of storage.password in covalt.yaml is not set",
                hint=f"export {name}=..., or write it into secrets.env",
            )
        return value

    def repository(self, chat_id: str) -> ServerRepository:
        """Return the repository of a chat.

        Raises:
            NotTrustedError: if the user of this machine has not trusted the server.
            CovaltError: if the password is not set.
        """
        config = self.settings.config
        if not self.settings.is_trusted:
            raise NotTrustedError([git_storage(config)], self.settings.root)
        return ServerRepository(config.url_of(chat_id), config.username, self._password)

    def check_trust(self) -> None:
        """Check that the user still trusts the server, for work that began earlier.

        Raises:
            NotTrustedError: if the trust was withdrawn, or a pull has ended it.
        """
        settings = self.settings
        permissions = [git_storage(settings.config)]
        lacking = Consents.of(settings.project).lacking(permissions, strict=False)
        if lacking or not settings.is_trusted:
            raise NotTrustedError(lacking or permissions, settings.root)

    def chat_ids(self, *, most_age_s: float = 0.0) -> set[str]:
        """Return the chats that exist, as of at most ``most_age_s`` seconds ago.

        Raises:
            ServerError: if the server cannot be reached, or ``storage migrate git`` was not performed.
        """
        repository = self.repository(REGISTRY)
        read_at, ids = _LISTS.get(repository.url, (0.0, set()))
        if read_at and time.monotonic() - read_at < most_age_s:
            return ids
        try:
            refs = repository.refs()
        except ServerError as error:
            raise ServerError(
                f"the list of chats cannot be read: {error.message}",
                hint="covalt-git storage check",
            ) from None
        ids = {name for ref in refs if is_id(name := ref.removeprefix(CHATS))}
        _LISTS[repository.url] = time.monotonic(), ids
        return ids

    def create(self, chat_id: str) -> None:
        """Create an empty repository for a chat, unless it exists, or the server creates it when it is pushed to.

        Raises:
            ServerError: if the command fails.
        """
        repository, argv = self.repository(chat_id), self.settings.config.create
        if argv:
            try:
                repository.refs()
            except ServerError:
                repository.create_locally(part.replace("{chat_id}", chat_id) for part in argv)

    def prepare(self, store: GitStore) -> None:
        """Create the list of chats, if it does not exist.

        Raises:
            ServerError: if the server cannot be reached.
            PushRefusedError: if it does not accept the list.
        """
        self.create(REGISTRY)
        registry = self.repository(REGISTRY)
        exists = False
        with contextlib.suppress(
            ServerError
        ):  # a server that creates a repository when it is pushed to
            exists = _MARK in registry.refs()
        if not exists:
            registry.push(store, {_MARK: Move(None, store.write_blob(b"chats of covalt-git\n"))})

    def list_chat(self, chat_id: str, store: GitStore, about: str) -> None:
        """Add a chat to the list, if it is not there; ``about`` is the object id of its description."""
        self._move(chat_id, store, about)

    def unlist_chat(self, chat_id: str, store: GitStore) -> None:
        """Remove a chat from the list, if it is there; ``store`` is any store."""
        self._move(chat_id, store, None)

    def _move(self, chat_id: str, store: GitStore, new: str | None) -> None:
        registry, ref = self.repository(REGISTRY), CHATS + chat_id
        for _ in range(5):
            old = registry.refs().get(ref)
            if (old is None) == (new is None):
                return
            with contextlib.suppress(PushRefusedError):  # another node moved it meanwhile
                registry.push(store, {ref: Move(old, new)})
                return
        raise ServerError(
            f"the list of chats at {registry.url} cannot be changed",
            hint="covalt-git storage check",
        )
