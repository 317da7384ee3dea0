"""Operations on trust: the permissions of a project that act on this machine, for the local user.

They ask no role: a pull that changes the roles of ``covalt.yaml`` must not take from its user what is decided on
this machine.  They open no project, because one whose ``data/`` is not trusted cannot be opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from covalt_git.credentials.command import SecretCommand, forbid_all
from covalt_git.errors import CovaltError, StaleError
from covalt_git.manifests.machine_folders import check_links
from covalt_git.manifests.project_config import read_config
from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.operations.context import Context
from covalt_git.operations.registry import TRUSTING, EmptyRequest, Request, Result, operation
from covalt_git.toolsets.permissions import permissions_of
from covalt_git.toolsets.toolset import read_toolset
from covalt_git.trust import (
    Consents,
    Permission,
    config_permissions,
    foreign_data,
    own_code,
    trust_folder,
)
from covalt_git.trust.own_data import adopt

if TYPE_CHECKING:
    from pathlib import Path

_SECRET_COMMAND = "secret_command"  # noqa: S105 - a key of covalt.yaml


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
    root = context.root
    return TrustList(
        project=str(root.resolve()),
        permissions=tuple(
            PermissionRow.of_permission(permission, trusted=trusted)
            for permission, trusted in _permissions(root)
        ),
    )


@operation(changes=True, errors=(409,), local=True, decides=TRUSTING)
def trust_project(context: Context, request: TrustProject) -> TrustList:
    """Trust permissions of the project on this machine, exactly as they are now.

    If a reviewed permission no longer exists, nothing is trusted and the error is ``moved``.
    """
    root = context.root
    permissions = _permissions(root)
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
        if _SECRET_COMMAND in permission.fact:
            SecretCommand(root.resolve(), tuple(permission.fact[_SECRET_COMMAND])).allow(
                request.reason
            )
        elif permission.key == foreign_data().key:
            adopt(root, request.reason)
        else:
            Consents.of(root).trust([permission], request.reason)
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
        return TrustList(project=str(root.resolve()), permissions=())


@operation(changes=True, local=True, decides=TRUSTING)
def trust_projects_below(context: Context, request: TrustFolder) -> FolderTrusted:
    """Trust all projects in a folder, whatever they contain, also those that do not exist yet."""
    folder: Path = (context.root / request.folder).resolve()
    trust_folder(folder, request.reason)
    return FolderTrusted(folder=str(folder))


def _permissions(root: Path) -> list[tuple[Permission, bool]]:
    """Return the permissions of ``covalt.yaml`` and of all toolsets, and whether each is trusted.

    The project's own Python tools are one of them if this machine has no sandbox.
    """
    from covalt_git.runtime import sandbox_levels  # noqa: PLC0415 - it loads the runtime

    # Before data/ is created: it may be a link to another folder (tests/security/test_links_of_a_clone.py).
    check_links(root)
    config = read_config(root)
    consents = Consents.of(root)
    permissions = config_permissions(config)
    toolsets = [read_toolset(root, toolset_id) for toolset_id in toolset_ids(root / "toolsets")]
    for toolset in toolsets:
        permissions += permissions_of(toolset, config)
    own_python = any(
        toolset.has_python_tools and not toolset.state.imported for toolset in toolsets
    )
    if own_python and not sandbox_levels.is_sandbox():
        permissions.append(own_code())
    lacking = {part.key: part for part in consents.lacking(permissions)}
    decided = [
        # Of a permission that has grown, the new part is what its user has to review.
        (lacking.get(permission.key, permission), permission.key not in lacking)
        for permission in permissions
    ]
    if not consents.has_own_data():
        decided.insert(0, (foreign_data(), False))
    command = SecretCommand.of(root, config.secret_command)
    if command is not None:
        words = f"covalt.yaml: run {command} for granted secrets"
        # It runs outside of the sandbox, so a trusted folder does not cover it.
        permission = Permission({_SECRET_COMMAND: list(command.argv)}, words)
        decided.append((permission, command.is_allowed))
    # What runs outside of the sandbox comes last, next to the question, however long the list is.
    return sorted(decided, key=lambda row: _runs_programs(row[0]))


def _runs_programs(permission: Permission) -> bool:
    fact = permission.fact
    is_program = fact.get("kind") == "process" and "sandbox" not in fact
    return (
        is_program
        or fact.get("kind") == "unsandboxed"
        or not {
            _SECRET_COMMAND,
            "unsandboxed",
        }.isdisjoint(fact)
    )
