"""Notes of all nodes of a project: small blobs at refs of the repository with the list of chats on the git server.

The server moves a ref only from its expected value, so of any number of nodes that create, replace or remove a note at the same
time, one succeeds.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.git_store.server_repository import Move, PushRefusedError, ServerError
from covalt_git.git_store.store import GitStore
from covalt_git.workspaces.storage import REGISTRY, storage_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from covalt_git.models.project_config import WorkspaceConfig
    from covalt_git.workspaces.storage import ChatRepository

_PUSHES = 4
_FETCHES = 4


class ServerNotes(NamedTuple):
    """The notes in a repository, whose refs begin with a prefix such as ``refs/covalt/spent/``."""

    repository: ChatRepository
    prefix: str

    def ids(self) -> dict[str, str]:
        """Return the names of the notes, with the object ids of their contents.

        Raises:
            ServerError: if the server cannot be reached.
        """
        refs = self.repository.refs()
        return {
            ref.removeprefix(self.prefix): oid
            for ref, oid in refs.items()
            if ref.startswith(self.prefix)
        }

    def contents(self, names: Collection[str]) -> dict[str, bytes]:
        """Return the contents of those notes that exist.

        Raises:
            ServerError: if the server cannot be reached.
        """
        return {name: content for name, (_, content) in self.entries(names).items()}

    def read(self, name: str) -> tuple[str, bytes] | None:
        """Return the object id and the content of a note; None if it does not exist.

        Raises:
            ServerError: if the server cannot be reached.
        """
        return self.entries([name]).get(name)

    def entries(self, names: Collection[str]) -> dict[str, tuple[str, bytes]]:
        """Return the object ids and the contents of those notes that exist.

        Raises:
            ServerError: if the server cannot be reached.
        """
        for number in range(_FETCHES):
            ids = {name: oid for name, oid in self.ids().items() if name in names}
            if not ids:
                return {}
            with _scratch() as store:
                try:
                    refs = {self.prefix + name: oid for name, oid in ids.items()}
                    self.repository.fetch_objects(store, refs)
                except ServerError:  # one was removed meanwhile
                    if number + 1 == _FETCHES:
                        raise
                    continue
                # A ref that moved meanwhile brought another object.
                read = {
                    name: (oid, store.read_blob(oid)) for name, oid in ids.items() if store.has(oid)
                }
                if len(read) == len(ids) or number + 1 == _FETCHES:
                    return read
        return {}

    def create(self, name: str, content: bytes) -> bool:
        """Create a note, unless it exists; return whether it was created.

        The content must differ from that of every other attempt, because git takes an equal one for its own.

        Raises:
            PushRefusedError: if the server refuses such refs.
            ServerError: if the server cannot be reached.
        """
        return self.replace(name, None, content) is not None

    def replace(self, name: str, old: str | None, content: bytes) -> str | None:
        """Replace a note whose object id is ``old``; return the new object id, or None if it has moved.

        Arguments and errors as of :meth:`create`.
        """
        with _scratch() as store:
            oid = store.write_blob(content)
            return oid if self._move(store, name, Move(old, oid)) else None

    def remove(self, name: str, oid: str) -> bool:
        """Remove a note that has this content; return whether it was removed.

        Raises:
            PushRefusedError: if the server refuses to delete refs.
            ServerError: if the server cannot be reached.
        """
        with _scratch() as store:
            return self._move(store, name, Move(oid, None))

    def remove_all(self, ids: Mapping[str, str]) -> None:
        """Remove notes that have these object ids, all of them or none.

        Raises:
            PushRefusedError: if one of them has moved, or the server refuses to delete refs.
            ServerError: if the server cannot be reached.
        """
        with _scratch() as store:
            moves = {self.prefix + name: Move(oid, None) for name, oid in ids.items()}
            self.repository.push(store, moves)

    def _move(self, store: GitStore, name: str, move: Move) -> bool:
        ref = self.prefix + name
        for number in range(_PUSHES):
            try:
                self.repository.push(store, {ref: move})
            except (PushRefusedError, ServerError):
                present = self.ids().get(name)
                # The answer can be lost after the server has accepted.
                if present == move.new:
                    return True
                if present != move.old:
                    return False
                if number + 1 == _PUSHES:
                    raise
            else:
                return True
        return False


def notes_of(config: WorkspaceConfig, prefix: str) -> ServerNotes | None:
    """Return the notes of a project's nodes; None if its chats are on this machine only.

    Raises:
        NotTrustedError: if the user of this machine has not trusted the server.
        CovaltError: if its password is not set.
    """
    repository = storage_of(config).repository(REGISTRY)
    return None if repository is None else ServerNotes(repository, prefix)


@contextmanager
def _scratch() -> Iterator[GitStore]:
    with (
        tempfile.TemporaryDirectory(prefix="covalt-notes-") as folder,
        GitStore.create(Path(folder) / "any.git", durable=False) as store,
    ):
        yield store
