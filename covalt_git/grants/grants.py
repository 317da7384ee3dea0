"""Grants to toolsets: added to and revoked from their state files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

from covalt_git import timestamps
from covalt_git.access.grants import tool_facts
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.grants.requested import receivers
from covalt_git.hosts import HostRule
from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.models.server_definition import grant_facts
from covalt_git.models.toolset_state import (
    NetworkGrant,
    ProcessGrant,
    SecretGrant,
    ServerGrant,
    ToolGrant,
    UnsandboxedGrant,
)
from covalt_git.names import REGISTRY_NAMESPACE, ToolId
from covalt_git.toolsets.state_store import (
    changeable,
    find_server,
    find_toolset,
    state_file,
    update_state,
)
from covalt_git.toolsets.toolset import Toolset, read_toolset
from covalt_git.toolsets.update_lock import locks_toolsets
from covalt_git.toolsets.version_store import store_current_version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from covalt_git.models.toolset_state import Grant


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


class _Origin(TypedDict):
    granted_at: str
    granted_by: str


def grants(root: Path, toolset_id: str | None = None) -> list[tuple[Toolset, str, Grant]]:
    """Return the grants of all toolsets or of one, sorted: the toolset, the key and the grant.

    Raises:
        UnknownNameError: if the toolset does not exist; the hint has the most similar one.
    """
    if toolset_id is None:
        files = (state_file(root, one) for one in toolset_ids(root / "toolsets"))
        toolsets = [read_toolset(root, file.stem) for file in files if file.exists()]
    else:
        toolsets = [find_toolset(root, toolset_id)]
    return [
        (one, key, grant) for one in toolsets for key, grant in sorted(one.state.grants.items())
    ]


@locks_toolsets
def grant_network(root: Path, toolset_id: str, hosts: Sequence[str], *, by: str) -> NetworkGrant:
    """Let a toolset with its current files reach more hosts; return the grant of all its hosts.

    Only ``toolsets/state/<id>.yaml`` is written.

    Raises:
        BadHostError: if a host is invalid.
        CovaltError: if the toolset or its state has errors.
    """
    toolset = _grantable(root, toolset_id)
    grant = NetworkGrant(
        kind="network",
        hosts=_merge(toolset, "network", hosts),
        digest=toolset.digest,
        requests=_requests(toolset),
        **_now(by),
    )
    _write_grant(root, toolset, "network", grant)
    return grant


@locks_toolsets
def grant_secret(
    root: Path, toolset_id: str, name: str, hosts: Sequence[str], *, by: str
) -> SecretGrant:
    """Let a toolset with its current files send a secret to more hosts; return the grant of all its hosts.

    The toolset's Python code gets the secret, whatever the hosts are, even without a host.

    Raises:
        HostNeededError: if there is no host, but an HTTP tool sends the secret to one.
        UnknownNameError: if the toolset does not declare the secret; and as :func:`grant_network`.
    """
    toolset = _grantable(root, toolset_id)
    declared = toolset.manifest.secrets if toolset.manifest else ()
    if name not in declared:
        list_with = f"covalt-git toolset show {toolset_id}"
        raise UnknownNameError("secret", name, declared, list_with=list_with)
    if not hosts and (sending := receivers(toolset, name)):
        raise HostNeededError(toolset_id, name, sending)
    key = grant_key("secret", name)
    grant = SecretGrant(
        kind="secret",
        name=name,
        hosts=(merged := _merge(toolset, key, hosts)),
        digest=toolset.digest,
        requests=_requests(toolset) if merged else {},
        **_now(by),
    )
    _write_grant(root, toolset, key, grant)
    return grant


@locks_toolsets
def grant_unsandboxed(root: Path, toolset_id: str, *, by: str) -> UnsandboxedGrant:
    """Let the tools of an imported toolset with its current files run on machines without a sandbox.

    Raises:
        CovaltError: if the toolset is the project's own, which needs no grant; and as :func:`grant_network`.
    """
    toolset = _grantable(root, toolset_id)
    if not toolset.state.imported:
        raise CovaltError(
            f"the toolset {toolset_id!r} is the project's own, which may run without a sandbox"
        )
    grant = UnsandboxedGrant(kind="unsandboxed", digest=toolset.digest, **_now(by))
    _write_grant(root, toolset, "unsandboxed", grant)
    return grant


@locks_toolsets
def grant_server(
    root: Path, toolset_id: str, kind: Literal["process", "server"], server_id: str, *, by: str
) -> ProcessGrant | ServerGrant:
    """Let a toolset use one of its MCP servers, as currently declared.

    A ``process`` is a program that the toolset starts, a ``server`` has a URL.

    Raises:
        UnknownNameError: if the toolset does not declare the server.
        CovaltError: if the server is of the other kind; and as :func:`grant_network`.
    """
    toolset = _grantable(root, toolset_id)
    server = find_server(toolset, server_id)
    facts = grant_facts(server, toolset.files.hashes)
    if kind != facts["kind"]:
        what = "a URL, not a command" if kind == "process" else "a command, not a URL"
        raise CovaltError(
            f"the MCP server {server_id!r} has {what}",
            hint=f"covalt-git grant add {toolset_id} {facts['kind']} {server_id}",
        )
    grant = (ProcessGrant if kind == "process" else ServerGrant)(**facts, **_now(by))
    _write_grant(root, toolset, grant_key(kind, server_id), grant)
    return grant


@locks_toolsets
def grant_tool(root: Path, toolset_id: str, name: str, *, by: str) -> ToolGrant:
    """Let a registered tool, with its current entry, send its request or forward its calls.

    Raises:
        UnknownNameError: if no tool with that name is registered.
        CovaltError: if the toolset is not that of registered tools, or as :func:`grant_network`.
    """
    if toolset_id != REGISTRY_NAMESPACE:
        raise CovaltError(
            f"tools of {toolset_id!r} need no grants of their own, only registered tools do",
            hint=f"covalt-git grant add {toolset_id} --requested",
        )
    toolset = _grantable(root, toolset_id, of_tool=True)
    tool = toolset.tool(str(ToolId(toolset_id, name)))
    if tool is None:
        known = [one.id.name for one in toolset.tools]
        raise UnknownNameError("tool", name, known, list_with="covalt-git registry list")
    grant = ToolGrant(kind="tool", **tool_facts(tool), **_now(by))
    _write_grant(root, toolset, grant_key("tool", name), grant)
    return grant


@locks_toolsets
def revoke(root: Path, toolset_id: str, key: str, hosts: Sequence[str] = ()) -> Grant | None:
    """Revoke the grant with the key ``key``, or only some of its hosts; return the remaining grant.

    The toolset may have errors; only its state file must be readable.

    Raises:
        UnknownNameError: if the grant does not exist or does not contain a host.
        CovaltError: if the state file cannot be read; it is unchanged.
    """
    toolset = changeable(root, toolset_id)
    remaining = dict(toolset.state.grants)
    list_with = f"covalt-git grant list {toolset_id}"
    if key not in remaining:
        raise UnknownNameError("grant", key, remaining, list_with=list_with)
    grant = remaining.pop(key)
    rest: Grant | None = None
    if hosts and isinstance(grant, NetworkGrant | SecretGrant):
        for host in hosts:
            if host not in grant.hosts:
                raise UnknownNameError("host", host, grant.hosts, list_with=list_with)
        others = tuple(host for host in grant.hosts if host not in hosts)
        if others:
            rest = remaining[key] = grant.model_copy(update={"hosts": others})
    update_state(root, toolset, {"grants": remaining})
    return rest


@locks_toolsets
def revoke_all(root: Path, toolset_id: str) -> list[str]:
    """Revoke all grants of a toolset; return their keys.

    Raises:
        CovaltError: if the state file cannot be read; it is unchanged.
    """
    toolset = changeable(root, toolset_id)
    if toolset.state.grants:
        update_state(root, toolset, {"grants": {}})
    return sorted(toolset.state.grants)


def grant_key(kind: str, name: str) -> str:
    """Return the key of the grant of a secret, an MCP server or a registered tool in a state file."""
    return f"{kind}-{name}"


def _grantable(root: Path, toolset_id: str, *, of_tool: bool = False) -> Toolset:
    toolset = find_toolset(root, toolset_id)
    if toolset_id == REGISTRY_NAMESPACE and not of_tool:
        raise CovaltError(
            "registered tools have no grants of other kinds",
            hint=f"covalt-git grant add {toolset_id} tool NAME",
        )
    if not toolset.sound:
        errors = [one for one in toolset.problems if one.severity == "error"]
        raise CovaltError(
            f"the toolset {toolset_id!r} has errors", hint="covalt-git validate", problems=errors
        )
    return toolset


def _merge(toolset: Toolset, key: str, hosts: Sequence[str]) -> tuple[str, ...]:
    """Return ``hosts`` and those of the grant with the key ``key``, if it is for the current files."""
    for host in hosts:
        HostRule.parse(host)
    old = toolset.state.grants.get(key)
    before: tuple[str, ...] = ()
    if isinstance(old, NetworkGrant | SecretGrant) and old.digest == toolset.digest:
        before = old.hosts
    return tuple(sorted({*before, *hosts}))


def _requests(toolset: Toolset) -> dict[str, str]:
    return {tool.id.name: tool.request_digest for tool in toolset.tools if tool.http is not None}


def _now(by: str) -> _Origin:
    return {"granted_at": timestamps.now(), "granted_by": by}


def _write_grant(root: Path, toolset: Toolset, key: str, grant: Grant) -> None:
    if grant.digest == toolset.digest:  # a server's grant has another digest and needs no version
        store_current_version(root, toolset)
    update_state(root, toolset, {"grants": toolset.state.grants | {key: grant}})
