"""Operations on trust: the permissions of a project that act on this machine, for the local user.

They ask no role: a pull that changes the roles of ``covalt.yaml`` must not take from its user what is decided on
this machine.  They open no project, because one whose ``data/`` is not trusted cannot be opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from covalt_git.credentials.command import SecretCommand, forbid_all
from covalt_git.errors import CovaltError, StaleError
from covalt_git.operations import project_updates
from covalt_git.operations.context import Context
from covalt_git.operations.project_permissions import SECRET_COMMAND, project_permissions
from covalt_git.operations.registry import TRUSTING, EmptyRequest, Request, Result, operation
from covalt_git.system.node_folder import node_of
from covalt_git.trust import (
    Consents,
    Permission,
    foreign_data,
    trust_folder,
)
from covalt_git.trust.own_data import adopt

if TYPE_CHECKING:
    from pathlib import Path


class TrustProject(Request):
    """Request: the permissions to trust."""

    permissions: tuple[str, ...] | None = Field(
        None, description="Digests of the permissions that the user has reviewed; null: all."
    )
    reason: str | None = Field(
        None, min_length=1, max_length=1000, description="Stored with each permission."
    )


class TrustFolder(Request):
    """Request: a folder whose projects are trusted, whatever they contain."""

    folder: str
    reason: str | None = Field(
        None, min_length=1, max_length=1000, description="Stored with the folder."
    )


class PermissionRow(Result):
    """A permission that the project's files contain."""

    toolset_id: str | None = Field(description="Null for a permission of covalt.yaml.")
    permits: str
    lines: tuple[str, ...] = Field(
        description="What it permits, for a question: calls that may change something are on lines of their own."
    )
    trusted: bool = Field(description="Whether it acts on this machine.")
    digest: str
    grant: str | None = Field(None, description="The key of the grant that gives it.")

    @classmethod
    def of_permission(cls, permission: Permission, *, trusted: bool) -> PermissionRow:
        """Return the row of a permission, which every question about it shows."""
        return cls(
            toolset_id=permission.toolset_id,
            permits=permission.text,
            lines=permission.lines,
            trusted=trusted,
            digest=permission.digest,
            grant=permission.fact.get("grant"),
        )


class TrustList(Result):
    """The permissions of a project, and the folder that is trusted or not."""

    project: str
    permissions: tuple[PermissionRow, ...]


class FolderTrusted(Result):
    """A folder whose projects are trusted."""

    folder: str


@operation(local=True)
def list_permissions(context: Context, _: EmptyRequest) -> TrustList:
    """List the permissions that the project's files contain, and whether each is trusted on this machine."""
    root = project_updates.reviewed_root(context.root)
    return TrustList(
        project=str(node_of(root).resolve()),
        permissions=tuple(
            PermissionRow.of_permission(permission, trusted=trusted)
            for permission, trusted in project_permissions(root)
        ),
    )


@operation(changes=True, errors=(409,), local=True, decides=TRUSTING)
def trust_project(context: Context, request: TrustProject) -> TrustList:
    """Trust permissions of the project on this machine, exactly as they are now.

    If a reviewed permission no longer exists, nothing is trusted and the error is ``moved``.
    """
    root = project_updates.reviewed_root(context.root)
    permissions = project_permissions(root)
    digests = {permission.digest for permission, _ in permissions}
    reviewed = digests if request.permissions is None else set(request.permissions)
    if not reviewed <= digests:
        raise StaleError(
            "the permissions of the project have changed since your review",
            hint="review them again: covalt-git trust",
        )
    for permission, trusted in permissions:
        if trusted or permission.digest not in reviewed:
            continue
        # The user reviewed this permission.  The files may have changed since, so they are not read again.
        if SECRET_COMMAND in permission.fact:
            SecretCommand(node_of(root).resolve(), tuple(permission.fact[SECRET_COMMAND])).allow(
                request.reason
            )
        elif permission.key == foreign_data().key:
            adopt(node_of(root), request.reason)
        else:
            Consents.of(root).trust([permission], request.reason)
    # What was reviewed may be what a new commit of the project waited for.
    project_updates.update_after_trust(node_of(root))
    return list_permissions(context)


@operation(changes=True, local=True)
def distrust_project(context: Context, _: EmptyRequest) -> TrustList:
    """Withdraw the trust in all permissions of the project on this machine."""
    root = context.root
    Consents.of(root).withdraw_all()
    forbid_all(root)
    try:
        return list_permissions(context)
    except CovaltError:
        # The trust is withdrawn, also if the project can no longer be read to list it.
        return TrustList(project=str(node_of(root).resolve()), permissions=())


@operation(changes=True, local=True, decides=TRUSTING)
def trust_projects_below(context: Context, request: TrustFolder) -> FolderTrusted:
    """Trust all projects in a folder, whatever they contain, also those that do not exist yet."""
    folder: Path = (context.root / request.folder).resolve()
    trust_folder(folder, request.reason)
    return FolderTrusted(folder=str(folder))
