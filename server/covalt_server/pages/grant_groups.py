"""Requested and granted permissions of a toolset, as its page groups them, each with what its button grants."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from covalt_git.grants.plans import WantedGrant
from covalt_git.grants.status import UNDESCRIBED
from covalt_git.hosts import HostRule
from covalt_git.models.sources.server_definition import command_line
from covalt_git.models.toolset_state import (
    WRITABLE,
    NetworkGrant,
    ProcessGrant,
    SecretGrant,
    ServerGrant,
    ToolGrant,
    grant_key,
)
from covalt_git.names import REGISTRY_NAMESPACE
from covalt_git.operations import toolsets
from covalt_git.operations.script_folders import offered_folders
from covalt_git.runtime.personal_places import why_wide
from covalt_server import request_context

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from covalt_git.models.toolset_state import Grant
    from covalt_git.operations.credentials.secrets import UnsetSecret
    from covalt_git.operations.toolsets import McpServerRow, ToolsetDetail
    from covalt_git.toolsets.toolset import Toolset

NETWORK, UNSANDBOXED = "network", "unsandboxed"


class HostRow(NamedTuple):
    """A host: whether the toolset requests it, whether the grant names it, and whether a granted wildcard covers it.

    ``shown`` includes the granted ports.  ``offer`` is what its button grants; None without a button.
    """

    host: str
    shown: str
    requested: bool
    named: bool
    covered: bool
    offer: toolsets.GrantOffer | None = None


class ProgramOffer(NamedTuple):
    """What the program of an MCP server would get, and why that may be more than it needs; the button grants it."""

    wanted: WantedGrant
    offer: toolsets.GrantOffer
    why_wide: str = ""

    @classmethod
    def of(cls, toolset: Toolset, wanted: WantedGrant) -> Self:
        """Return the offer of a grant for a server."""
        folders = (Path(text.removesuffix(WRITABLE)).expanduser() for text in wanted.folders)
        return cls(wanted, offer(toolset, wanted), next(filter(None, map(why_wide, folders)), ""))


class GrantGroup(NamedTuple):
    """A requested or granted permission, by its key.

    ``what`` describes a permission without hosts; ``lines`` is exactly what a grant would permit now.  ``changed``
    lists the changes that ended the grant.  ``uses`` are the folders, hosts and secrets of a program in the sandbox, and
    ``is_unsandboxed`` is whether a program is granted to run without one.  ``offer`` is what its button grants, and ``another`` what the form for another
    host grants; None without a button.  ``planned`` is what its program would get with the folder that the user typed, and
    ``with_scripts`` what a server without a grant would get with the folders of the files that its command names.
    ``unset`` is what a granted secret without a value lacks.
    """

    key: str
    kind: str
    name: str | None = None
    grant: Grant | None = None
    hosts: tuple[HostRow, ...] = ()
    what: str = ""
    lines: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    is_unsandboxed: bool = False
    offer: toolsets.GrantOffer | None = None
    another: toolsets.GrantOffer | None = None
    planned: ProgramOffer | None = None
    with_scripts: ProgramOffer | None = None
    unset: UnsetSecret | None = None

    @property
    def named_hosts(self) -> tuple[str, ...]:
        """The hosts that the grant names, which its button grants again."""
        return tuple(row.host for row in self.hosts if row.named)

    @property
    def allowed(self) -> tuple[str, ...]:
        """What the grant names: its own command and hosts, not those that the toolset declares now."""
        match self.grant:
            case NetworkGrant() | SecretGrant():
                return self.grant.hosts
            case ProcessGrant():
                return (command_line(self.grant.argv), *self.grant.uses)
            case ServerGrant():
                return (self.grant.url,)
            case ToolGrant():
                return (*self.grant.hosts, *self.grant.secrets)
        return ()

    @property
    def is_sandboxed(self) -> bool:
        """Whether it is the grant of a program in the sandbox, which folders can be added to."""
        grant = self.grant
        return (
            isinstance(grant, ProcessGrant) and grant.confinement is not None and not self.changed
        )

    @property
    def comparable(self) -> bool:
        """Whether the files can be compared with those of the grant: the user has trusted it."""
        return self.changed != (UNDESCRIBED,)


def grant_groups(toolset: ToolsetDetail) -> tuple[GrantGroup, ...]:
    """Return the permissions of a toolset: hosts, secrets, servers, running unsandboxed, other grants.

    Each registered tool has one grant.
    """
    if toolset.id == REGISTRY_NAMESPACE:
        return tuple(_group(toolset, key) for key in sorted(toolset.grants))
    secret_names = {permission.name for permission in toolset.asks if permission.name is not None}
    secret_names |= {
        grant.name for grant in toolset.grants.values() if isinstance(grant, SecretGrant)
    }
    groups = [_hosts(toolset, NETWORK, NETWORK)]
    groups += [
        _hosts(toolset, grant_key("secret", name), "secret", name) for name in sorted(secret_names)
    ]
    groups += [_server(toolset, server) for server in toolset.mcp_servers]
    if toolset.imported or UNSANDBOXED in toolset.grants:
        groups.append(_group(toolset, UNSANDBOXED))
    keys = {group.key for group in groups}
    groups += [_group(toolset, key) for key in sorted(toolset.grants.keys() - keys)]
    return tuple(groups)


def offer(toolset: Toolset, *wanted_grants: WantedGrant) -> toolsets.GrantOffer:
    return toolsets.offer(request_context.context(), toolset, wanted_grants)


def with_offers(group: GrantGroup, toolset: Toolset) -> GrantGroup:
    """Return a group with exactly what each of its buttons would trust, for a user who may grant."""
    kind: Any = group.kind
    wanted_grant = WantedGrant(kind, group.name or "")
    lacks = bool(group.changed) or group.grant is None or group.is_unsandboxed
    if group.kind not in {NETWORK, "secret"}:
        has_button = lacks and (
            group.kind == UNSANDBOXED or (group.kind == "server" and group.name is not None)
        )
        return group._replace(offer=offer(toolset, wanted_grant)) if has_button else group
    if group.changed:
        return group._replace(offer=offer(toolset, wanted_grant._replace(hosts=group.named_hosts)))
    rows = tuple(
        row
        if row.named or row.covered
        else row._replace(offer=offer(toolset, wanted_grant._replace(hosts=(row.host,))))
        for row in group.hosts
    )
    another = toolsets.typed_offer(request_context.context(), toolset, wanted_grant)
    return group._replace(hosts=rows, another=another)


def with_script_folders(groups: Iterable[GrantGroup], toolset: Toolset) -> tuple[GrantGroup, ...]:
    """Return the groups, with the offer of the folders that an import of the toolset would offer."""
    rows = offered_folders(request_context.context(), toolset)
    offers = {
        row.server: ProgramOffer.of(toolset, WantedGrant("server", row.server, folders=row.folders))
        for row in rows
        if row.folders
    }
    return tuple(
        group._replace(with_scripts=offers.get(group.name or ""))
        if group.kind == "server"
        else group
        for group in groups
    )


def _hosts(toolset: ToolsetDetail, key: str, kind: str, name: str | None = None) -> GrantGroup:
    group = _group(toolset, key)._replace(kind=kind, name=name)
    grant = group.grant
    named: Sequence[str] = grant.hosts if isinstance(grant, NetworkGrant | SecretGrant) else ()
    requested = {
        permission.host: permission.granted
        for permission in toolset.asks
        if permission.kind == kind and permission.name == name and permission.host is not None
    }
    rows = [
        HostRow(
            host,
            HostRule.parse(host).shown,
            requested=host in requested,
            named=host in named,
            covered=requested.get(host, host in named and not group.changed),
        )
        for host in sorted({*requested, *named}, key=lambda host: (host not in requested, host))
    ]
    return group._replace(hosts=tuple(rows))


def _server(toolset: ToolsetDetail, server: McpServerRow) -> GrantGroup:
    """Return the group of an MCP server, with its current declaration."""
    kind = "server" if server.command is None else "process"
    words = [server.url or ""] if server.command is None else [server.command, *server.args]
    group = _group(toolset, grant_key(kind, server.id))
    # The grant that its button adds starts a program in the sandbox.
    return group._replace(
        kind="server",
        name=server.id,
        what=command_line(words),
        uses=group.grant.uses if isinstance(group.grant, ProcessGrant) else (),
        is_unsandboxed=isinstance(group.grant, ProcessGrant) and group.grant.confinement is None,
    )


def _group(toolset: ToolsetDetail, key: str) -> GrantGroup:
    """Return the group of the grant with a key, or of a permission that is not granted."""
    grant, name, what = toolset.grants.get(key), None, ""
    match grant:
        case ProcessGrant():
            what = command_line(grant.argv)
        case ServerGrant():
            what = command_line([grant.url])
        case ToolGrant():
            name, what = grant.tool, grant.alias_of or ", ".join((*grant.hosts, *grant.secrets))
    kind = grant.kind if grant else key
    permissions = (*toolset.requested_permissions, *toolset.ended_permissions)
    lines = tuple(
        line for permission in permissions if permission.grant == key for line in permission.lines
    )
    changed = toolset.ended.get(key, ())
    return GrantGroup(key, kind, name, grant, what=what, lines=lines, changed=changed)
