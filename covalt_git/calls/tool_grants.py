"""Checks that an HTTP tool or the MCP server of a tool is granted, before the call runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.access.grants import GrantNeededError, granted
from covalt_git.connections.entry_tokens import ToolsetSignIns
from covalt_git.credentials.values import SecretStore
from covalt_git.errors import CovaltError
from covalt_git.hosts import origin_of
from covalt_git.models.http_placement import secrets_of
from covalt_git.models.toolset_state import ProcessGrant, ServerGrant
from covalt_git.runtime import sandbox_levels
from covalt_git.templating.references import Reference, split
from covalt_git.templating.url_templates import UrlTemplate
from covalt_git.toolsets.permissions import check_servers_trusted

if TYPE_CHECKING:
    from covalt_git.models.calls import SandboxLevel
    from covalt_git.models.tool import Tool
    from covalt_git.models.toolset_manifest import McpServer
    from covalt_git.models.toolset_state import ToolsetState
    from covalt_git.toolsets.toolset import Toolset

_OF_SERVERS = (ProcessGrant, ServerGrant)


def check_runnable(tool: Tool, state: ToolsetState, *, at: SandboxLevel | None = None) -> None:
    """Check the grants of a tool and the sandbox level, by default the strongest of this machine.

    Built-in tools need neither.

    Raises:
        GrantNeededError: if the host or a secret of an HTTP tool is not granted, or if the MCP server
            of a tool has no grant at all; :func:`.preconditions.check_found` compares the grant with the server.
        SandboxNeededError: if an imported toolset needs a stronger sandbox for its Python.
    """
    match tool.kind:
        case "http":
            _check_http_grants(tool, state)
        case "mcp":
            _check_server_has_grant(tool, state)
        case "python":  # the tool that an alias calls is checked itself
            sandbox_levels.check_trust(tool.toolset_id, state, digest=tool.toolset_digest, at=at)


def _check_http_grants(tool: Tool, state: ToolsetState) -> None:
    """Check the host and the required secrets of an HTTP tool; the call checks a host from a secret or variable."""
    assert tool.http is not None
    template = UrlTemplate.parse(tool.http.url)
    # The host comes from a secret or a variable, whose value is only read for the call.
    if template.base is not None:
        return
    may = granted(tool.toolset_id, state, tool.toolset_digest, tool)
    origin, _ = origin_of(template.begins)
    names = {secret.name: None for secret in secrets_of(tool.http) if secret.default is None}
    may.check_request(origin, names)


def check_signed_in(toolset: Toolset, tool: Tool) -> None:
    """Check that the user has the sign-ins of an HTTP tool's request, or a secret that their entries name.

    A token is neither read nor renewed, so that lists stay quick.

    Raises:
        SignInNeededError: with the command that signs in.
        SignInFileError: if a stored sign-in cannot be used.
    """
    if tool.http is None or toolset.manifest is None:
        return
    sign_ins = ToolsetSignIns(toolset.root, toolset.id, toolset.manifest.auth)
    for reference in secrets_of(tool.http):
        entry = sign_ins.entries.get(reference.name)
        if entry is None or reference.default is not None:
            continue
        fallback = [
            piece.name for piece in split(entry.token or "") if isinstance(piece, Reference)
        ]
        store = SecretStore.of_this_machine()
        stored = sign_ins.file(reference.name).read()
        if (stored is None or stored.is_dead) and not any(map(store.value, fallback)):
            raise sign_ins.needed(reference.name)


def server_of(toolset: Toolset, server_id: str | None) -> McpServer:
    """Return an enabled MCP server of a toolset.

    Raises:
        CovaltError: ``no_server``, if the toolset has no enabled server with that id.
    """
    servers = toolset.manifest.mcp_servers if toolset.manifest else ()
    server = next((server for server in servers if server.id == server_id and server.enabled), None)
    if server is None:
        raise CovaltError(
            f"the toolset {toolset.id!r} has no enabled MCP server {server_id!r}",
            code="no_server",
            http_status=409,
        )
    return server


def _check_server_has_grant(tool: Tool, state: ToolsetState) -> None:
    """Check that a tool's server has a grant, even one for an older definition of the server."""
    servers = [grant.server for grant in state.grants.values() if isinstance(grant, _OF_SERVERS)]
    if tool.server not in servers:
        raise GrantNeededError(
            f"the toolset {tool.toolset_id!r} may not use its MCP server {tool.server!r}",
            hint=f"covalt-git grant add {tool.toolset_id} --requested",
        )


def program_level(toolset: Toolset, tool: Tool) -> SandboxLevel | None:
    """Return the sandbox level of the program of a tool's MCP server; None for a server at a URL."""
    servers = toolset.manifest.mcp_servers if toolset.manifest else ()
    may = granted(toolset.id, toolset.state, toolset.digest)
    programs = (
        may.program(server, toolset.files.hashes) for server in servers if server.id == tool.server
    )
    program = next(programs, None)
    if program is None:
        return None
    return "process" if program.confinement is None else sandbox_levels.level()


def check_server_grant(toolset: Toolset, server: McpServer) -> None:
    """Check that a server is granted with its current definition, and trusted on this machine.

    Raises:
        GrantNeededError: with the command that grants it.
        NotTrustedError: if the user of this machine has not trusted it.
    """
    may = granted(toolset.id, toolset.state, toolset.digest)
    may.check_server(server, toolset.files.hashes)
    check_servers_trusted(toolset)
