"""Grants to toolsets: added to and revoked from their state files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.errors import UnknownNameError
from covalt_git.grants.plans import GrantPlan, Review, WantedGrant, plan_grants
from covalt_git.manifests.project_config import config_reading
from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.models.toolset_state import Grant, NetworkGrant, SecretGrant
from covalt_git.toolsets.state_store import changeable, find_toolset, state_file, update_state
from covalt_git.toolsets.toolset import Toolset, read_toolset
from covalt_git.toolsets.update_lock import locks_toolsets
from covalt_git.toolsets.version_store import store_current_version
from covalt_git.trust import Consents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from covalt_git.grants.plans import GrantKind


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
def add_grants(
    root: Path,
    toolset_id: str,
    choose: Callable[[Toolset], Iterable[WantedGrant]],
    review: Review = Review(),  # noqa: B008 - it is immutable
    *,
    by: str,
    reason: str | None = None,
) -> GrantPlan:
    """Add the grants that ``choose`` returns for a toolset; return what was added and trusted.

    They are for the current files of the toolset, the current declaration of an MCP server (``process`` is a program
    that the toolset starts, ``server`` has a URL), or the current entry of a registered tool.  Hosts are added to
    those that are granted for the same files.  The toolset's Python code gets a secret, whatever the hosts are,
    even without a host.  ``unsandboxed`` lets the tools of an imported toolset run on machines without a sandbox.
    Only ``toolsets/state/<id>.yaml`` is written.  The permissions of the plan are trusted on this machine, with the
    ``reason`` that a script stated; hosts that were granted before stay as they are.

    Raises:
        StaleError: if the toolset or its permissions are not those of the ``review``; nothing is granted.
        CovaltError: as :func:`covalt_git.grants.plans.plan_grants`.
    """
    # The wait for the lock may be long, and a pull takes no lock.  So the review is compared with the same reading
    # of the toolset from which the grants are made.
    toolset = find_toolset(root, toolset_id)
    review.check_files(toolset)
    plan = plan_grants(toolset, config_reading(root).value, choose(toolset), by=by)
    review.check_plan(toolset, plan)
    if not plan.grants:
        return plan
    if any(grant.digest == toolset.digest for grant in plan.grants.values()):
        store_current_version(root, toolset)  # a server's grant has another digest
    update_state(root, toolset, {"grants": toolset.state.grants | plan.grants})
    Consents.of(root).trust(plan.permissions, reason)
    return plan


def add_grant(
    root: Path,
    toolset_id: str,
    kind: GrantKind,
    name: str = "",
    hosts: Sequence[str] = (),
    review: Review = Review(),  # noqa: B008 - it is immutable
    *,
    by: str,
    reason: str | None = None,
) -> tuple[str, Grant]:
    """Add one grant, as :func:`add_grants`; return its key and the grant."""
    wanted = WantedGrant(kind, name, tuple(hosts))
    plan = add_grants(root, toolset_id, lambda _: [wanted], review, by=by, reason=reason)
    return wanted.key, plan.grants[wanted.key]


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
