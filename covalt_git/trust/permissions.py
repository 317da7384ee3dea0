"""Permissions that the files of a project contain: what they are, and the words that a user reviews.

A permission is the smallest part that acts by itself: one granted host, one program, one accepted definition, one
waived approval.  So a pull that removes some leaves the others trusted, and a pull that adds some has only those to
review.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.json_values import canonical_json
from covalt_git.models.server_definition import command_line
from covalt_git.models.toolset_state import (
    NetworkGrant,
    ProcessGrant,
    SecretGrant,
    ServerGrant,
    ToolGrant,
)
from covalt_git.text import display
from covalt_git.trust.permission import Permission

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.json_values import JsonObject
    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.models.toolset_state import Grant, ToolsetState
    from covalt_git.trust.consents import Consents

_NOT_PERMITTED = {"granted_at", "granted_by", "hosts"}
"""Fields of a grant that do not change what it permits; its hosts are permissions of their own."""


def state_permissions(toolset_id: str, state: ToolsetState) -> list[Permission]:
    """Return the permissions in the state file of a toolset: grants, accepted definitions, waived approvals."""
    permissions = [
        _permission(toolset_id, fact, words)
        for key, grant in sorted(state.grants.items())
        for fact, words in _of_grant(key, grant)
    ]
    for tool_id, digest in sorted(state.accepted.items()):
        fact = {"accepted": tool_id, "digest": digest}
        permissions.append(_permission(toolset_id, fact, f"call {tool_id} of its MCP server"))
    for name, override in sorted(state.overrides.items()):
        if override.requires_confirmation is False:
            permissions.append(waived(toolset_id, name))
    return permissions


def waived(toolset_id: str, tool: str) -> Permission:
    """Return the permission to call a tool without approval."""
    return _permission(toolset_id, {"waiver": tool}, f"call {tool} without approval")


def config_permissions(config: ProjectConfig) -> list[Permission]:
    """Return the permissions in ``covalt.yaml``: rules that waive approvals, and roles that approve their own calls."""
    permissions = [permission for permission in _rule_permissions(config) if permission is not None]
    return permissions + [_own_approvals(config, name) for name in _approving_own(config)]


def trusted_config(config: ProjectConfig, consents: Consents) -> ProjectConfig:
    """Return a project's configuration without the permissions that the user of this machine has not trusted.

    Without them, calls require approval, and the requester cannot approve them.
    """
    lacking = {permission.digest for permission in consents.lacking(config_permissions(config))}
    if not lacking:
        return config
    rules = zip(config.approvals, _rule_permissions(config), strict=True)
    untrusted = {
        name for name in _approving_own(config) if _own_approvals(config, name).digest in lacking
    }
    return config.model_copy(
        update={
            "approvals": tuple(
                rule
                for rule, permission in rules
                if permission is None or permission.digest not in lacking
            ),
            "roles": {
                name: role.model_copy(update={"approve_own": False}) if name in untrusted else role
                for name, role in config.roles.items()
            },
        }
    )


def own_code() -> Permission:
    """Return the permission to run the project's own toolsets where the machine has no sandbox."""
    return Permission(
        {"unsandboxed": "own"}, "run the project's own Python tools without a sandbox"
    )


def _permission(toolset_id: str, fact: JsonObject, words: str) -> Permission:
    shown = display.in_line(f"{toolset_id} may {words}")
    return Permission({"toolset": toolset_id, **fact}, shown, toolset_id)


def _of_grant(key: str, grant: Grant) -> Iterator[tuple[JsonObject, str]]:
    """Yield the facts of a grant and their words: one for each host, because hosts can be revoked one by one."""
    fact = {"grant": key, **grant.model_dump(mode="json", exclude=_NOT_PERMITTED)}
    match grant:
        case NetworkGrant():
            for host in grant.hosts:
                yield {**fact, "host": host}, f"connect to {host}"
        case SecretGrant():
            # Python tools get the secret whatever the hosts are, so the grant permits something without a host too.
            yield fact, f"use the secret {grant.name}"
            for host in grant.hosts:
                yield {**fact, "host": host}, f"send the secret {grant.name} to {host}"
        case ProcessGrant():
            yield fact, f"run {command_line(grant.argv)} without a sandbox"
        case ServerGrant():
            headers = f" with {', '.join(grant.headers)}" if grant.headers else ""
            yield fact, f"connect to its MCP server at {command_line([grant.url])}{headers}"
        case ToolGrant():
            secrets = f" with {', '.join(grant.secrets)}" if grant.secrets else ""
            target = grant.alias_of or ", ".join(grant.hosts)
            yield {**fact, "hosts": list(grant.hosts)}, f"forward {grant.tool} to {target}{secrets}"
        case _:
            yield fact, "run without a sandbox"


def _rule_permissions(config: ProjectConfig) -> list[Permission | None]:
    """Return the permission of each approval rule; None for rules that require approval.

    The first rule that matches decides.  So the fact of a waiver has the requiring rules before it: without one of
    them, it would waive more.
    """
    permissions: list[Permission | None] = []
    requiring: list[JsonObject] = []
    for rule in config.approvals:
        fact = rule.model_dump(mode="json", exclude_none=True)
        if rule.require:
            requiring.append(fact)
            permissions.append(None)
            continue
        conditions = {name: value for name, value in fact.get("when", {}).items() if value}
        when = canonical_json.dumps(conditions).decode() if conditions else ""
        words = (
            f"covalt.yaml: call {rule.pattern} without approval{f' when {when}' if when else ''}"
        )
        permissions.append(
            Permission({"rule": fact, "after": list(requiring)}, display.in_line(words))
        )
    return permissions


def _approving_own(config: ProjectConfig) -> list[str]:
    return sorted(name for name, role in config.roles.items() if role.approve_own)


def _own_approvals(config: ProjectConfig, name: str) -> Permission:
    role = config.roles[name]
    what = "every call" if role.admin else ", ".join(role.approve)
    fact = {"role": name, "approve_own": {"admin": role.admin, "approve": list(role.approve)}}
    words = f"covalt.yaml: agents with the role {name!r} approve their own calls of {what}"
    return Permission(fact, display.in_line(words))
