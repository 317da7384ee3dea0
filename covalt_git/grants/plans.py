"""Plans of grants: what a decision of the user adds to a state file, and exactly what it trusts.

Every question about grants shows the permissions of a plan, and the answer names their digests.  The plan is made
again when the toolsets are locked, so that what is trusted is what was shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from pydantic import TypeAdapter

from covalt_git import timestamps
from covalt_git.access.grants import tool_facts
from covalt_git.errors import CovaltError, StaleError, UnknownNameError
from covalt_git.grants.requested import receivers, requested
from covalt_git.grants.status import changes, missing_grants
from covalt_git.hosts import HostRule
from covalt_git.models.sources.server_definition import grant_facts
from covalt_git.models.toolset_state import (
    Grant,
    NetworkGrant,
    ProcessGrant,
    ProgramSandbox,
    SecretGrant,
    ServerGrant,
    ToolGrant,
    grant_key,
)
from covalt_git.names import REGISTRY_NAMESPACE, ToolId
from covalt_git.toolsets.permissions import is_trusted, permissions_of_grants
from covalt_git.toolsets.state_store import find_server
from covalt_git.toolsets.toolset import FaultyToolsetError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from covalt_git.json_values import JsonObject
    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.toolsets.toolset import Toolset
    from covalt_git.trust import Permission

GrantKind = Literal["network", "secret", "process", "server", "tool", "unsandboxed"]

ANY_HOST: Final = "host.invalid"
"""In place of the hosts that a user has still to type, in the plan that a form shows; no host has this name (RFC 2606)."""

_GRANT: TypeAdapter[Grant] = TypeAdapter(Grant)


class HostNeededError(CovaltError):
    """A grant of a secret without hosts, although HTTP tools send it to a host."""

    code = "host_needed"

    def __init__(self, toolset_id: str, name: str, receivers: Mapping[str, str]) -> None:
        tools = ", ".join(f"{toolset_id}:{tool}" for tool in receivers)
        hosts = " ".join(sorted(set(filter(None, receivers.values())))) or "HOST"
        super().__init__(
            f"{tools} would send the secret {name!r} to a host, which the grant must name",
            hint=f"covalt-git grant add {toolset_id} secret {name} {hosts}",
        )


class WantedGrant(NamedTuple):
    """A grant to add: its kind, the secret, MCP server or registered tool, and the hosts.

    ``folders`` and ``secrets`` are those of a program of an MCP server in the sandbox.
    """

    kind: GrantKind
    name: str = ""
    hosts: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


class GrantPlan(NamedTuple):
    """Grants to add to a toolset, by their keys, and exactly what the user trusts by adding them."""

    grants: dict[str, Grant]
    permissions: tuple[Permission, ...]


class Review(NamedTuple):
    """What a user has reviewed before a decision about grants.

    Attributes:
        digest: The digest of the toolset's files; None if the user reviewed no files.
        permissions: The digests of the permissions that the question showed; None if it showed none.
    """

    digest: str | None = None
    permissions: Collection[str] | None = None

    def check_files(self, toolset: Toolset) -> None:
        """Check that the files of a toolset are those that the user has reviewed.

        Raises:
            StaleError: if they are not.
        """
        if self.digest not in {None, toolset.digest}:
            raise StaleError(
                f"a file of {toolset.id!r} has changed since your review", hint="review it again"
            )

    def check_plan(self, toolset: Toolset, plan: GrantPlan) -> None:
        """Check that a plan trusts what the user has reviewed, no more and no less.

        Raises:
            StaleError: if it does not.
        """
        if self.permissions is None:
            return
        # The digest of the files does not cover the state file, whose grants are renewed, nor covalt.yaml.
        if {permission.digest for permission in plan.permissions} != set(self.permissions):
            raise StaleError(
                f"the permissions of {toolset.id!r} have changed since your review",
                hint="review them again",
            )


def plan_grants(
    toolset: Toolset,
    config: ProjectConfig | None,
    decisions: Iterable[WantedGrant],
    *,
    by: str = "",
) -> GrantPlan:
    """Return the plan to add grants to a toolset for its current files, without a change.

    Args:
        toolset: The toolset, read once: the plan is about this reading.
        config: The configuration of the project; None if it has errors, so that nothing can be called.
        decisions: The grants; the hosts of those with the same key are added to one grant.
        by: The user who adds them.

    Raises:
        BadHostError: if a host is invalid.
        HostNeededError: if a secret has no host, but an HTTP tool sends it to one.
        UnknownNameError: if the toolset does not have the secret, the MCP server or the tool.
        FaultyToolsetError: if the toolset or its state has errors.
        CovaltError: if it cannot have this kind of grant.
    """
    # Even if there is no decision: it is not known what a toolset with errors requests.
    if not toolset.sound:
        raise FaultyToolsetError(toolset.id, toolset.problems)
    merged: dict[tuple[GrantKind, str], WantedGrant] = {}
    for grant in decisions:
        earlier = merged.get((grant.kind, grant.name), grant)
        merged[grant.kind, grant.name] = grant._replace(
            hosts=tuple(sorted({*earlier.hosts, *grant.hosts})),
            folders=tuple(sorted({*earlier.folders, *grant.folders})),
            secrets=tuple(sorted({*earlier.secrets, *grant.secrets})),
        )
    grants, decided = dict[str, Grant](), dict[str, Grant]()
    timestamp = timestamps.now()  # of one decision, however many grants it has
    for (kind, name), new in merged.items():
        _check_grantable(toolset, kind, name)
        facts = {"kind": kind, "granted_at": timestamp, "granted_by": by}
        added = _GRANT.validate_python(facts | _covered(toolset, new))
        key = grant_key(added.kind, name)
        grants[key] = decided[key] = added
        # Hosts that were granted before stay as they are: the user has not decided about them now. If they are for other
        # files or requests than before, they are trusted only if they were before.
        if isinstance(added, NetworkGrant | SecretGrant) and (
            _is_same(toolset.state.grants.get(key), added) or not is_trusted(toolset, key)
        ):
            decided[key] = added.model_copy(update={"hosts": new.hosts})
    permissions = permissions_of_grants(toolset.with_grants(grants), config, decided)
    return GrantPlan(grants, tuple(permissions))


def _is_same(old: Grant | None, new: NetworkGrant | SecretGrant) -> bool:
    """Return whether a grant is for the same files and requests as an earlier one."""
    facts = (new.digest, new.requests)
    return isinstance(old, NetworkGrant | SecretGrant) and (old.digest, old.requests) == facts


def requested_grants(toolset: Toolset) -> list[WantedGrant]:
    """Return the grants that a toolset requests and lacks.

    A new grant replaces the one of earlier files that HTTP tools still have.  So it also has the hosts that the toolset
    requests and that they may reach, which the user sees and decides about again.
    """
    missing = missing_grants(toolset)
    rows = {(grant.kind, grant.name, grant.host) for grant in missing}
    replaced = {(grant.kind, grant.name) for grant in missing}
    rows |= {
        (request.kind, request.name, request.host)
        for request in requested(toolset)
        if (request.kind, request.name) in replaced and request.granted
    }
    servers = {
        grant.server: grant
        for grant in toolset.state.grants.values()
        if isinstance(grant, ProcessGrant) and grant.confinement is not None
    }
    return [
        # A program in the sandbox that has changed uses what it used before.
        _same(servers[name])
        if kind == "server" and name in servers
        else WantedGrant(kind, name or "", (host,) if host else ())
        for kind, name, host in sorted(rows, key=lambda row: [part or "" for part in row])
    ]


def ended_grants(toolset: Toolset) -> list[WantedGrant]:
    """Return the grants of a toolset that a change has ended, if it still declares what they are for."""
    ended = [grant for grant in toolset.state.grants.values() if changes(toolset, grant)]
    return [_same(grant) for grant in ended if is_declared(toolset, grant)]


def _covered(toolset: Toolset, wanted: WantedGrant) -> JsonObject:
    """Return the fields of a grant that describe what it covers."""
    kind, name, hosts = wanted.kind, wanted.name, wanted.hosts
    match kind:
        case "network":
            return {"hosts": _merge(toolset, kind, hosts), **_for_files(toolset)}
        case "secret":
            declared = toolset.secrets
            if name not in declared:
                raise _undeclared_secret(toolset, name, declared)
            if not hosts and (sending := receivers(toolset, name)):
                raise HostNeededError(toolset.id, name, sending)
            merged = _merge(toolset, grant_key(kind, name), hosts)
            # Without a host, only Python code can use the secret, and that code may be in any file: no request
            # outlives a change.
            facts = _for_files(toolset) if merged else {"digest": toolset.digest}
            return {"name": name, "hosts": merged, **facts}
        case "tool":
            tool = toolset.tool(str(ToolId(toolset.id, name)))
            if tool is None:
                names = [tool.id.name for tool in toolset.tools]
                raise UnknownNameError("tool", name, names, list_with="covalt-git registry list")
            return tool_facts(tool)
        case "unsandboxed" if not name:
            return {"digest": toolset.digest}
    facts = grant_facts(find_server(toolset, name), toolset.files.hashes)
    if facts["kind"] == "process":
        return facts | {"sandbox": _sandbox(toolset, wanted) if kind == "server" else "none"}
    if kind != facts["kind"]:
        raise CovaltError(
            f"the MCP server {name!r} has a URL, not a command",
            hint=f"covalt-git grant add {toolset.id} server {name}",
        )
    return facts


def _undeclared_secret(toolset: Toolset, name: str, declared: Iterable[str]) -> UnknownNameError:
    """Return the error of a secret that a toolset does not declare, with the file that may lack it."""
    error = UnknownNameError(
        "secret", name, declared, list_with=f"covalt-git toolset show {toolset.id}"
    )
    error.hint += f"; or add {name} to secrets of toolsets/{toolset.id}/toolset.yaml"
    return error


def _sandbox(toolset: Toolset, wanted: WantedGrant) -> JsonObject:
    """Return what a program may use in the sandbox: the new grants and those of the same program."""
    declared = toolset.manifest.secrets if toolset.manifest else ()
    for name in wanted.secrets:
        if name not in declared:
            raise _undeclared_secret(toolset, name, declared)
    for host in wanted.hosts:
        HostRule.parse(host)
    key = grant_key("process", wanted.name)
    old = toolset.state.grants.get(key)
    earlier = ProgramSandbox()
    if isinstance(old, ProcessGrant) and not changes(toolset, old):
        earlier = old.confinement or earlier
        _check_nothing_more(toolset, key, earlier, wanted)
    return {
        "folders": tuple(sorted({*earlier.folders, *wanted.folders})),
        "hosts": tuple(sorted({*earlier.hosts, *wanted.hosts})),
        "secrets": tuple(sorted({*earlier.secrets, *wanted.secrets})),
    }


def _check_nothing_more(
    toolset: Toolset, key: str, earlier: ProgramSandbox, wanted: WantedGrant
) -> None:
    """Check that the user does not decide about more than they name, because a pull may have brought the earlier grant.

    A grant of a program is trusted as a whole, so the new one can neither contain what the user has not seen, nor leave
    out in silence what another user of the project needs.
    """
    unnamed = ProgramSandbox(
        folders=tuple(sorted({*earlier.folders} - {*wanted.folders})),
        hosts=tuple(sorted({*earlier.hosts} - {*wanted.hosts})),
        secrets=tuple(sorted({*earlier.secrets} - {*wanted.secrets})),
    )
    if unnamed != ProgramSandbox() and not is_trusted(toolset, key):
        raise CovaltError(
            f"the grant of the MCP server {wanted.name!r} is not trusted on this machine, and has more:"
            f" {', '.join(unnamed.uses)}",
            hint=f"review it with `covalt-git trust`, or covalt-git grant revoke {toolset.id} server {wanted.name}",
            code="grant_not_trusted",
            http_status=409,
        )


def is_declared(toolset: Toolset, grant: Grant) -> bool:
    """Return whether a toolset still declares the secret or the MCP server of a grant."""
    manifest = toolset.manifest
    if isinstance(grant, ToolGrant):
        return toolset.tool(f"{toolset.id}:{grant.tool}") is not None
    if isinstance(grant, SecretGrant):
        return grant.name in toolset.secrets
    if not isinstance(grant, ProcessGrant | ServerGrant):
        return True
    servers = {server.id: server for server in manifest.mcp_servers} if manifest else {}
    server = servers.get(grant.server)
    return server is not None and (grant.kind == "process") == (server.command is not None)


def _same(grant: Grant) -> WantedGrant:
    """Return the same grant, to be added again."""
    names = (getattr(grant, key, None) for key in ("server", "tool", "name"))
    name = next(filter(None, names), "")
    # The hosts of a registered tool are those of its entry.
    hosts = () if isinstance(grant, ToolGrant) else getattr(grant, "hosts", ())
    if isinstance(grant, ProcessGrant) and (sandbox := grant.confinement) is not None:
        return WantedGrant("server", name, sandbox.hosts, sandbox.folders, sandbox.secrets)
    return WantedGrant(grant.kind, name, hosts)


def _check_grantable(toolset: Toolset, kind: GrantKind, name: str) -> None:
    if kind == "tool" and toolset.id != REGISTRY_NAMESPACE:
        raise CovaltError(
            f"tools of {toolset.id!r} need no grants of their own, only registered tools do",
            hint=f"covalt-git grant add {toolset.id} --requested",
        )
    if kind != "tool" and toolset.id == REGISTRY_NAMESPACE:
        raise CovaltError(
            "registered tools have no grants of other kinds",
            hint=f"covalt-git grant add {toolset.id} tool NAME",
        )
    if kind == "unsandboxed" and not name and not toolset.state.imported:
        raise CovaltError(
            f"the toolset {toolset.id!r} is the project's own, which may run without a sandbox"
        )


def _merge(toolset: Toolset, key: str, hosts: Sequence[str]) -> tuple[str, ...]:
    """Return ``hosts`` and those of the grant with the key ``key``, if it is valid for all tools that may use it."""
    for host in hosts:
        HostRule.parse(host)
    old = toolset.state.grants.get(key)
    # To merge the hosts of a grant that has ended for a tool would renew them without a decision of the user.
    granted_hosts: tuple[str, ...] = ()
    if isinstance(old, NetworkGrant | SecretGrant) and not changes(toolset, old):
        granted_hosts = old.hosts
    return tuple(sorted({*granted_hosts, *hosts}))


def _for_files(toolset: Toolset) -> JsonObject:
    """Return the digest of the current files, and those of the requests that may outlive it."""
    # Without those of documents that are not accepted: the user has not seen their requests.
    http = [
        tool
        for tool in toolset.tools
        if tool.http is not None and (tool.source is None or tool.held_back is None)
    ]
    return {
        "digest": toolset.digest,
        "requests": {tool.name_in_state: tool.request_digest for tool in http},
    }
