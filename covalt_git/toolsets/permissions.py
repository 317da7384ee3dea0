"""Permissions of a toolset, and whether the user of this machine has trusted them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from covalt_git.names import REGISTRY_NAMESPACE
from covalt_git.trust import Consents, Permission, own_code, state_permissions, waived

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.models.tool import Tool
    from covalt_git.toolsets.toolset import Toolset


def permissions_of(toolset: Toolset) -> list[Permission]:
    """Return the permissions of a toolset: those of its state file, and the approvals that its manifest waives."""
    permissions = state_permissions(toolset.id, toolset.state)
    if toolset.state.grants:
        permissions += _waived_by_manifest(toolset)
    return permissions


def untrusted_words(toolset: Toolset) -> tuple[str, ...]:
    """Return the permissions of a toolset that the user of this machine has not trusted, as texts."""
    lacking = Consents.of(toolset.root).lacking(permissions_of(toolset))
    return tuple(permission.words for permission in lacking)


def check_trusted(toolset: Toolset, tool: Tool | None = None, *, sandboxed: bool = True) -> None:
    """Check that the user has trusted the permissions of a toolset on this machine.

    All of them are checked, not only those that a call uses: a Python tool decides itself what it uses.

    Args:
        toolset: A toolset of a project.
        tool: The tool that is called, if any; each registered tool has permissions of its own only.
        sandboxed: Whether its code runs in a sandbox; without one, the project's own code needs trust too.

    Raises:
        NotTrustedError: with the permissions that are not trusted.
    """
    permissions = permissions_of(toolset)
    if tool is not None and toolset.id == REGISTRY_NAMESPACE:
        # Only grants of other tools are left out: a grant of a host would act on each registered tool.
        permissions = [
            permission
            for permission in permissions
            if not any(names := _tool_names(permission)) or tool.id.name in names
        ]
    if not sandboxed and not toolset.state.imported:
        permissions.append(own_code())
    Consents.of(toolset.root).check(permissions)


def _tool_names(permission: Permission) -> tuple[Any, Any]:
    return permission.fact.get("tool"), permission.fact.get("waiver")


def _waived_by_manifest(toolset: Toolset) -> Iterator[Permission]:
    """Yield the approvals that the manifest of a toolset of the project waives.

    They need trust if the toolset has grants: a grant outlives a change of this field, so a pull could remove the
    approval of a tool that sends requests.
    """
    if toolset.manifest is None or toolset.state.imported:
        return
    for tool in toolset.manifest.tools:
        if tool.http is not None and tool.requires_confirmation is False:
            yield waived(toolset.id, tool.id)
    for server in toolset.manifest.mcp_servers:
        if server.requires_confirmation is False:
            yield waived(toolset.id, f"{server.id}:*")
