"""Grants to toolsets: added to and revoked from their state files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

from covalt_git import timestamps
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.grants.requested import receivers
from covalt_git.hosts import HostRule
from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.models.server_definition import process_facts, server_facts
from covalt_git.models.toolset_state import (
    NetworkGrant,
    ProcessGrant,
    SecretGrant,
    ServerGrant,
    UnsandboxedGrant,
)
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
    """A secret that HTTP tools send is to be granted without a word about where to."""

    code = "host_needed"

    def __init__(self, toolset_id: str, name: str, receivers: Mapping[str, str]) -> None:
        tools = ", ".join(f"{toolset_id}:{tool}" for tool in receivers)
        hosts = " ".join(sorted(set(filter(None, receivers.values())))) or "HOST"
        super().__init__(
            f"{tools} would send the secret {name!r} to a host, which has to be named",
            hint=f"covalt-git grant add {toolset_id} secret {name} {hosts}",
        )


class _GivenBy(TypedDict):
    granted_at: str
    granted_by: str


def grants(root: Path, toolset_id: str | None = None) -> list[tuple[Toolset, str, Grant]]:
    """Return what was granted, to all toolsets or one, sorted: to whom, under which key, and what.

    Raises:
        UnknownNameError: naming the nearest toolset.
    """
    if toolset_id is None:
        decided = (state_file(root, one) for one in toolset_ids(root / "toolsets"))
        toolsets = [read_toolset(root, file.stem) for file in decided if file.exists()]
    else:
        toolsets = [find_toolset(root, toolset_id)]
    return [
        (one, key, grant) for one in toolsets for key, grant in sorted(one.state.grants.items())
    ]


@locks_toolsets
def grant_network(root: Path, toolset_id: str, hosts: Sequence[str], *, by: str) -> NetworkGrant:
    """Let a toolset, as its files are now, reach these hosts as well; return all that it may reach.

    Only ``toolsets/state/<id>.yaml`` is written.

    Raises:
        BadHostError: when one of them is no host.
        CovaltError: when the toolset or its state has errors: what is granted has to be known.
    """
    toolset = _grantable(root, toolset_id)
    old = toolset.state.grants.get("network")
    kept = old.hosts if isinstance(old, NetworkGrant) and old.digest == toolset.digest else ()
    grant = NetworkGrant(
        kind="network",
        hosts=_with(kept, hosts),
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
    """Let a toolset, as its files are now, send a secret to these hosts; return where it may go.

    Its Python is given the secret whatever the hosts are, so that it needs none.

    Raises:
        HostNeededError: when there is no host, and an HTTP tool sends the secret to one.
        UnknownNameError: when the toolset does not ask for that secret; and as :func:`grant_network`.
    """
    toolset = _grantable(root, toolset_id)
    asked = toolset.manifest.secrets if toolset.manifest else ()
    if name not in asked:
        list_with = f"covalt-git toolset show {toolset_id}"
        raise UnknownNameError("secret", name, asked, list_with=list_with)
    if not hosts and (sending := receivers(toolset, name)):
        raise HostNeededError(toolset_id, name, sending)
    key = secret_key(name)
    old = toolset.state.grants.get(key)
    kept = old.hosts if isinstance(old, SecretGrant) and old.digest == toolset.digest else ()
    grant = SecretGrant(
        kind="secret",
        name=name,
        hosts=(towards := _with(kept, hosts)),
        digest=toolset.digest,
        requests=_requests(toolset) if towards else {},
        **_now(by),
    )
    _write_grant(root, toolset, key, grant)
    return grant


@locks_toolsets
def grant_unsandboxed(root: Path, toolset_id: str, *, by: str) -> UnsandboxedGrant:
    """Let the tools of an imported toolset, as its files are now, run where no sandbox is to be had.

    Raises:
        CovaltError: when it is the project's own, which needs no grant; and as :func:`grant_network`.
    """
    toolset = _grantable(root, toolset_id)
    if not toolset.state.imported:
        raise CovaltError(f"the toolset {toolset_id!r} is the project's own: it runs at any level")
    grant = UnsandboxedGrant(kind="unsandboxed", digest=toolset.digest, **_now(by))
    _write_grant(root, toolset, "unsandboxed", grant)
    return grant


@locks_toolsets
def grant_process(root: Path, toolset_id: str, server_id: str, *, by: str) -> ProcessGrant:
    """Let a toolset start the program of one of its MCP servers, exactly as it is now.

    Raises:
        UnknownNameError: when it declares no such server.
        CovaltError: when the server is at an address; and as :func:`grant_network`.
    """
    toolset = _grantable(root, toolset_id)
    server = find_server(toolset, server_id)
    if server.command is None:
        raise CovaltError(
            f"the MCP server {server_id!r} is at an address, and no program",
            hint=f"covalt-git grant add {toolset_id} server {server_id}",
        )
    grant = ProcessGrant(**process_facts(server, toolset.files.hashes), **_now(by))
    _write_grant(root, toolset, server_key("process", server_id), grant)
    return grant


@locks_toolsets
def grant_server(root: Path, toolset_id: str, server_id: str, *, by: str) -> ServerGrant:
    """Let a toolset use one of its MCP servers at an address, exactly as it is declared now.

    Raises:
        UnknownNameError: when it declares no such server.
        CovaltError: when the server is a program; and as :func:`grant_network`.
    """
    toolset = _grantable(root, toolset_id)
    server = find_server(toolset, server_id)
    if server.url is None:
        raise CovaltError(
            f"the MCP server {server_id!r} is a program, at no address",
            hint=f"covalt-git grant add {toolset_id} process {server_id}",
        )
    grant = ServerGrant(**server_facts(server), **_now(by))
    _write_grant(root, toolset, server_key("server", server_id), grant)
    return grant


@locks_toolsets
def revoke(root: Path, toolset_id: str, key: str, hosts: Sequence[str] = ()) -> Grant | None:
    """Take back what was granted under ``key``, or only these hosts of it; return what is left.

    A toolset with errors loses grants like any other; only its state file has to be readable.

    Raises:
        UnknownNameError: when there is no such grant, or no such host in it.
        CovaltError: when the state file cannot be read; it is left as it is.
    """
    toolset = changeable(root, toolset_id)
    given = dict(toolset.state.grants)
    list_with = f"covalt-git grant list {toolset_id}"
    if key not in given:
        raise UnknownNameError("grant", key, given, list_with=list_with)
    grant = given.pop(key)
    left: Grant | None = None
    if hosts and isinstance(grant, NetworkGrant | SecretGrant):
        for host in hosts:
            if host not in grant.hosts:
                raise UnknownNameError("host", host, grant.hosts, list_with=list_with)
        kept = tuple(host for host in grant.hosts if host not in hosts)
        if kept:
            left = given[key] = grant.model_copy(update={"hosts": kept})
    update_state(root, toolset, {"grants": given})
    return left


@locks_toolsets
def revoke_all(root: Path, toolset_id: str) -> list[str]:
    """Take back all that was granted to a toolset; return the keys it stood under.

    Raises:
        CovaltError: when the state file cannot be read; it is left as it is.
    """
    toolset = changeable(root, toolset_id)
    if toolset.state.grants:
        update_state(root, toolset, {"grants": {}})
    return sorted(toolset.state.grants)


def secret_key(name: str) -> str:
    """Return the key under which a state file holds the grant of a secret."""
    return f"secret-{name}"


def server_key(kind: Literal["process", "server"], server_id: str) -> str:
    """Return the key under which a state file holds the grant of an MCP server."""
    return f"{kind}-{server_id}"


def _grantable(root: Path, toolset_id: str) -> Toolset:
    toolset = find_toolset(root, toolset_id)
    if not toolset.sound:
        broken = [one for one in toolset.problems if one.severity == "error"]
        raise CovaltError(
            f"the toolset {toolset_id!r} has errors", hint="covalt-git validate", problems=broken
        )
    return toolset


def _with(kept: tuple[str, ...], hosts: Sequence[str]) -> tuple[str, ...]:
    for host in hosts:
        HostRule.parse(host)
    return tuple(sorted({*kept, *hosts}))


def _requests(toolset: Toolset) -> dict[str, str]:
    return {tool.id.name: tool.request_digest for tool in toolset.tools if tool.http is not None}


def _now(by: str) -> _GivenBy:
    return {"granted_at": timestamps.now(), "granted_by": by}


def _write_grant(root: Path, toolset: Toolset, key: str, grant: Grant) -> None:
    if grant.digest == toolset.digest:  # else it is for one server, and says itself what that is
        store_current_version(root, toolset)
    update_state(root, toolset, {"grants": toolset.state.grants | {key: grant}})
