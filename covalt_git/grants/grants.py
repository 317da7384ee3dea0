"""Grants to toolsets: added to and revoked from their state files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import TypeAdapter

from covalt_git import timestamps
from covalt_git.access.grants import tool_facts
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.grants.requested import receivers
from covalt_git.hosts import HostRule
from covalt_git.manifests.project_config import config_reading
from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.models.server_definition import grant_facts
from covalt_git.models.toolset_state import Grant, NetworkGrant, SecretGrant
from covalt_git.names import REGISTRY_NAMESPACE, ToolId
from covalt_git.toolsets.permissions import trust_grant
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

    from covalt_git.json_values import JsonObject


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


GrantKind = Literal["network", "secret", "process", "server", "tool", "unsandboxed"]

_GRANT: TypeAdapter[Grant] = TypeAdapter(Grant)


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
def add_grant(
    root: Path,
    toolset_id: str,
    kind: GrantKind,
    name: str = "",
    hosts: Sequence[str] = (),
    *,
    by: str,
    reason: str | None = None,
) -> tuple[str, Grant]:
    """Add a grant to a toolset; return its key and the grant.

    It is for the current files of the toolset, the current declaration of an MCP server (``process`` is a program
    that the toolset starts, ``server`` has a URL), or the current entry of a registered tool.  Hosts are added to
    those that are granted for the same files.  The toolset's Python code gets a secret, whatever the hosts are,
    even without a host.  ``unsandboxed`` lets the tools of an imported toolset run on machines without a sandbox.
    Only ``toolsets/state/<id>.yaml`` is written.  The grant is trusted on this machine, with the ``reason`` that a
    script stated; hosts that were granted before stay as they are.

    Raises:
        BadHostError: if a host is invalid.
        HostNeededError: if a secret has no host, but an HTTP tool sends it to one.
        UnknownNameError: if the toolset does not have the secret, the MCP server or the tool.
        CovaltError: if the toolset or its state has errors, or cannot have this kind of grant.
    """
    toolset = _grantable(root, toolset_id, kind)
    key = grant_key(kind, name)
    facts = {"kind": kind, "granted_at": timestamps.now(), "granted_by": by}
    grant = _GRANT.validate_python(facts | _covered(toolset, kind, name, hosts))
    if grant.digest == toolset.digest:  # a server's grant has another digest and needs no version
        store_current_version(root, toolset)
    update_state(root, toolset, {"grants": toolset.state.grants | {key: grant}})
    decided = grant
    if isinstance(grant, NetworkGrant | SecretGrant):
        decided = grant.model_copy(update={"hosts": tuple(sorted(hosts))})
    trust_grant(read_toolset(root, toolset_id), config_reading(root).value, key, decided, reason)
    return key, grant


def _covered(toolset: Toolset, kind: GrantKind, name: str, hosts: Sequence[str]) -> JsonObject:
    """Return the fields of a grant that describe what it covers."""
    match kind:
        case "network":
            return {"hosts": _merge(toolset, kind, hosts), **_for_files(toolset)}
        case "secret":
            declared = toolset.manifest.secrets if toolset.manifest else ()
            if name not in declared:
                list_with = f"covalt-git toolset show {toolset.id}"
                raise UnknownNameError("secret", name, declared, list_with=list_with)
            if not hosts and (sending := receivers(toolset, name)):
                raise HostNeededError(toolset.id, name, sending)
            merged = _merge(toolset, grant_key(kind, name), hosts)
            facts = _for_files(toolset) if merged else {"digest": toolset.digest}
            return {"name": name, "hosts": merged, **facts}
        case "tool":
            tool = toolset.tool(str(ToolId(toolset.id, name)))
            if tool is None:
                known = [one.id.name for one in toolset.tools]
                raise UnknownNameError("tool", name, known, list_with="covalt-git registry list")
            return tool_facts(tool)
        case "unsandboxed":
            return {"digest": toolset.digest}
    facts = grant_facts(find_server(toolset, name), toolset.files.hashes)
    if kind != facts["kind"]:
        what = "a URL, not a command" if kind == "process" else "a command, not a URL"
        raise CovaltError(
            f"the MCP server {name!r} has {what}",
            hint=f"covalt-git grant add {toolset.id} {facts['kind']} {name}",
        )
    return facts


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


def grant_key(kind: str, name: str | None) -> str:
    """Return the key of a grant in a state file; those of hosts and of running unsandboxed have no name."""
    return kind if kind in {"network", "unsandboxed"} else f"{kind}-{name}"


def _grantable(root: Path, toolset_id: str, kind: GrantKind) -> Toolset:
    if kind == "tool" and toolset_id != REGISTRY_NAMESPACE:
        raise CovaltError(
            f"tools of {toolset_id!r} need no grants of their own, only registered tools do",
            hint=f"covalt-git grant add {toolset_id} --requested",
        )
    toolset = find_toolset(root, toolset_id)
    if kind != "tool" and toolset_id == REGISTRY_NAMESPACE:
        raise CovaltError(
            "registered tools have no grants of other kinds",
            hint=f"covalt-git grant add {toolset_id} tool NAME",
        )
    if not toolset.sound:
        errors = [one for one in toolset.problems if one.severity == "error"]
        raise CovaltError(
            f"the toolset {toolset_id!r} has errors", hint="covalt-git validate", problems=errors
        )
    if kind == "unsandboxed" and not toolset.state.imported:
        raise CovaltError(
            f"the toolset {toolset_id!r} is the project's own, which may run without a sandbox"
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


def _for_files(toolset: Toolset) -> JsonObject:
    """Return the digest of the current files, and those of the requests that may outlive it."""
    http = [tool for tool in toolset.tools if tool.http is not None]
    return {
        "digest": toolset.digest,
        "requests": {tool.id.name: tool.request_digest for tool in http},
    }
