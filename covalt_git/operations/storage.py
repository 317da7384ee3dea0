"""Operations on the git server that has the chats of a project."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from covalt_git.errors import CovaltError
from covalt_git.git_store.store import GitStore
from covalt_git.operations.context import Context
from covalt_git.operations.registry import EmptyRequest, Request, Result, operation
from covalt_git.workspaces import migration, server_check
from covalt_git.workspaces.server_storage import ServerStorage

if TYPE_CHECKING:
    from covalt_git.project import Project

_WHAT = "the git server of the chats"


class StorageFinding(Result):
    """Something that the git server must be able to do."""

    what: str
    lacks: str = Field(
        description="What it does instead, and which setting; empty if it is able to."
    )


class StorageChecked(Result):
    """The git server of ``storage`` in ``covalt.yaml``."""

    url: str
    node: str = Field(description="The name of this machine in leases.")
    findings: tuple[StorageFinding, ...]


class MigrateStorage(Request):
    """Request: the storage to which all chats move."""

    to: Literal["git", "local"]


class MigratedChat(Result):
    """A chat, and what became of it; ``error`` is empty unless it was not migrated."""

    chat_id: str
    outcome: Literal["migrated", "already there", "failed"]
    error: str
    hint: str


class StorageMigrated(Result):
    """The chats of the project."""

    chats: tuple[MigratedChat, ...]


@operation(admin=_WHAT, local=True)
def check_storage(context: Context, _: EmptyRequest) -> StorageChecked:
    """Try what the git server must be able to do, with refs that are removed afterwards."""
    storage = _storage(context.project)
    findings = tuple(
        StorageFinding(what=finding.what, lacks=finding.lacks)
        for finding in server_check.findings(storage)
    )
    return StorageChecked(
        url=storage.settings.config.url or "", node=storage.node, findings=findings
    )


@operation(changes=True, admin=_WHAT, local=True)
def migrate_storage(context: Context, request: MigrateStorage) -> StorageMigrated:
    """Move all chats to the git server, or from it to this machine; a chat that fails stays where it is.

    It can be interrupted and repeated.  Moving to this machine takes the chats away from all other nodes.
    """
    storage, chats = _storage(context.project), context.project.chats
    if request.to == "git":
        with (
            tempfile.TemporaryDirectory(prefix="covalt-storage-") as folder,
            GitStore.create(Path(folder) / "any.git", durable=False) as store,
        ):
            storage.prepare(store)
    migrate = migration.to_server if request.to == "git" else migration.to_this_machine
    rows = []
    for chat_id in chats.ids_in_folder() if request.to == "git" else chats.ids():
        error = hint = ""
        outcome: Literal["migrated", "already there", "failed"] = "failed"
        try:
            outcome = migrate(chats, chat_id)
        except CovaltError as problem:
            error, hint = problem.message, problem.hint or ""
        rows.append(MigratedChat(chat_id=chat_id, outcome=outcome, error=error, hint=hint))
    return StorageMigrated(chats=tuple(rows))


def _storage(project: Project) -> ServerStorage:
    settings = project.config.workspace.git_storage
    if settings is None:
        raise CovaltError(
            "the chats are in data/chats only: storage in covalt.yaml is not a git server",
            hint="write storage: {type: git, url: 'https://git.example.com/chats/{chat_id}.git'}",
            code="no_git_storage",
        )
    return ServerStorage(settings)
