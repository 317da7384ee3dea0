"""Idempotency keys: ids that callers choose for their calls, so that a repeated call runs only once.

An id belongs to one call: one tool with one set of arguments in one chat.  Calls are found in the index.  If it cannot
be used, the whole history is searched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import CovaltError
from covalt_git.index.chat_queries import ChatQueries
from covalt_git.index.database import IndexUnusableError
from covalt_git.json_values.difference import same
from covalt_git.names import ToolId
from covalt_git.system.node_folder import data_of
from covalt_git.workspaces.chat import DELETED
from covalt_git.workspaces.registry import Chats

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator
    from pathlib import Path

    from covalt_git.json_values import JsonObject
    from covalt_git.models.calls import PendingCall
    from covalt_git.models.chats import WorkspaceManifest
    from covalt_git.models.project_config import WorkspaceConfig
    from covalt_git.workspaces.chat import ChatStore


class IdTakenError(CovaltError):
    """Another call or commit has the id of a call."""

    code = "call_id_taken"
    http_status = 409

    def __init__(self, call_id: str, what: str) -> None:
        super().__init__(
            f"the call id {call_id!r} is already the id of {what}",
            hint="use a new id; only the same call can be repeated with its id",
        )


class IdempotencyKey(NamedTuple):
    """The id that a caller chose, and the only call that may have it."""

    call_id: str
    tool_id: str
    args: JsonObject

    def find_call(
        self, root: Path, config: WorkspaceConfig, chat: ChatStore, *, elsewhere: bool = True
    ) -> WorkspaceManifest | PendingCall | None:
        """Return the call of a chat with the id: finished, pending or running.

        Raises:
            IdTakenError: if it is another call, or, with ``elsewhere``, in another chat of the project at ``root``.
        """
        # Search unfinished calls first: a call is committed before it is removed from them.
        unfinished = chat.call(self.call_id)
        manifest = self._in_history(root, config, chat, elsewhere=elsewhere and unfinished is None)
        recorded = unfinished if manifest is None else manifest.record.call
        if manifest is None and unfinished is None:
            return None
        if recorded is None:
            raise IdTakenError(self.call_id, "a commit that is not a call")
        if recorded.tool_id != str(ToolId.parse(self.tool_id)):
            raise IdTakenError(self.call_id, "a call of another tool")
        # An id with other arguments is a client's bug. To return the earlier result would hide that the new call
        # never ran.
        if not same(recorded.args, self.args):
            raise IdTakenError(self.call_id, "a call with other arguments")
        return manifest or unfinished

    def _in_history(
        self, root: Path, config: WorkspaceConfig, chat: ChatStore, *, elsewhere: bool
    ) -> WorkspaceManifest | None:
        """Return the commit with that id; with ``elsewhere``, check other chats too."""
        try:
            with ChatQueries.open(root, config) as index:
                return self._indexed(index, chat, elsewhere=elsewhere)
        except IndexUnusableError:
            reachable = chat.reachable()
            manifest = self._find_among(chat, [*reachable, *_deleted(chat, reachable)])
            chats = Chats(data_of(root) / "chats", config)
            others = [other for other in chats.ids() if other != chat.id] if elsewhere else []
            if manifest is None and any(self._is_in(chats, other) for other in others):
                raise self._of_another_chat() from None
            return manifest

    def _indexed(
        self, index: ChatQueries, chat: ChatStore, *, elsewhere: bool
    ) -> WorkspaceManifest | None:
        index.sync_chat(chat)
        oid = index.manifest_of_record(chat.id, self.call_id)
        if oid is not None:
            return chat.manifest(oid)
        # The index has no commits of deleted branches, but their calls have run all the same
        # (test_a_call_of_a_deleted_branch_is_found_with_and_without_the_index).
        manifest = self._find_among(chat, _deleted(chat, _Indexed(index, chat.id)))
        if manifest is None and elsewhere:
            index.sync_new_chats()
            chats = index.chats_of_record(self.call_id)
            if any(other != chat.id for other in chats):
                raise self._of_another_chat()
            if chats:  # another process committed it in this chat meanwhile
                return self._indexed(index, chat, elsewhere=False)
        return manifest

    def _find_among(self, chat: ChatStore, oids: Iterable[str]) -> WorkspaceManifest | None:
        for oid in oids:
            # Parse only commits that contain the id.
            if self.call_id in chat.store.read_commit(oid).message:
                manifest = chat.manifest(oid)
                if manifest.record.id == self.call_id:
                    return manifest
        return None

    def _is_in(self, chats: Chats, chat_id: str) -> bool:
        with chats.open(chat_id) as chat:
            return bool(chat.call(self.call_id) or self._find_among(chat, chat.reachable()))

    def _of_another_chat(self) -> IdTakenError:
        return IdTakenError(self.call_id, "a call in another chat")


@dataclass(frozen=True, slots=True)
class _Indexed:
    """The commits of a chat in the index: all except those of deleted branches."""

    index: ChatQueries
    chat_id: str

    def __contains__(self, oid: object) -> bool:
        return self.index.has_manifest(self.chat_id, str(oid))


def _deleted(chat: ChatStore, others: Container[str]) -> Iterator[str]:
    """Yield the commits that only deleted branches reach; ``others`` are the rest."""
    for tip in chat.store.refs(DELETED).values():
        yield from chat.above(tip, without=others)
