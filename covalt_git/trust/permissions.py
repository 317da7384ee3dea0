"""Permissions that the files of a project contain: what they are, and the words that a user reviews.

A permission is the smallest part that acts by itself: one granted host, one program, one accepted definition, one
waived approval.  So a pull that removes some leaves the others trusted, and a pull that adds some has only those to
review.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from covalt_git.json_values import canonical_json
from covalt_git.models.rules import ArgumentCondition
from covalt_git.models.sources.server_definition import command_line
from covalt_git.models.sources.tool_lock import PROGRAM
from covalt_git.models.toolset_state import (
    NetworkGrant,
    ProcessGrant,
    SecretGrant,
    ServerGrant,
    ToolGrant,
)
from covalt_git.templating.references import secret_words
from covalt_git.trust.consents import IMPORTED
from covalt_git.trust.permission import Permission

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from covalt_git.json_values import JsonObject
    from covalt_git.models.project_config import Issuer, ProjectConfig, RoleConfig
    from covalt_git.models.project_source import ProjectSource
    from covalt_git.models.rules import PolicyRule
    from covalt_git.models.storage_config import StorageConfig
    from covalt_git.models.toolset_state import Grant, ToolsetState
    from covalt_git.trust.consents import Consents
    from covalt_git.trust.permission import Reach

EVERY_CALL: Final = "every call"
"""In place of the patterns of a role that is admin; no pattern has a space."""

GRANTS: Final = "grants as well"
"""Beside the patterns of a role that may grant as the user does; it is sorted after :data:`EVERY_CALL`."""

_NOT_PERMITTED = {"granted_at", "granted_by", "hosts"}
"""Fields of a grant that do not change what it permits; its hosts are permissions of their own."""


def state_permissions(
    toolset_id: str, state: ToolsetState, details: Mapping[str, str] | None = None
) -> list[Permission]:
    """Return the permissions in the state file of a toolset: its grants and accepted definitions.

    ``details`` describes what a grant permits beyond its fields, such as the variables of its server, by the grant's key, and how to
    read an accepted skill, by its key.
    """
    # An imported toolset that posed as the project's own would lose its restrictions.
    imported = {IMPORTED: True} if state.imported else {}
    permissions = [
        _permission(toolset_id, fact | imported, words)
        for key, grant in sorted(state.grants.items())
        for fact, words in _of_grant(key, grant, details or {})
    ]
    for tool_id, digest in sorted(state.accepted.items()):
        fact = {"accepted": tool_id, "digest": digest, **imported}
        namespace, _, name = tool_id.partition(":")
        # Without it, a pull that renames a server would give it the accepted tools of another.
        server = state.declared_by_alias.get(namespace)
        of = "" if server is None else f" {server}"
        if server is not None:
            fact["server"] = server
        words = f"call {tool_id} of its MCP server{of}"
        if tool_id in (details or {}):
            words = f"follow the skill {tool_id} of its MCP server{of} with the digest {digest}{(details or {})[tool_id]}"
        if name == PROGRAM:
            words = f"start its MCP server {server or namespace} from the accepted files {digest}"
        permissions.append(_permission(toolset_id, fact, words))
    return permissions


def without_approval(
    toolset_id: str,
    state: ToolsetState,
    reach: Reach,
    *,
    apart: Collection[str] = (),
    entry: str | None = None,
) -> Permission:
    """Return the permission to call tools without approval.

    Args:
        toolset_id: The toolset of the tools.
        state: Its state.
        reach: The tools with the conditions of such calls, and for each what earlier rules require approval of.
        apart: The tools that a user has to see on lines of their own.
        entry: The digest of the entry of a registered tool, whose permission ends with the entry.
    """
    fact: JsonObject = {"free_calls": entry or "tools"}
    if state.imported:
        fact[IMPORTED] = True
    permission = _permission(toolset_id, fact, "call without approval")
    return permission._replace(reach=reach, apart=apart)


def config_permissions(config: ProjectConfig) -> list[Permission]:
    """Return the permissions in ``covalt.yaml``, such as rules that waive approvals, and roles that decide over MCP."""
    permissions = [permission for permission in _rule_permissions(config) if permission is not None]
    permissions += [_own_approvals(config, name) for name in _approving_own(config)]
    for name in sorted(config.roles):
        permissions += _deciding(config, name, by_default=False)
    if config.default_role is not None:
        permissions += _deciding(config, config.default_role, by_default=True)
    permissions += [_of_issuer(config, issuer) for issuer in config.issuers]
    if config.audit.sign_key is not None:
        permissions.append(sign_key(config.audit.sign_key))
    if config.storage.type == "git":
        permissions.append(git_storage(config.storage))
    if config.project is not None:
        permissions.append(project_source(config.project))
    return permissions


def trusted_config(config: ProjectConfig, consents: Consents) -> ProjectConfig:
    """Return a project's configuration without the permissions that the user of this machine has not trusted.

    Without them, calls require approval, and the requester cannot approve them.
    """
    parts = {
        permission.key: permission
        for permission in consents.lacking(config_permissions(config), strict=False)
    }
    if not parts:
        return config
    lacking = parts.keys()
    rules = zip(config.rules, _rule_permissions(config), strict=True)
    untrusted = {
        name for name in _approving_own(config) if _own_approvals(config, name).key in lacking
    }
    limited: dict[str | None, RoleConfig] = {
        name: _limited(role, parts[permission.key])
        for name, role in config.roles.items()
        for permission in _deciding(config, name, by_default=False)
        if permission.key in lacking
    }
    if config.default_role is not None:
        for permission in _deciding(config, config.default_role, by_default=True):
            if permission.key in lacking:
                role = config.roles[config.default_role]
                limited[None] = _limited(role, parts[permission.key])
    trusted_rules = (
        rule for rule, permission in rules if permission is None or permission.key not in lacking
    )
    trusted = config.with_rules(trusted_rules).model_copy(
        update={
            "roles": {
                name: role.model_copy(update={"approve_own": False}) if name in untrusted else role
                for name, role in config.roles.items()
            },
            "issuers": tuple(
                issuer for issuer in config.issuers if _of_issuer(config, issuer).key not in lacking
            ),
        }
    )
    # Its path stays: without it, a pull that names another key would end the signing in silence.  Commits fail instead.
    if config.audit.sign_key is not None and sign_key(config.audit.sign_key).key in lacking:
        trusted = trusted.without_trust_in_sign_key()
    # As with the key, the setting stays and operations fail.  Without it, new commits would be stored on this machine only,
    # and no message would say so.
    if config.storage.type == "git" and git_storage(config.storage).key in lacking:
        trusted = trusted.without_trust_in_storage()
    return trusted.with_limited_roles(limited)


def sign_key(file: str) -> Permission:
    """Return the permission to sign commits of chats with a private key of the user."""
    words = f"covalt.yaml: sign the commits of chats with your key {file}"
    return Permission({"sign_key": file}, words)


def git_storage(storage: StorageConfig) -> Permission:
    """Return the permission to store the chats on a git server, which then has their files and results."""
    fact: JsonObject = {"git_storage": storage.url}
    words = f"covalt.yaml: store the chats on {storage.url}"
    if storage.password is not None:
        fact |= {"username": storage.username, "password": storage.password}
        words += f" with the password {storage.password} of {storage.username}"
    if storage.create:
        fact["create"] = [*storage.create]
        words += f", and run {command_line(storage.create)} for each new chat"
    return Permission(fact, words)


def project_source(source: ProjectSource) -> Permission:
    """Return the permission to fetch the project from a git server, which may then change it at any time."""
    fact: JsonObject = {"project_source": source.url, "ref": source.ref}
    words = f"covalt.yaml: fetch the project from {source.url}, and follow {source.ref}"
    if source.password is not None:
        fact |= {"username": source.username, "password": source.password}
        words += f", with the password {source.password} of {source.username}"
    return Permission(fact, words)


def own_code() -> Permission:
    """Return the permission to run the project's own toolsets where the machine has no sandbox."""
    return Permission(
        {"unsandboxed": "own"}, "run the project's own Python tools without a sandbox"
    )


def _permission(toolset_id: str, fact: JsonObject, words: str) -> Permission:
    return Permission({"toolset": toolset_id, **fact}, f"{toolset_id} may {words}", toolset_id)


def _of_grant(
    key: str, grant: Grant, details: Mapping[str, str]
) -> Iterator[tuple[JsonObject, str]]:
    """Yield the facts of a grant and their words: one for each host, because hosts can be revoked one by one."""
    fact: JsonObject = {"grant": key, **grant.model_dump(mode="json", exclude=_NOT_PERMITTED)}
    if isinstance(grant, ProcessGrant) and grant.confinement is None:
        del fact["sandbox"]  # as facts were before this field, which users have trusted
    detail = details.get(key, "")
    if detail:
        # Another server or entry with the same grant would run something that the user has not read.
        fact["details"] = detail
    match grant:
        case NetworkGrant():
            for host in grant.hosts:
                yield {**fact, "host": host}, f"connect to {host}"
        case SecretGrant():
            # Python tools get the secret whatever the hosts are, so the grant permits something without a host too.
            yield fact, f"use {secret_words(grant.name)}"
            for host in grant.hosts:
                yield {**fact, "host": host}, f"send {secret_words(grant.name)} to {host}"
        case ProcessGrant():
            folder = f" in {grant.cwd}" if grant.cwd else ""
            where = "without a sandbox"
            if grant.confinement is not None:
                uses = f" with {', '.join(grant.uses)}" if grant.uses else ""
                where = f"in the sandbox{uses}"
            command = f"{command_line(grant.argv)}{folder}{detail}"
            yield fact, f"run its MCP server {grant.server}: {command} {where}"
        case ServerGrant():
            url = command_line([grant.url])
            yield fact, f"connect to its MCP server {grant.server} at {url}{detail}"
        case ToolGrant():
            secrets = f" with {', '.join(grant.secrets)}" if grant.secrets else ""
            target = grant.alias_of or ", ".join(grant.hosts)
            words = f"forward {grant.tool} to {target}{secrets}{detail}"
            yield {**fact, "hosts": list(grant.hosts)}, words
        case _:
            yield fact, "run without a sandbox"


def _rule_permissions(config: ProjectConfig) -> list[Permission | None]:
    """Return the permission of each rule that allows calls; None for those that deny or ask.

    The first rule that matches decides.  So a rule that allows is limited by the others before it: without one of
    them, it would allow more.
    """
    permissions: list[Permission | None] = []
    requiring: dict[str, str] = {}
    for rule in config.rules:
        fact, condition = _rule_fact(rule), rule.condition
        when = canonical_json.dumps(condition).decode() if condition else ""
        words = f"{rule.pattern}{f' when {when}' if when else ''}"
        if rule.roles:
            words += f" by the role {' or '.join(rule.roles)}"
        if rule.requires:
            requiring[canonical_json.digest(fact)] = words
            permissions.append(None)
            continue
        words = f"covalt.yaml: call {words} without approval"
        whole: JsonObject = {"rule": fact}
        if config.default_role in rule.roles:  # then it is about every client over stdio
            whole["default_role"] = True
            words += ", which is the default role"
        permissions.append(Permission(whole, words, reach={"": dict(requiring)}))
    return permissions


def _rule_fact(rule: PolicyRule) -> JsonObject:
    """Return what a rule says, without its reason, in the form of ``approvals`` if they can say it.

    So a project can write its approvals as rules without new trust.
    """
    when: JsonObject = {"args": {}, **rule.condition}
    fact: JsonObject = {"pattern": rule.pattern, "when": when}
    is_typed = any(isinstance(wanted, ArgumentCondition) for wanted in rule.when.args.values())
    if rule.roles or is_typed or rule.effect == "deny":
        return {**fact, "roles": sorted(rule.roles), "effect": rule.effect}
    return {**fact, "require": rule.requires}


def _approving_own(config: ProjectConfig) -> list[str]:
    return sorted(name for name, role in config.roles.items() if role.approve_own)


def _deciding(config: ProjectConfig, name: str, *, by_default: bool) -> list[Permission]:
    """Return the permission of others with a role to approve and deny calls; none if the role approves none.

    Others are agents and holders of the server's token with this role.  An agent cannot show that a user decides, and not
    its model.  Without this permission, a pull that lets a role approve calls would let the agents of the user
    approve the calls of each other; one that makes a role admin would let a token's holder grant secrets.
    """
    role = config.roles[name]
    if not role.admin and not role.approve:
        return []
    fact: JsonObject = {"role": name, "decides": "calls of others"}
    who = f"agents and holders of a token with the role {name!r}"
    if by_default:
        fact["default_role"] = True
        who = f"agents without a role, which have the default role {name!r},"
    patterns = [EVERY_CALL] if role.admin else role.approve
    # Only an admin from whom nothing is hidden may grant: see access.decisions.is_admin.
    hides = bool(role.deny) or config.hides_tools_of(name)
    grants = [GRANTS] if role.admin and not hides and not by_default else []
    reach: Reach = {name: {} for name in (*patterns, *grants)}
    words = f"covalt.yaml: {who} approve calls of others"
    return [Permission(fact, words, reach=reach)]


def _limited(role: RoleConfig, lacking: Permission) -> RoleConfig:
    """Return a role without the part of its permission to decide that is not trusted."""
    approve = tuple(pattern for pattern in role.approve if pattern not in lacking.reach)
    if role.admin:
        approve = () if EVERY_CALL in lacking.reach else ("**",)
    admin = role.admin and not {EVERY_CALL, GRANTS}.intersection(lacking.reach)
    return role.model_copy(update={"admin": admin, "approve": approve})


def _of_issuer(config: ProjectConfig, issuer: Issuer) -> Permission:
    """Return the permission of an issuer to let the holders of its tokens act with their roles.

    It is for its exact keys: with other ones, someone else would make the tokens.
    """
    fact: JsonObject = {"issuer": issuer.model_dump(mode="json", exclude_none=True)}
    keys = issuer.jwks_url
    if issuer.jwks_file is not None:
        digest = config.key_digests.get(issuer.jwks_file, "missing")
        fact["keys"] = digest
        keys = f"{issuer.jwks_file} ({digest})"
    roles = ", ".join(dict.fromkeys(map(repr, issuer.granted_roles)))
    if issuer.roles is not None:
        roles += f" by the claim {issuer.roles.claim!r}"
    words = (
        f"covalt.yaml: holders of tokens of {issuer.issuer} for {issuer.audience}, with the keys of {keys},"
        f" call tools with the roles {roles}"
    )
    return Permission(fact, words)


def _own_approvals(config: ProjectConfig, name: str) -> Permission:
    role = config.roles[name]
    what = EVERY_CALL if role.admin else ", ".join(role.approve)
    fact: JsonObject = {
        "role": name,
        "approve_own": {"admin": role.admin, "approve": list(role.approve)},
    }
    who = f"agents with the role {name!r}"
    if config.default_role == name:  # then every client over stdio has the role
        fact["default_role"] = True
        who = f"all agents, whose default role is {name!r},"
    words = f"covalt.yaml: {who} approve their own calls of {what}"
    return Permission(fact, words)
