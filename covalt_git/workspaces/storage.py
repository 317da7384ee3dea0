"""Where chats are stored, behind one interface: ``local`` in ``data/chats`` only, or ``git`` on a git server.

Only this package knows which one a project has.  With a git server, a project has several nodes: machines with a clone of
the project.  The ``data/chats`` of a node is a copy (:mod:`.node_copy`), and a node writes to a chat under its lease
(:mod:`.lease_holder`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from covalt_git.git_store.server_repository import Move
    from covalt_git.git_store.store import GitStore
    from covalt_git.models.project_config import WorkspaceConfig


COPY = "server-refs"
"""File of a store that is a copy of a repository on a git server: the refs that the server had (:mod:`.node_copy`)."""


REGISTRY = "covalt.registry"
"""Name of the repository with the list of chats; no id of a chat has a dot."""


class ChatRepository(Protocol):
    """The repository of one chat on a server."""

    def refs(self) -> dict[str, str]:
        """Return its refs with their object ids."""

    def fetch_objects(self, store: GitStore, refs: Mapping[str, str]) -> None:
        """Fetch the objects into a store that refs had a moment ago."""

    def push(
        self, store: GitStore, moves: Mapping[str, Move], *, known: Collection[str] = ()
    ) -> None:
        """Move refs from their expected old values to new ones, all or none of them; the server has what is ``known``."""


class Storage(Protocol):
    """Where chats are stored: the list of chats, and the repository of each."""

    @property
    def node(self) -> str:
        """The name of this node in leases."""

    @property
    def lease_s(self) -> float:
        """The time for which a lease is taken, in seconds."""

    def chat_ids(self, *, most_age_s: float = 0.0) -> set[str] | None:
        """Return the chats that exist, as of at most ``most_age_s`` seconds ago; None if ``data/chats`` decides."""

    def check_trust(self) -> None:
        """Check that the user still trusts the server, for work that began earlier."""

    def repository(self, chat_id: str) -> ChatRepository | None:
        """Return the repository of a chat on the server; None if there is no server."""

    def create(self, chat_id: str) -> None:
        """Create an empty repository for a chat, unless it exists."""

    def list_chat(self, chat_id: str, store: GitStore, about: str) -> None:
        """Add a chat to the list, if it is not there; ``about`` is the object id of its description."""

    def unlist_chat(self, chat_id: str, store: GitStore) -> None:
        """Remove a chat from the list, if it is there."""


class LocalStorage:
    """Storage in ``data/chats`` only."""

    node = ""
    lease_s = 0.0

    def chat_ids(self, *, most_age_s: float = 0.0) -> None:
        """Return None: the folders in ``data/chats`` decide."""

    def check_trust(self) -> None:
        """Do nothing."""

    def repository(self, _chat_id: str) -> None:
        """Return None."""

    def create(self, _chat_id: str) -> None:
        """Do nothing."""

    def list_chat(self, _chat_id: str, _store: GitStore, _about: str) -> None:
        """Do nothing."""

    def unlist_chat(self, _chat_id: str, _store: GitStore) -> None:
        """Do nothing."""


LOCAL = LocalStorage()


def storage_of(config: WorkspaceConfig) -> Storage:
    """Return the storage of the chats that have a configuration."""
    settings = config.git_storage
    if settings is None:
        return LOCAL
    from covalt_git.workspaces.server_storage import ServerStorage  # noqa: PLC0415 - of few projects

    return ServerStorage(settings)
