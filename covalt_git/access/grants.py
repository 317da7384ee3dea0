"""Effective grants of a toolset: hosts that its tools may reach, secrets that they may send, MCP servers.

A grant of hosts or secrets is valid for one digest of the toolset's files.  HTTP tools run none of these files.
So they keep the grant as long as their request and the schema of their arguments stay the same.  Those of API documents
need a grant that names their request: to accept a tool grants it nothing.  A grant of an MCP
server is valid for exactly one definition of the server (:mod:`covalt_git.models.sources.server_definition`).  Without a grant no
toolset, not even one of the project, sends anything from this machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.hosts import HostRule, Reach, WebOrigin, origin_of
from covalt_git.models.http_placement import secrets_of
from covalt_git.models.sources.server_definition import command_line, grant_facts
from covalt_git.models.toolset_state import (
    NetworkGrant,
    ProcessGrant,
    SecretGrant,
    ServerGrant,
    ToolGrant,
    UnsandboxedGrant,
)
from covalt_git.names import REGISTRY_NAMESPACE
from covalt_git.templating.references import secret_words
from covalt_git.templating.url_templates import UrlTemplate, origin_of_template

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from covalt_git.json_values import JsonObject
    from covalt_git.models.tool import Tool
    from covalt_git.models.toolset_manifest import McpServer
    from covalt_git.models.toolset_state import Grant, ToolsetState


class GrantNeededError(CovaltError):
    """A toolset needs a host, a secret or a server that is not granted to its current version."""

    code = "grant_needed"
    http_status = 403


@dataclass(frozen=True, slots=True)
class Granted:
    """Effective grants of a toolset.

    ``ended`` has the grants of hosts and secrets that ended because files changed.  ``servers`` has all grants of MCP
    servers, including the grants of earlier definitions.
    """

    toolset_id: str
    reach: Reach = field(default_factory=Reach)
    secrets: Mapping[str, Reach] = field(default_factory=dict)
    ended: tuple[NetworkGrant | SecretGrant, ...] = ()
    servers: tuple[ProcessGrant | ServerGrant, ...] = ()

    @property
    def stale(self) -> frozenset[str]:
        """The kinds of the grants that have ended."""
        return frozenset(grant.kind for grant in self.ended)

    def check_request(self, origin: WebOrigin, secrets: Iterable[str]) -> None:
        """Check that requests to an origin, with these secrets, are granted.

        Raises:
            GrantNeededError: with all missing grants, and a command for each on its own line.
        """
        # All at once: an author who adds one grant after the other gets one error for each.
        lacking: list[GrantNeededError] = []
        if not self.reach.covers(origin):
            command = self._again("network", origin) or f"network {rule_of(origin)}"
            lacking.append(self._needed("network", f"may not reach {origin}", command))
        lacking += self._lacking_secrets(origin, secrets)
        self._raise(lacking)

    def check_secrets(self, origin: WebOrigin, names: Iterable[str]) -> None:
        """Check that secrets and tokens may be sent to an origin.

        Raises:
            GrantNeededError: with all missing grants.
        """
        self._raise(self._lacking_secrets(origin, names))

    def _lacking_secrets(
        self, origin: WebOrigin, secrets: Iterable[str]
    ) -> Iterator[GrantNeededError]:
        for name in secrets:
            if not self.secrets.get(name, Reach()).covers(origin):
                what = f"may not send {secret_words(name, quoted=True)} to {origin.shown_host}"
                command = self._again("secret", origin, name) or f"secret {name} {rule_of(origin)}"
                yield self._needed("secret", what, command)

    def _raise(self, errors: Iterable[GrantNeededError]) -> None:
        lacking = list(errors)
        if lacking:
            subject = f"the toolset {self.toolset_id!r} "
            rest = [error.message.removeprefix(subject) for error in lacking]
            hints = dict.fromkeys(error.hint for error in lacking)
            raise GrantNeededError(subject + ", and ".join(rest), hint="\n".join(hints))

    def check_server(self, server: McpServer, files: Mapping[str, str]) -> None:
        """Check that an MCP server is granted with its current definition, a program also with its files.

        ``files`` has the SHA-256, in hex, of the toolset's files by path.  Without ``cwd``, words of the command
        may name files of the toolset.  Such a program must not start in the toolset's folder, because the grant
        does not cover other files that it reads there.

        Raises:
            GrantNeededError: with the command that grants it.
        """
        facts = grant_facts(server, files)
        kind = facts["kind"]
        grants = [
            grant for grant in self.servers if (grant.kind, grant.server) == (kind, server.id)
        ]
        if any(is_of(grant, facts) for grant in grants):
            return
        from covalt_git.credentials.leaks import blotted  # noqa: PLC0415 - its expressions take 20 ms

        what = f"may not use the MCP server at {blotted(command_line([server.url or '']))}"
        if server.command is not None:
            what = f"may not start {blotted(command_line((server.command, *server.args)))}"
        # Renewed, a grant has what it had: a new one would have no folders, hosts and secrets.
        raise self._needed(
            kind, what, "--again" if grants else f"server {server.id}", changed=bool(grants)
        )

    def program(self, server: McpServer, files: Mapping[str, str]) -> ProcessGrant | None:
        """Return the valid grant of a server's program; None for a server at a URL, or without a grant.

        Of several, which only an edit of the state file makes, it is one with a sandbox.
        """
        facts = grant_facts(server, files)
        programs = [
            grant
            for grant in self.servers
            if isinstance(grant, ProcessGrant)
            and grant.kind == facts["kind"]
            and is_of(grant, facts)
        ]
        return min(programs, key=lambda grant: grant.confinement is None, default=None)

    def _again(self, kind: str, origin: WebOrigin, name: str | None = None) -> str:
        """Return the option that renews an ended grant for an origin; empty if no such grant has ended."""
        grants = [
            grant
            for grant in self.ended
            if grant.kind == kind and getattr(grant, "name", None) == name
        ]
        is_renewed = any(Reach.of(*grant.hosts).covers(origin) for grant in grants)
        return "--again" if is_renewed else ""

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
    """Return the effective grants of a toolset with that digest, or of one ``tool`` of it.

    Raises:
        BadHostError: if a grant contains an invalid host.
    """
    network: list[HostRule] = []
    secrets: dict[str, Reach] = {}
    ended: list[NetworkGrant | SecretGrant] = []
    servers: list[ProcessGrant | ServerGrant] = []
    for grant in state.grants.values():
        if isinstance(grant, ProcessGrant | ServerGrant):
            servers.append(grant)
        if isinstance(grant, ToolGrant) and tool is not None and is_of_tool(grant, tool):
            rules = tuple(_rules(grant.hosts))
            network += rules
            secrets |= {name: Reach(rules) for name in grant.secrets}
        if not isinstance(grant, NetworkGrant | SecretGrant):
            continue
        if not _is_for(grant, digest, tool):
            ended.append(grant)
        elif isinstance(grant, NetworkGrant):
            network += _rules(grant.hosts)
        else:
            earlier = secrets.get(grant.name, Reach()).rules
            secrets[grant.name] = Reach((*earlier, *_rules(grant.hosts)))
    return Granted(toolset_id, Reach(tuple(network)), secrets, tuple(ended), tuple(servers))


def holds(
    grant: Grant,
    digest: str,
    servers: Iterable[McpServer],
    hashes: Mapping[str, str],
    tools: Collection[Tool],
) -> bool:
    """Return whether a grant is valid for all servers or tools that need it.

    The other arguments are the toolset's current digest, servers, hashes of files, and tools.
    """
    if isinstance(grant, ProcessGrant | ServerGrant):
        return any(is_of(grant, grant_facts(server, hashes)) for server in servers)
    if isinstance(grant, ToolGrant):
        return any(is_of_tool(grant, tool) for tool in tools)
    # Code that runs without a sandbox can read every file of the toolset, so no change leaves this grant valid.
    if isinstance(grant, UnsandboxedGrant):
        return grant.digest == digest
    users = [tool for tool in tools if _may_use(grant, tool)]
    if grant.digest == digest:
        return all(_is_for(grant, digest, tool) for tool in users)
    # Tools of MCP servers have grants of their servers. A server with a command runs files, so then only the digest
    # counts.
    uses_files = any(server.command is not None for server in servers)
    return bool(users) and not uses_files and len(keeping(grant, users)) == len(users)


def _may_use(grant: NetworkGrant | SecretGrant, tool: Tool) -> bool:
    """Return whether calls of a tool may use the grant of hosts or of a secret."""
    # What the user has not accepted cannot be called, so it needs nothing.
    if tool.http is None or (tool.source is not None and tool.held_back is not None):
        return tool.kind == "python"
    if isinstance(grant, SecretGrant) and grant.name not in {
        secret.name for secret in secrets_of(tool.http)
    }:
        return False
    origin = origin_of_template(tool.http.url)  # None if a variable determines it
    reach = Reach(tuple(_rules(grant.hosts)))
    return reach.covers(origin) if origin is not None else bool(grant.hosts)


def _is_for(grant: NetworkGrant | SecretGrant, digest: str, tool: Tool | None) -> bool:
    """Return whether a grant is valid for a toolset with that digest, or for one ``tool`` of it."""
    # The digest does not cover locks, which have the definitions of documents: with the same files, another definition
    # may be accepted later.
    if tool is None or tool.source is None:
        return grant.digest == digest or (tool is not None and _keeps(tool, grant))
    return _keeps(tool, grant)


def keeping(grant: NetworkGrant | SecretGrant, tools: Iterable[Tool]) -> tuple[str, ...]:
    """Return the names of the HTTP tools for which a grant is valid although other files have changed."""
    return tuple(tool.name_in_state for tool in tools if _keeps(tool, grant))


def _keeps(tool: Tool, grant: NetworkGrant | SecretGrant) -> bool:
    request = grant.requests.get(tool.name_in_state)
    return tool.http is not None and request == tool.request_digest


def ports(grant: Grant) -> dict[str, tuple[int, ...]]:
    """Return the granted ports of each host of a grant; empty for grants of other kinds."""
    hosts: tuple[str, ...] = ()
    if isinstance(grant, NetworkGrant | SecretGrant | ToolGrant):
        hosts = grant.hosts
    elif isinstance(grant, ProcessGrant) and grant.confinement is not None:
        hosts = grant.confinement.hosts
    return {rule.text: rule.ports for rule in _rules(hosts)}


def is_of(grant: ProcessGrant | ServerGrant, facts: JsonObject) -> bool:
    """Return whether a grant describes an MCP server exactly, including the words of its command.

    Reviewers read the words in the state file, so the words are compared and not only the digest.
    """
    return {name: getattr(grant, name, None) for name in facts} == facts


def tool_facts(tool: Tool) -> JsonObject:
    """Return the fields of the grant of a registered tool: its name, digest, and what it may reach."""
    hosts: list[str] = []
    secrets: list[str] = []
    if tool.http is not None:
        origin, _ = origin_of(UrlTemplate.parse(tool.http.url).begins)
        hosts, secrets = (
            [rule_of(origin)],
            sorted({secret.name for secret in secrets_of(tool.http)}),
        )
    return {
        "tool": tool.id.name,
        "hosts": tuple(hosts),
        "secrets": tuple(secrets),
        "alias_of": tool.alias_of,
        "digest": tool.toolset_digest,
    }


def is_of_tool(grant: ToolGrant, tool: Tool) -> bool:
    """Return whether a grant describes a registered tool exactly; see :func:`is_of`."""
    if tool.toolset_id != REGISTRY_NAMESPACE or grant.tool != tool.id.name:
        return False
    facts = tool_facts(tool)
    return {name: getattr(grant, name) for name in facts} == facts


def _rules(hosts: Iterable[str]) -> Iterable[HostRule]:
    return [HostRule.parse(host) for host in hosts]


def rule_of(origin: WebOrigin) -> str:
    """Return the rule of a grant for an origin."""
    if HostRule.parse(origin.shown_host).covers(origin):
        return origin.shown_host
    return str(origin)
