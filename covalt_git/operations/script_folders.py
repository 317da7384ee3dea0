"""Folders of the scripts of imported MCP servers, which an import can grant together with the servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from covalt_git.grants.plans import WantedGrant, requested_grants
from covalt_git.operations.registry import Result, invalid_field
from covalt_git.operations.toolsets import offer
from covalt_git.operations.trust import PermissionRow
from covalt_git.runtime.script_folders import hidden_files

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.operations.context import Context
    from covalt_git.toolsets.toolset import Toolset


class ScriptFolders(Result):
    """An MCP server whose command names files that the sandbox does not show, and the folders that would show them.

    Without ``folders``, an import grants none of them: ``refused`` says why.
    """

    server: str
    paths: tuple[str, ...] = Field(description="The files in these folders that its command names.")
    folders: tuple[str, ...] = Field(
        description="The folders that its program may read if ``script_folders`` names the server."
    )
    refused: tuple[str, ...] = Field(
        description="Why the folders of other files of its command are not offered."
    )
    permissions: tuple[PermissionRow, ...] = Field(
        description="What is trusted with the folders, in place of the permissions with the same ``grant``."
    )


def offered_folders(context: Context, toolset: Toolset) -> tuple[ScriptFolders, ...]:
    """Return the servers of a toolset without a grant whose command names a file that the sandbox does not show."""
    requested = requested_grants(toolset)
    names = {grant.name for grant in requested if grant.kind == "server"}
    servers = toolset.manifest.mcp_servers if toolset.manifest else ()
    rows = []
    for server in servers:
        files = [*hidden_files(toolset, server)] if server.id in names else []
        if not files:
            continue
        offered = [file for file in files if not file.refusal]
        folders = tuple(sorted({str(file.folder) for file in offered}))
        grant = WantedGrant("server", server.id, folders=folders)
        rows.append(
            ScriptFolders(
                server=server.id,
                paths=tuple(str(file.path) for file in offered),
                folders=folders,
                refused=tuple(
                    f"the sandbox does not show {str(file.path)!r}: {file.refusal}"
                    for file in files
                    if file.refusal
                ),
                permissions=offer(context, toolset, [grant]).permissions if folders else (),
            )
        )
    return tuple(rows)


def chosen_folders(
    rows: Iterable[ScriptFolders], servers: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    """Return the folders to grant to servers.

    Raises:
        InvalidRequestError: if no folder is offered for a server.
    """
    folders = {row.server: row.folders for row in rows if row.folders}
    for server in servers:
        if server not in folders:
            raise invalid_field("script_folders", f"no folder is offered for {server!r}")
    return {server: folders[server] for server in servers}


def with_folders(
    permissions: Iterable[PermissionRow], rows: Iterable[ScriptFolders], servers: Iterable[str]
) -> tuple[PermissionRow, ...]:
    """Return the permissions of an import that also grants the folders of the scripts of some servers."""
    replaced = {
        permission.grant: permission
        for row in rows
        if row.server in servers
        for permission in row.permissions
    }
    return tuple(replaced.get(permission.grant, permission) for permission in permissions)
