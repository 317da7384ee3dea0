"""Grants to toolsets: added to and revoked from their state files."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from covalt_git.errors import UnknownNameError
from covalt_git.grants.plans import GrantPlan, Review, WantedGrant, plan_grants
from covalt_git.manifests.project_config import config_reading
from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.models.toolset_state import Grant, NetworkGrant, SecretGrant, grant_key
from covalt_git.toolsets.permissions import withdraw_calls
from covalt_git.toolsets.state_store import changeable, find_toolset, state_file, update_state
from covalt_git.toolsets.toolset import Toolset, read_toolset
from covalt_git.toolsets.update_lock import locks_toolsets
from covalt_git.toolsets.version_store import store_current_version
from covalt_git.trust import Consents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from covalt_git.grants.plans import GrantKind
    from covalt_git.json_values import JsonObject
    from covalt_git.trust import TrustedFact


def grants(root: Path, toolset_id: str | None = None) -> list[tuple[Toolset, str, Grant]]:
    """Return the grants of all toolsets or of one, sorted: the toolset, the key and the grant.

    Raises:
        UnknownNameError: if the toolset does not exist; the hint has the most similar one.
    """
    if toolset_id is None:
        files = (state_file(root, name) for name in toolset_ids(root / "toolsets"))
        toolsets = [read_toolset(root, file.stem) for file in files if file.exists()]
    else:
        toolsets = [find_toolset(root, toolset_id)]
    return [
        (toolset, key, grant)
        for toolset in toolsets
        for key, grant in sorted(toolset.state.grants.items())
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
    # The file first: a process that is killed in between leaves a grant that is not trusted. A trust without its
    # grant would act as soon as a pull adds one.
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
    grant = WantedGrant(kind, name, tuple(hosts))
    plan = add_grants(root, toolset_id, lambda _: [grant], review, by=by, reason=reason)
    ((key, added),) = plan.grants.items()
    return key, added


def _program_key(root: Path, toolset_id: str, key: str) -> str:
    """Return the key of a program's grant for the kinds that its users write: server-NAME, unsandboxed-NAME."""
    kind, _, name = key.partition("-")
    if (
        kind not in {"server", "unsandboxed"}
        or not name
        or toolset_id not in toolset_ids(root / "toolsets")
    ):
        return key
    grants = find_toolset(root, toolset_id).state.grants
    program = grant_key("process", name)
    return program if key not in grants and program in grants else key


class Revocation(NamedTuple):
    """What a user has revoked.

    Attributes:
        keys: The keys of the grants that are gone, from the state file or from what the user had trusted.
        left: The remaining grant if only some hosts were revoked.
        withdrawn: The permissions that are no longer trusted on this machine, in the words of the decision.
    """

    keys: tuple[str, ...]
    left: Grant | None = None
    withdrawn: tuple[str, ...] = ()


@locks_toolsets
def revoke(root: Path, toolset_id: str, key: str, hosts: Sequence[str] = ()) -> Revocation:
    """Revoke the grant with the key ``key``, or only some of its hosts.

    The toolset may have errors; only its state file must be readable.  First the trust of this machine ends, also
    in a grant that a pull has taken out of the state file, or whose toolset it has removed: a later pull that
    restores it needs trust again.

    Raises:
        UnknownNameError: if the grant does not exist or does not contain a host, and neither was trusted.
        CovaltError: if the state file cannot be read; it is unchanged, but the trust has ended.
    """
    consents = Consents.of(root)
    trusted = consents.about(toolset_id)
    key = _program_key(root, toolset_id, key)
    facts = [
        trusted_fact.fact
        for trusted_fact in trusted.values()
        if trusted_fact.fact.get("grant") == key
    ]
    toolset = _toolset(root, toolset_id, may_be_gone=bool(facts))
    grants = toolset.state.grants if toolset is not None else {}
    grant = grants.get(key)
    list_with = f"covalt-git grant list {toolset_id}"
    if grant is None and not facts:
        changeable(root, toolset_id)
        raise UnknownNameError("grant", key, grants, list_with=list_with)
    granted = set(grant.hosts) if isinstance(grant, NetworkGrant | SecretGrant) else set[str]()
    hosts_known = granted | {fact["host"] for fact in facts if "host" in fact}
    revoked = set(hosts) if hosts_known else set[str]()  # other grants have no hosts
    for host in sorted(revoked - hosts_known):
        raise UnknownNameError("host", host, hosts_known, list_with=list_with)
    rest = (granted if grant is not None else hosts_known) - revoked if revoked else set[str]()

    def ends(fact: JsonObject) -> bool:
        return fact.get("grant") == key and (not rest or fact.get("host") in revoked)

    # First, so that the trust ends even if the state file cannot be read
    # (test_the_trust_ends_if_the_state_file_cannot_be_read).
    consents.distrust_earlier(toolset_id, ends, ())
    left: Grant | None = None
    if toolset is not None:
        changeable(root, toolset_id)
        if grant is not None:
            remaining = {name: other for name, other in grants.items() if name != key}
            if rest and isinstance(grant, NetworkGrant | SecretGrant):
                others = tuple(host for host in grant.hosts if host in rest)
                left = remaining[key] = grant.model_copy(update={"hosts": others})
            update_state(root, toolset, {"grants": remaining})
    if not rest:
        withdraw_calls(root, toolset_id, toolset and read_toolset(root, toolset_id))
    return Revocation(() if rest else (key,), left, _withdrawn(trusted, consents, toolset_id))


@locks_toolsets
def revoke_all(root: Path, toolset_id: str) -> Revocation:
    """Revoke all grants of a toolset, as :func:`revoke`.

    Raises:
        UnknownNameError: if the toolset does not exist, and no grant of it was trusted.
        CovaltError: if the state file cannot be read; it is unchanged, but the trust has ended.
    """
    consents = Consents.of(root)
    trusted = consents.about(toolset_id)
    keys = {
        str(trusted_fact.fact["grant"])
        for trusted_fact in trusted.values()
        if "grant" in trusted_fact.fact
    }
    toolset = _toolset(root, toolset_id, may_be_gone=bool(keys))
    consents.distrust_earlier(toolset_id, lambda fact: "grant" in fact, ())
    if toolset is not None:
        changeable(root, toolset_id)
        keys |= toolset.state.grants.keys()
        if toolset.state.grants:
            update_state(root, toolset, {"grants": {}})
    withdraw_calls(root, toolset_id, toolset and read_toolset(root, toolset_id))
    return Revocation(tuple(sorted(keys)), None, _withdrawn(trusted, consents, toolset_id))


def _toolset(root: Path, toolset_id: str, *, may_be_gone: bool) -> Toolset | None:
    """Return a toolset; None for one that does not exist, if it may be gone."""
    if may_be_gone and toolset_id not in toolset_ids(root / "toolsets"):
        return None
    return find_toolset(root, toolset_id)


def _withdrawn(
    trusted_before: Mapping[str, TrustedFact], consents: Consents, toolset_id: str
) -> tuple[str, ...]:
    """Return the words of what is no longer trusted."""
    gone = trusted_before.keys() - consents.about(toolset_id).keys()
    return tuple(sorted(trusted_before[name].words for name in gone))
