"""Checks that an HTTP tool or the MCP server of a tool was granted, before anything of it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.access.grants import GrantNeededError, granted
from covalt_git.errors import CovaltError
from covalt_git.hosts import origin_of
from covalt_git.models.http_placement import secrets_of
from covalt_git.models.toolset_state import ProcessGrant, ServerGrant
from covalt_git.runtime import sandbox_levels
from covalt_git.templating.url_templates import UrlTemplate

if TYPE_CHECKING:
    from covalt_git.models.calls import SandboxLevel
    from covalt_git.models.tool import Tool
    from covalt_git.models.toolset_manifest import McpServer
    from covalt_git.models.toolset_state import ToolsetState
    from covalt_git.toolsets.toolset import Toolset

_OF_SERVERS = (ProcessGrant, ServerGrant)


class NoServerError(CovaltError):
    """A toolset declares no such MCP server, or has it switched off."""

    code = "no_server"
    http_status = 409


def check_runnable(tool: Tool, state: ToolsetState, *, at: SandboxLevel | None = None) -> None:
    """Check the grants of a tool and the sandbox level, by default the strongest of this machine.

    Raises:
        GrantNeededError: when the host or a secret of an HTTP tool is not granted, or when the MCP server
            of a tool has no grant at all; :func:`.preconditions.check_found` compares the grant with the server.
        SandboxNeededError: when an imported toolset needs a stronger sandbox for its Python.
    """
    if tool.kind == "http":
        check_http_grants(tool, state)
        return
    if tool.kind == "mcp":
        check_server_has_grant(tool, state)
        return
    sandbox_levels.check_trust(tool.toolset_id, state, digest=tool.toolset_digest, at=at)


def check_http_grants(tool: Tool, state: ToolsetState) -> None:
    """Make sure that an HTTP tool's host was granted, and each secret that it cannot do without.

    If the host comes from a secret or a variable, the call itself checks it.

    Raises:
        GrantNeededError: with everything that lacks a grant, and the commands that grant it.
    """
    assert tool.http is not None
    template = UrlTemplate.parse(tool.http.url)
    if template.base is not None:
        return
    may = granted(tool.toolset_id, state, tool.toolset_digest, tool)
    origin, _ = origin_of(template.begins)
    names = {one.name: None for one in secrets_of(tool.http) if one.default is None}
    may.check_request(origin, names)


def server_of(toolset: Toolset, server_id: str | None) -> McpServer:
    """Return a server that is on.

    Raises:
        NoServerError: when the toolset has no such server that is enabled.
    """
    servers = toolset.manifest.mcp_servers if toolset.manifest else ()
    found = next((one for one in servers if one.id == server_id and one.enabled), None)
    if found is None:
        raise NoServerError(
            f"the toolset {toolset.id!r} has no MCP server {server_id!r} that is on"
        )
    return found


def check_server_has_grant(tool: Tool, state: ToolsetState) -> None:
    """Make sure that a tool's server was granted, whatever it was then.

    Raises:
        GrantNeededError: with what says more.
    """
    servers = [one.server for one in state.grants.values() if isinstance(one, _OF_SERVERS)]
    if tool.server not in servers:
        raise GrantNeededError(
            f"the toolset {tool.toolset_id!r} may not use its MCP server {tool.server!r}",
            hint=f"covalt-git grant add {tool.toolset_id} --requested",
        )


def check_server_grant(toolset: Toolset, server: McpServer) -> None:
    """Make sure that a server may be started or used, as it is declared now.

    Raises:
        GrantNeededError: with the command that grants it.
    """
    may = granted(toolset.id, toolset.state, toolset.digest)
    if server.command is None:
        may.check_server(server)
    else:
        may.check_process(server, toolset.files.hashes)
