"""Permissions of a toolset, and whether the user of this machine has trusted them."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from covalt_git.access.approval_required import least_limiting
from covalt_git.access.free_calls import free_calls
from covalt_git.checks.effects import is_destructive
from covalt_git.manifests.project_config import config_reading
from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.models.toolset_state import (
    NetworkGrant,
    ProcessGrant,
    SecretGrant,
    ServerGrant,
    ToolGrant,
)
from covalt_git.names import REGISTRY_NAMESPACE, ToolId
from covalt_git.toolsets.offers import offers_of
from covalt_git.trust import (
    Consents,
    Permission,
    UnreadableConsentError,
    conditional,
    own_code,
    state_permissions,
    trusted_config,
    without_approval,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from covalt_git.errors import CovaltError
    from covalt_git.json_values import JsonObject
    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.models.rules import PolicyRule
    from covalt_git.models.tool import Tool
    from covalt_git.models.toolset_manifest import McpServer
    from covalt_git.models.toolset_state import Grant, ToolsetState
    from covalt_git.toolsets.offers import ServerOffer
    from covalt_git.toolsets.toolset import Toolset

_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods of requests that change nothing."""


def permissions_of(toolset: Toolset, config: ProjectConfig) -> list[Permission]:
    """Return the permissions of a toolset: those of its state file, and what is called and read without approval.

    Approval can end in many places: an annotation, a default, a decorator, an override, a rule.  So the permission
    is about the result, for each tool.  A toolset without grants reaches nothing outside of the sandbox, and needs
    no permission for that.
    """
    free = _without_approval(toolset, config.rules, toolset.tools, _accepted_offers(toolset))
    return [*_of_state(toolset), *free]


def untrusted_words(toolset: Toolset, config: ProjectConfig) -> tuple[str, ...]:
    """Return the permissions of a toolset that the user of this machine has not trusted, as texts."""
    lacking = Consents.of(toolset.root).lacking(permissions_of(toolset, config), strict=False)
    return tuple(permission.text for permission in lacking)


class LeftOver(NamedTuple):
    """The grant of an MCP server that a toolset no longer has.  It permits nothing, and needs no trust."""

    key: str
    server: str
    words: str
    command: str


def left_over(toolset: Toolset) -> tuple[LeftOver, ...]:
    """Return the grants of servers that a toolset does not have, which can only be revoked."""
    grants = _inert_grants(toolset)
    if not grants:
        return ()
    state = toolset.state.model_copy(update={"grants": grants, "accepted": {}})
    words = {
        str(permission.fact["grant"]): permission.text
        for permission in state_permissions(toolset.id, state, _details(toolset))
    }
    return tuple(
        LeftOver(
            key,
            grant.server,
            words[key],
            f"covalt-git grant revoke {toolset.id} server {grant.server}",
        )
        for key, grant in grants.items()
    )


def is_left_over(toolset: Toolset, key: str) -> bool:
    """Return whether a grant is of a server that the toolset does not have."""
    return key in _inert_grants(toolset)


def end_left_over(toolset: Toolset) -> None:
    """End the trust in the grants of servers that a toolset does not have.

    They permit nothing now.  If a pull brings the server back, its grant must not act again by an earlier decision of
    the user, who has seen the toolset without it.
    """
    keys = _inert_grants(toolset).keys()
    if keys:
        consents = Consents.of(toolset.root)
        consents.distrust_earlier(toolset.id, lambda fact: fact.get("grant") in keys, ())


def _inert_grants(toolset: Toolset) -> dict[str, ProcessGrant | ServerGrant]:
    """Return the grants of servers that a toolset does not have; none if its manifest cannot be read."""
    if toolset.manifest is None:
        return {}
    servers = {server.id for server in toolset.manifest.mcp_servers}
    return {
        key: grant
        for key, grant in toolset.state.grants.items()
        if isinstance(grant, ProcessGrant | ServerGrant) and grant.server not in servers
    }


def unreadable_consent(toolset: Toolset, config: ProjectConfig) -> CovaltError | None:
    """Return the error of a file with consents that cannot be used, so that permissions of a toolset count as untrusted."""
    try:
        Consents.of(toolset.root).lacking(permissions_of(toolset, config))
    except UnreadableConsentError as error:
        return error
    return None


def check_trusted(
    toolset: Toolset, tool: Tool, config: ProjectConfig, *, sandboxed: bool = True
) -> None:
    """Check that the user has trusted the permissions of a toolset on this machine, before a tool of it runs.

    All of them are checked, not only those that a call uses: a Python tool decides itself what it uses.  A
    registered tool has permissions of its own only.

    Args:
        toolset: A toolset of a project.
        tool: The tool that is called.
        config: The configuration of the project.
        sandboxed: Whether its code runs in a sandbox; without one, the project's own code needs trust too.

    Raises:
        NotTrustedError: with the permissions that are not trusted.
    """
    end_left_over(toolset)
    permissions = _of_state(toolset)
    tools: Sequence[Tool] = toolset.tools
    if toolset.id == REGISTRY_NAMESPACE:
        # Only grants of other tools are left out: a grant of a host would act on each registered tool.
        permissions = [
            permission
            for permission in permissions
            if permission.fact.get("tool") in {None, tool.id.name}
        ]
        tools = [tool]
    permissions += _without_approval(toolset, config.rules, tools)
    if not sandboxed and not toolset.state.imported:
        permissions.append(own_code())
    Consents.of(toolset.root).check(permissions)


def check_servers_trusted(toolset: Toolset) -> None:
    """Check that the user has trusted the grants of a toolset on this machine, before a server of it is used.

    Raises:
        NotTrustedError: with the permissions that are not trusted.
    """
    end_left_over(toolset)
    Consents.of(toolset.root).check(_of_state(toolset))


def check_offers_trusted(offers: Sequence[ServerOffer], config: ProjectConfig) -> None:
    """Check that the user has trusted that these offers of servers are read without approval on this machine.

    Raises:
        NotTrustedError: with the permissions that are not trusted.
    """
    by_toolset: dict[str, list[ServerOffer]] = {}
    for offer in offers:
        by_toolset.setdefault(offer.toolset.id, []).append(offer)
    for of_toolset in by_toolset.values():
        toolset = of_toolset[0].toolset
        end_left_over(toolset)
        free = _without_approval(toolset, config.rules, (), of_toolset)
        Consents.of(toolset.root).check([*_of_state(toolset), *free])


def trusted_offers(offers: Sequence[ServerOffer], config: ProjectConfig) -> list[ServerOffer]:
    """Return the offers that :func:`check_offers_trusted` passes, in their order."""
    trusted: set[str] = set()
    by_toolset: dict[str, list[ServerOffer]] = {}
    for offer in offers:
        by_toolset.setdefault(offer.toolset.id, []).append(offer)
    for of_toolset in by_toolset.values():
        toolset = of_toolset[0].toolset
        consents = Consents.of(toolset.root)
        # The permissions of the toolset are those of each of its offers, and it may have a thousand.
        if consents.lacking(_of_state(toolset)):
            continue
        # One permission about all of them, so that its consent is read once.
        lacking = consents.lacking(_without_approval(toolset, config.rules, (), of_toolset))
        names = {name for permission in lacking for name in permission.reach}
        trusted |= {
            offer.id for offer in of_toolset if _declared(toolset.state, offer.key) not in names
        }
    return [offer for offer in offers if offer.id in trusted]


def permissions_of_grants(
    toolset: Toolset, config: ProjectConfig | None, decided: Mapping[str, Grant]
) -> list[Permission]:
    """Return what a user permits by adding grants: what they are for, and the calls that need no approval by default.

    Approvals that the toolset or a rule waives are not part of the decision: the user has not seen them.

    Args:
        toolset: The toolset with the grants.
        config: The configuration of the project; None if it has errors, so that nothing can be called.
        decided: The grants by their keys, with only the hosts that the user decides about.
    """
    # Only what this decision is about: other grants in the state file may come from a pull, and the question does not
    # show them.
    state = toolset.state.model_copy(update={"grants": dict(decided), "accepted": {}})
    permissions = state_permissions(toolset.id, state, _details(toolset))
    if config is None or not decided:
        return permissions
    tools = [tool for tool in toolset.tools if not is_approval_waived(toolset, tool)]
    if toolset.id == REGISTRY_NAMESPACE:
        names = {grant.tool for grant in decided.values() if isinstance(grant, ToolGrant)}
        tools = [tool for tool in tools if tool.id.name in names]
    offers = [offer for offer in _accepted_offers(toolset) if not offer.approval_is_waived]
    return permissions + _without_approval(toolset, _requiring(config), tools, offers)


def trust_accepted(toolset: Toolset, accepted: dict[str, str], reason: str | None) -> None:
    """Trust definitions of servers, by their keys, that the user has just accepted.

    A resource, a template or a prompt is accepted to be read, so its reading without approval is trusted too, unless
    only the project's override waives the approval.

    Args:
        toolset: The toolset, read after the decision.
        accepted: The digests of the definitions.
        reason: The reason that a script stated.
    """
    decided = toolset.state.model_copy(update={"grants": {}, "accepted": accepted})
    permissions = state_permissions(toolset.id, decided)
    config = config_reading(toolset.root).value
    if config is not None:
        offers = [
            offer
            for offer in _accepted_offers(toolset)
            if offer.key in accepted and not offer.approval_is_waived
        ]
        permissions += _without_approval(toolset, _requiring(config), (), offers)
    Consents.of(toolset.root).trust(permissions, reason)


def is_accepted_here(toolset: Toolset, key: str, digest: str) -> bool:
    """Return whether a definition with a digest is the accepted one, and its acceptance is trusted on this machine.

    A pull can change the lock and the state file of a toolset.
    """
    if toolset.state.accepted.get(key) != digest:
        return False
    state = toolset.state.model_copy(update={"grants": {}, "accepted": {key: digest}})
    return not Consents.of(toolset.root).lacking(state_permissions(toolset.id, state), strict=False)


def not_accepted_here(toolset: Toolset) -> set[str]:
    """Return the keys of accepted definitions whose acceptance is not trusted on this machine, as after a pull."""
    if not toolset.state.accepted:
        return set()
    state = toolset.state.model_copy(update={"grants": {}})
    lacking = Consents.of(toolset.root).lacking(state_permissions(toolset.id, state))
    return {permission.fact["accepted"] for permission in lacking}


def is_trusted(toolset: Toolset, key: str) -> bool:
    """Return whether a grant of a toolset acts on this machine."""
    grants = {key: toolset.state.grants[key]} if key in toolset.state.grants else {}
    state = toolset.state.model_copy(update={"grants": grants, "accepted": {}})
    permissions = state_permissions(toolset.id, state, _details(toolset))
    return not Consents.of(toolset.root).lacking(permissions, strict=False)


def trust_waiver(
    toolset: Toolset, config: ProjectConfig, tool: Tool, reason: str | None = None
) -> None:
    """Trust that a tool runs without approval, after the user's override of it."""
    waived = _without_approval(toolset, _requiring(config), [tool])
    Consents.of(toolset.root).trust(waived, reason)


def withdraw_removed(old: Toolset, new: Toolset | None) -> None:
    """End the trust in what a command of the user has removed, so that a pull that restores it needs trust again.

    The trust in earlier forms of a grant ends too.  A pull may have changed the grant since the user trusted it, and the
    user who revokes it sees only its current form.

    Args:
        old: The toolset before the change.
        new: The toolset after it; None if it was removed.
    """
    consents = Consents.of(old.root)
    remaining = _all(new) if new is not None else []
    keys = {permission.key for permission in remaining}
    removed = [permission for permission in _all(old) if permission.key not in keys]
    consents.distrust(removed)
    consents.distrust_earlier(old.id, _ended(removed, new), keys)
    for permission in remaining:
        consents.narrow(permission)


def withdraw_calls(root: Path, toolset_id: str, after: Toolset | None) -> None:
    """End the trust in calls without approval that a toolset without a revoked grant no longer has.

    Args:
        root: The folder of the project.
        toolset_id: The toolset.
        after: The toolset; None if it does not exist.
    """
    remaining = {permission.key for permission in _all(after)} if after is not None else set[str]()
    Consents.of(root).distrust_earlier(toolset_id, lambda fact: "free_calls" in fact, remaining)


def is_approval_waived(toolset: Toolset, tool: Tool) -> bool:
    """Return whether a tool needs no approval because the project says so, though it would by default."""
    if tool.confirmation:
        return False
    name = tool.id.name
    manifest = toolset.manifest if not tool.is_locked else None
    declarations = manifest.tools if manifest is not None else []
    declared = next((entry for entry in declarations if entry.id == name), None)
    override = toolset.state.overrides.get(name) or toolset.state.overrides.get(tool.tool_id)
    return (
        tool.kind == "mcp"
        or (override is not None and override.requires_confirmation is False)
        or tool.annotations.destructive is True
        or (
            declared is not None
            and is_destructive(declared, toolset.sources.get(name), imported=True)
        )
    )


def _all(toolset: Toolset) -> list[Permission]:
    """Return the permissions of a toolset that act; rules that are not trusted waive nothing."""
    config = config_reading(toolset.root).value
    rules: tuple[PolicyRule, ...] = ()
    if config is not None:
        rules = trusted_config(config, Consents.of(toolset.root)).rules
    free = _without_approval(toolset, rules, toolset.tools, _accepted_offers(toolset))
    return [*_of_state(toolset), *free]


def _accepted_offers(toolset: Toolset) -> list[ServerOffer]:
    return [offer for offer in offers_of(toolset) if offer.is_accepted]


def _ended(removed: Iterable[Permission], after: Toolset | None) -> Callable[[JsonObject], bool]:
    """Return whether the trust in a fact about a toolset ends with these permissions, whatever else the fact says."""
    if after is None:
        return lambda _: True
    parts = {
        (name, permission.fact[name])
        for permission in removed
        for name in ("grant", "accepted")
        if name in permission.fact
    }
    # If no grant is left, the user has revoked every grant that the toolset ever had.
    no_grant_is_left = not after.state.grants and any(name == "grant" for name, _ in parts)

    def ends(fact: JsonObject) -> bool:
        if "free_calls" in fact:
            return True  # such as of an earlier entry of a registered tool, or of grants that a pull has removed
        if no_grant_is_left and "grant" in fact:
            return True
        return any((name, fact.get(name)) in parts for name in ("grant", "accepted"))

    return ends


def _of_state(toolset: Toolset) -> list[Permission]:
    """Return the permissions in the state file, without the grants of servers that the toolset does not have."""
    state, inert = toolset.state, _inert_grants(toolset)
    if inert:
        acting = {key: grant for key, grant in state.grants.items() if key not in inert}
        state = state.model_copy(update={"grants": acting})
    return state_permissions(toolset.id, state, _details(toolset))


def _requiring(config: ProjectConfig) -> tuple[PolicyRule, ...]:
    """Return the rules that deny or ask: a decision about anything else never trusts what a rule allows."""
    return tuple(rule for rule in config.rules if rule.requires)


def _without_approval(
    toolset: Toolset,
    rules: Collection[PolicyRule],
    tools: Iterable[Tool],
    offers: Iterable[ServerOffer] = (),
) -> list[Permission]:
    """Return the permission to call these tools, and to read these offers, without approval, if the toolset has grants."""
    state = toolset.state
    if toolset.id != REGISTRY_NAMESPACE:
        if not state.grants:
            return []
        reach: dict[str, dict[str, str]] = {}
        apart = set[str]()
        for tool in tools:
            free = _free_calls(toolset, rules, tool)
            reach |= free
            if free and _is_apart(toolset, tool):
                apart.add(_declared(state, tool.name_in_state))
        for offer in offers:
            if not offer.needs_approval(least_limiting(rules)):
                reach[_declared(state, offer.key)] = {}
                if offer.approval_is_waived:
                    apart.add(_declared(state, offer.key))
        return [without_approval(toolset.id, state, reach, apart=apart)] if reach else []
    entries = {
        grant.tool: grant.digest for grant in state.grants.values() if isinstance(grant, ToolGrant)
    }
    return [
        without_approval(toolset.id, state, free, entry=entries[tool.id.name])
        for tool in tools
        if tool.id.name in entries and (free := _free_calls(toolset, rules, tool))
    ]


def _free_calls(
    toolset: Toolset, rules: Collection[PolicyRule], tool: Tool
) -> dict[str, dict[str, str]]:
    """Return the reach of a tool's calls without approval: its name with each condition, and what limits it."""
    free = free_calls(rules, tool, _called(toolset, tool) if rules else ())
    name = _declared(toolset.state, tool.name_in_state)
    return {conditional(name, condition): limits for condition, limits in free.items()}


def _declared(state: ToolsetState, name: str) -> str:
    """Return a tool's name with the id of its server, if an alias hides it.

    A pull may change the aliases: then the name is that of a tool of another server.
    """
    namespace, colon, _ = name.partition(":")
    server = state.declared_by_alias.get(namespace) if colon else None
    return name if server is None else f"{name} of {server}"


def _called(toolset: Toolset, tool: Tool) -> tuple[Tool, ...]:
    """Return a tool and, for an alias, the tool that it calls, whose schema the rules about the alias compare too."""
    if tool.alias_of is None:
        return (tool,)
    namespace = ToolId.parse(tool.alias_of).namespace
    # Most toolsets have the namespace of their id; that of a server can be another one.
    ids = sorted(
        toolset_ids(toolset.root / "toolsets"), key=lambda toolset_id: toolset_id != namespace
    )
    from covalt_git.toolsets.toolset import read_toolset  # noqa: PLC0415 - lists load no checks

    targets = (read_toolset(toolset.root, toolset_id).tool(tool.alias_of) for toolset_id in ids)
    return (tool, *islice(filter(None, targets), 1))


def _is_apart(toolset: Toolset, tool: Tool) -> bool:
    """Return whether a user has to see a tool on a line of its own before its calls need no approval.

    Such a tool may change something, or its approval is waived.
    """
    is_read_only = tool.annotations.read_only is True and tool.annotations_are_own
    if tool.http is not None:
        # The method, not the annotation: an author can call a DELETE read-only.
        is_read_only = tool.http.method in _READS
    return not is_read_only or bool(tool.confirmation) or is_approval_waived(toolset, tool)


def _details(toolset: Toolset) -> dict[str, str]:
    """Return what grants permit beyond their own fields, by their keys: variables, headers and requests."""
    manifest = toolset.manifest
    servers = {server.id: server for server in manifest.mcp_servers} if manifest else {}
    details = {}
    for key, grant in toolset.state.grants.items():
        match grant:
            case NetworkGrant() | SecretGrant():
                continue
            case ToolGrant():
                tool = next(
                    (candidate for candidate in toolset.tools if candidate.id.name == grant.tool),
                    None,
                )
                request = tool.http if tool is not None else None
                missing = "" if tool is not None else " that is not registered"
                details[key] = f" by {request.method} {request.url}" if request else missing
            case _:
                server = servers.get(getattr(grant, "server", ""))
                missing = " that toolset.yaml does not have"
                details[key] = _texts(server) if server is not None else missing
    # A model follows its text, which a user reads before trusting it.
    for offer in offers_of(toolset):
        if offer.locked.kind == "skill" and offer.key in toolset.state.accepted:
            namespace, _, name = offer.key.partition(":")
            command = f"covalt-git source skills {toolset.id}/{namespace} {name}"
            details[offer.key] = f"; read its text first: {command}"
    return details


def _texts(server: McpServer) -> str:
    """Return the variables of a program, or the headers of a server; references to secrets, not their values.

    Only those that it gets, which are those of the grant's digest: a name in both would hide what a program gets.
    """
    values = server.env if server.command is not None else server.headers
    texts = [f"{name}={value!r}" for name, value in sorted(values.items())]
    return f" with {', '.join(texts)}" if texts else ""
