"""A toolset's grants as its page shows them: what it asks for beside what is granted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from covalt_git.grants.grants import secret_key, server_key
from covalt_git.hosts import HostRule
from covalt_git.models.server_definition import command_line
from covalt_git.models.toolset_state import NetworkGrant, ProcessGrant, SecretGrant, ServerGrant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.models.toolset_state import Grant
    from covalt_server.api.toolsets import McpServerRow, ToolsetDetail

NETWORK, UNSANDBOXED = "network", "unsandboxed"


@dataclass(frozen=True, slots=True)
class HostRow:
    """A host: whether the toolset asks for it, whether the grant names it, and whether one covers it.

    ``shown`` has the ports that are granted with it.
    """

    host: str
    shown: str
    asked: bool
    named: bool
    covered: bool


@dataclass(frozen=True, slots=True)
class GrantGroup:
    """What stands under one key.

    ``what`` is granted or to be granted of kinds that have no hosts to choose from, and ``changed``
    tells in words what has changed since where the grant is ``stale``.
    """

    key: str
    kind: str
    name: str | None = None
    grant: Grant | None = None
    stale: bool = False
    hosts: tuple[HostRow, ...] = ()
    what: str = ""
    changed: tuple[str, ...] = ()


def grant_groups(toolset: ToolsetDetail) -> tuple[GrantGroup, ...]:
    """Return what a toolset may and wants to do: hosts, secrets, servers, no sandbox, all else granted."""
    secrets = {one.name for one in toolset.asks if one.name is not None}
    secrets |= {one.name for one in toolset.grants.values() if isinstance(one, SecretGrant)}
    groups = [_hosts(toolset, NETWORK, NETWORK)]
    groups += [_hosts(toolset, secret_key(name), "secret", name) for name in sorted(secrets)]
    groups += [_server(toolset, server) for server in toolset.mcp_servers]
    if toolset.imported or UNSANDBOXED in toolset.grants:
        groups.append(_whole(toolset, UNSANDBOXED))
    shown = {group.key for group in groups}
    groups += [_whole(toolset, key) for key in sorted(toolset.grants.keys() - shown)]
    return tuple(groups)


def _hosts(toolset: ToolsetDetail, key: str, kind: str, name: str | None = None) -> GrantGroup:
    grant = toolset.grants.get(key)
    named: Sequence[str] = grant.hosts if isinstance(grant, NetworkGrant | SecretGrant) else ()
    stale = key in toolset.ended
    asked = {
        one.host: one.granted
        for one in toolset.asks
        if one.kind == kind and one.name == name and one.host is not None
    }
    rows = [
        HostRow(
            host,
            HostRule.parse(host).shown,
            asked=host in asked,
            named=host in named,
            covered=asked.get(host, host in named and not stale),
        )
        for host in sorted({*asked, *named}, key=lambda host: (host not in asked, host))
    ]
    changed = toolset.ended.get(key, ())
    return GrantGroup(key, kind, name, grant, stale, tuple(rows), changed=changed)


def _server(toolset: ToolsetDetail, server: McpServerRow) -> GrantGroup:
    """Return the group of an MCP server: what it is now, whatever was granted."""
    kind: Literal["process", "server"] = "server" if server.command is None else "process"
    key = server_key(kind, server.id)
    words = [server.url or ""] if server.command is None else [server.command, *server.args]
    changed = toolset.ended.get(key, ())
    grant = toolset.grants.get(key)
    what = command_line(words)
    return GrantGroup(key, kind, server.id, grant, bool(changed), what=what, changed=changed)


def _whole(toolset: ToolsetDetail, key: str) -> GrantGroup:
    grant = toolset.grants.get(key)
    kind = grant.kind if grant else key
    changed = toolset.ended.get(key, ())
    what = _words(grant)
    return GrantGroup(key, kind, None, grant, bool(changed), what=what, changed=changed)


def _words(grant: Grant | None) -> str:
    match grant:
        case ProcessGrant():
            return command_line(grant.argv)
        case ServerGrant():
            return command_line([grant.url])
        case NetworkGrant() | SecretGrant():  # under a key that we would not give it
            return ", ".join(grant.hosts)
        case _:
            return ""
