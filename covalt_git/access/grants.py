"""What was granted to a toolset: hosts its tools may reach, secrets they may send there, MCP servers.

A grant of hosts or secrets holds for exactly the files it was given for: the digest in it is the
toolset's.  An HTTP tool runs none of these files, so it keeps the grant while its own request and the
schema of its arguments stay the same.  A grant of an MCP server holds for exactly that server (:mod:`covalt_git.models.server_definition`).
Nothing of a toolset leaves this machine without one, also of the project's own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.hosts import HostRule, Origin, Reach
from covalt_git.models.server_definition import command_line, process_facts, server_facts
from covalt_git.models.toolset_state import (
    NetworkGrant,
    ProcessGrant,
    SecretGrant,
    ServerGrant,
    UnsandboxedGrant,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from covalt_git.json_values import JsonObject
    from covalt_git.models.tool import Tool
    from covalt_git.models.toolset_manifest import McpServer
    from covalt_git.models.toolset_state import Grant, ToolsetState


class GrantNeededError(CovaltError):
    """A toolset would leave the sandbox for something that nobody granted to it, as it is now."""

    code = "grant_needed"
    http_status = 403


@dataclass(frozen=True, slots=True)
class Granted:
    """What a toolset may reach, send and use.

    ``servers`` holds the grants of MCP servers, whether or not those are still what was granted, and
    ``stale`` the kinds of other grants that are for other files.
    """

    toolset_id: str
    reach: Reach = field(default_factory=Reach)
    secrets: Mapping[str, Reach] = field(default_factory=dict)
    stale: frozenset[str] = frozenset()
    servers: tuple[ProcessGrant | ServerGrant, ...] = ()

    def check_request(self, origin: Origin, secrets: Iterable[str]) -> None:
        """Make sure that requests may go to that origin, with these secrets.

        Raises:
            GrantNeededError: with everything that lacks a grant, and a command for each, one a line.
        """
        rule = rule_of(origin)
        lacking = []
        if not self.reach.covers(origin):
            lacking.append(self._needed("network", f"may not reach {origin}", f"network {rule}"))
        for name in secrets:
            if not self.secrets.get(name, Reach()).covers(origin):
                what = f"may not send the secret {name!r} to {origin.shown_host}"
                lacking.append(self._needed("secret", what, f"secret {name} {rule}"))
        if lacking:
            subject = f"the toolset {self.toolset_id!r} "
            rest = [one.message.removeprefix(subject) for one in lacking]
            raise GrantNeededError(
                subject + ", and ".join(rest), hint="\n".join(one.hint for one in lacking)
            )

    def check_process(self, server: McpServer, files: Mapping[str, str]) -> None:
        """Make sure that the program of an MCP server may be started, as it is now.

        ``files`` are the toolset's, by their paths, and their SHA-256 in hex.  Words of a program without
        ``cwd`` are taken from the toolset's folder; what such a program reads from the folder that it is
        started in is not part of what was granted, so that this must not be the toolset's.

        Raises:
            GrantNeededError: with the command that grants it.
        """
        argv = (server.command or "", *server.args)
        what = f"may not start {command_line(argv)}"
        self._check_server(process_facts(server, files), what)

    def check_server(self, server: McpServer) -> None:
        """Make sure that the MCP server at an address may be used, as it is declared now.

        Raises:
            GrantNeededError: with the command that grants it.
        """
        what = f"may not use the MCP server at {command_line([server.url or ''])}"
        self._check_server(server_facts(server), what)

    def _check_server(self, facts: JsonObject, what: str) -> None:
        kind, server = facts["kind"], facts["server"]
        given = [one for one in self.servers if (one.kind, one.server) == (kind, server)]
        if not any(is_of(one, facts) for one in given):
            raise self._needed(kind, what, f"{kind} {server}", changed=bool(given))

    def _needed(
        self, kind: str, what: str, command: str, *, changed: bool = False
    ) -> GrantNeededError:
        changed = changed or kind in self.stale
        since = "; it has changed since that was granted" if changed else ""
        return GrantNeededError(
            f"the toolset {self.toolset_id!r} {what}{since}",
            hint=f"covalt-git grant add {self.toolset_id} {command}",
        )


def granted(toolset_id: str, state: ToolsetState, digest: str, tool: Tool | None = None) -> Granted:
    """Return what was granted to the toolset whose files have that digest, or to one ``tool`` of it.

    Raises:
        BadHostError: when a grant holds a host that is none.
    """
    network: list[HostRule] = []
    secrets: dict[str, Reach] = {}
    stale = set()
    servers: list[ProcessGrant | ServerGrant] = []
    for grant in state.grants.values():
        if isinstance(grant, ProcessGrant | ServerGrant):
            servers.append(grant)
        if not isinstance(grant, NetworkGrant | SecretGrant):
            continue
        if grant.digest != digest and (tool is None or not _keeps(tool, grant)):
            stale.add(grant.kind)
        elif isinstance(grant, NetworkGrant):
            network += _rules(grant.hosts)
        else:
            before = secrets.get(grant.name, Reach()).rules
            secrets[grant.name] = Reach((*before, *_rules(grant.hosts)))
    return Granted(toolset_id, Reach(tuple(network)), secrets, frozenset(stale), tuple(servers))


def holds(
    grant: Grant,
    digest: str,
    servers: Iterable[McpServer],
    hashes: Mapping[str, str],
    tools: Collection[Tool],
) -> bool:
    """Tell whether all that a grant was given for may use it.

    The rest is what the toolset is now: its digest, its servers, its files' hashes and its tools.
    """
    if isinstance(grant, ProcessGrant):
        programs = (one for one in servers if one.command is not None)
        return any(is_of(grant, process_facts(one, hashes)) for one in programs)
    if isinstance(grant, ServerGrant):
        return any(is_of(grant, server_facts(one)) for one in servers if one.url is not None)
    if grant.digest == digest or isinstance(grant, UnsandboxedGrant):
        return grant.digest == digest
    own = [tool for tool in tools if tool.kind != "mcp"]
    uses_files = any(server.command is not None for server in servers)
    return bool(own) and not uses_files and len(keeping(grant, own)) == len(own)


def keeping(grant: NetworkGrant | SecretGrant, tools: Iterable[Tool]) -> tuple[str, ...]:
    """Return the names of the HTTP tools that keep a grant, whatever else of the toolset has changed."""
    return tuple(tool.id.name for tool in tools if _keeps(tool, grant))


def _keeps(tool: Tool, grant: NetworkGrant | SecretGrant) -> bool:
    return tool.http is not None and grant.requests.get(tool.id.name) == tool.request_digest


def ports(grant: Grant) -> dict[str, tuple[int, ...]]:
    """Return the hosts of a grant, and of each the ports that are granted; none for other kinds."""
    hosts = grant.hosts if isinstance(grant, NetworkGrant | SecretGrant) else ()
    return {rule.text: rule.ports for rule in _rules(hosts)}


def is_of(grant: ProcessGrant | ServerGrant, facts: JsonObject) -> bool:
    """Tell whether a grant is of exactly those facts of an MCP server, the words in it included.

    People review the words of a state file, so that a digest alone is not enough.
    """
    return {name: getattr(grant, name) for name in facts} == facts


def _rules(hosts: Iterable[str]) -> Iterable[HostRule]:
    return [HostRule.parse(host) for host in hosts]


def rule_of(origin: Origin) -> str:
    """Return the rule that grants an origin."""
    if HostRule.parse(origin.shown_host).covers(origin):
        return origin.shown_host
    return str(origin)
