"""Decisions whether a principal may see, call or approve a tool."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from covalt_git.access.security import security_refusal
from covalt_git.errors import UnknownNameError
from covalt_git.models.held_back import WHY_HELD_BACK
from covalt_git.names import LOCAL_CLIENT, LOCAL_USER, beginning, matches

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.access.security import Protocol
    from covalt_git.access.subject import Subject
    from covalt_git.models.access_token import AccessToken
    from covalt_git.models.project_config import ProjectConfig, RoleConfig
    from covalt_git.models.rules import PolicyRule

Action = Literal["see", "call", "approve"]
_Patterns: TypeAlias = list[tuple[str, str]]


class Principal(NamedTuple):
    """A user or agent; if it has no role, the project's default role applies.

    ``protocol`` is the protocol of its calls; None for calls that use no protocol, as those of commands.  ``token`` has
    the facts of the valid access token that was sent with the request.
    """

    id: str
    role: str | None = None
    protocol: Protocol | None = None
    token: AccessToken | None = None


class Decision(NamedTuple):
    """Whether the action is allowed, and the reason as text."""

    allowed: bool
    reason: str


class UnknownRoleError(UnknownNameError):
    """``covalt.yaml`` does not define a principal's role."""

    http_status = 403

    def __init__(self, role: str, known: Iterable[str]) -> None:
        super().__init__("role", role, known, list_with="covalt-git role list")


def decide(config: ProjectConfig, principal: Principal, action: Action, tool: Subject) -> Decision:
    """Decide whether ``principal`` may do ``action`` with ``tool``.

    If ``covalt.yaml`` defines no role, a principal without a role is the user of this machine, who is admin.

    A principal may see a tool, that is, find it in lists, if it could call the enabled tool.  The right to
    approve is separate: a reviewer need not be allowed to call the tool, and ``deny`` does not restrict it.

    Raises:
        UnknownRoleError: if the principal's role is not defined.
    """
    name, role = _role_of(config, principal)
    if role is None:
        decision = _without_role(config, principal, action, tool)
    elif action == "approve":
        decision = _may("approve", name, _limited(config, principal, role), tool.path)
    else:
        decision = _may_call(config, name, role, tool.path)
    if action == "call" and decision.allowed and not tool.enabled:
        why = f": {WHY_HELD_BACK[tool.held_back]}" if tool.held_back else ""
        return Decision(allowed=False, reason=f"'{tool.tool_id}' is disabled{why}")
    if action == "call" and decision.allowed:
        refusal = security_refusal(tool, principal.protocol, principal.token)
        if refusal is not None:
            return Decision(allowed=False, reason=refusal.message)
    return decision


def is_local(principal_id: str) -> bool:
    """Return whether a principal is the user of this machine, or a client that the user's account runs."""
    return principal_id == LOCAL_USER or principal_id.startswith(LOCAL_CLIENT)


def is_denied_by_role(config: ProjectConfig, principal: Principal, tool: Subject) -> bool:
    """Return whether ``deny`` of the principal's role is about a tool.

    Raises:
        UnknownRoleError: if the principal's role is not defined.
    """
    _, role = _role_of(config, principal)
    return role is not None and _first_match(role.deny, tool.path) is not None


def may_register(config: ProjectConfig, principal: Principal) -> bool:
    """Return whether the role of ``principal`` may register tools; in a project without roles, the local user may.

    Raises:
        UnknownRoleError: if the principal's role is not defined.
    """
    _, role = _role_of(config, principal)
    if role is None:
        return not config.roles and principal.id == LOCAL_USER
    return role.register_tools or _limited(config, principal, role).admin


def may_manage_chats(config: ProjectConfig, principal: Principal) -> bool:
    """Return whether the role of ``principal`` may do what no tool does: delete chats, edit messages, push.

    In a project without roles, the user of this machine may.

    Raises:
        UnknownRoleError: if the principal's role is not defined.
    """
    _, role = _role_of(config, principal)
    if role is None:
        return not config.roles
    return role.chats == "manage" or _limited(config, principal, role).admin


def may_decide_over_mcp(
    config: ProjectConfig, principal: Principal, tool: Subject, *, requested_by: str
) -> bool:
    """Return whether a client of the gateway may approve or deny a call that a principal requested.

    An MCP client cannot show that a user decides, and not its model.  Therefore its principal needs a role
    that may approve the tool, and must not be the one that requested the call, unless ``approve_own`` is set.

    All clients over stdio act for the user of this machine: a client chooses its name itself, and a model with a
    shell can start a second client.  So without ``approve_own`` such a
    client cannot approve or deny any call, including the calls of agents with tokens.

    The user of this machine must also have trusted the role to decide, as for each decision over MCP.
    """
    name = config.default_role if principal.role is None else principal.role
    role = config.roles.get(name or "")
    is_own = (
        principal.id == requested_by
        or principal.id.startswith(LOCAL_CLIENT)
        or (principal.id == LOCAL_USER and is_local(requested_by))
    )
    if role is None or (is_own and not role.approve_own):
        return False
    # As over MCP, whatever the principal says: only then is the role limited to what the user of this machine trusts.
    return decide(config, principal._replace(protocol="mcp"), "approve", tool).allowed


def acting(config: ProjectConfig, principal: Principal) -> str:
    """Return words for a principal to begin a sentence with, such as ``the role 'reviewer'``."""
    role = config.default_role if principal.role is None else principal.role
    return "a user without a role" if role is None else f"the role {role!r}"


def allowed_roles(config: ProjectConfig, action: Action, tool: Subject) -> str:
    """Return the part of a message that lists the roles that may do ``action`` with a tool."""
    return _sentence(
        name for name in config.roles if decide(config, Principal("", name), action, tool).allowed
    )


def admin_roles(config: ProjectConfig) -> str:
    """Return the part of a message that lists the roles that see all tools."""
    return _sentence(name for name in config.roles if sees_everything(config, Principal("", name)))


def registering_roles(config: ProjectConfig) -> str:
    """Return the part of a message that lists the roles that may register tools."""
    return _sentence(name for name in config.roles if may_register(config, Principal("", name)))


def _sentence(roles: Iterable[str]) -> str:
    names = list(map(repr, roles))
    if not names:
        return "no role of covalt.yaml may"
    return f"{'this role' if len(names) == 1 else 'these roles'} may: {', '.join(names)}"


def sees_everything(config: ProjectConfig, principal: Principal) -> bool:
    """Return whether ``principal`` may see every tool, whatever its name.

    Raises:
        UnknownRoleError: if the principal's role is not defined.
    """
    name, role = _role_of(config, principal)
    # An admin role with deny patterns or rules must not learn that the denied tools exist.
    if role is None:
        return not config.roles and not config.hides_tools_of(None)
    return role.admin and not role.deny and not config.hides_tools_of(name)


def is_admin(config: ProjectConfig, principal: Principal) -> bool:
    """Return whether ``principal`` may do what only admins may, such as grant secrets.

    Raises:
        UnknownRoleError: if the principal's role is not defined.
    """
    name, role = _role_of(config, principal)
    hides = role is not None and (bool(role.deny) or config.hides_tools_of(name))
    return has_admin_role(config, principal) and not hides


def has_admin_role(config: ProjectConfig, principal: Principal) -> bool:
    """Return whether the role of ``principal`` is an admin role, which may have hidden tools.

    Raises:
        UnknownRoleError: if the principal's role is not defined.
    """
    _, role = _role_of(config, principal)
    return not config.roles if role is None else _limited(config, principal, role).admin


def lacks_trust(config: ProjectConfig, principal: Principal) -> bool:
    """Return whether ``principal`` lacks rights of its role that the user of this machine has not trusted."""
    _, role = _role_of(config, principal)
    return role is not None and _limited(config, principal, role) is not role


def _limited(config: ProjectConfig, principal: Principal, role: RoleConfig) -> RoleConfig:
    """Return a principal's role as far as the user of this machine trusts it to decide.

    A pull can widen a role.  The holder of a token or an agent with this role must not get rights by it to grant, trust
    or approve on this machine.  The user's own command line is not limited: a role there is a view.  Without a role, a
    client of the gateway is an agent with the default role, and a client of the API is the user.
    """
    if principal.protocol is None or (principal.role is None and principal.protocol != "mcp"):
        return role
    return config.limited_roles.get(principal.role, role)


def rules_of(config: ProjectConfig, principal: Principal) -> tuple[PolicyRule, ...]:
    """Return the rules about the calls of a principal's role.

    Raises:
        UnknownRoleError: if the principal's role is not defined.
    """
    name, role = _role_of(config, principal)
    return config.rules_for(None if role is None else name)


def _role_of(config: ProjectConfig, principal: Principal) -> tuple[str, RoleConfig | None]:
    """Return the name of a principal's role and the role; None without a role.

    Raises:
        UnknownRoleError: if the role is not defined.
    """
    name = config.default_role if principal.role is None else principal.role
    if name is None:
        return "", None
    if name not in config.roles:
        raise UnknownRoleError(name, config.roles)
    return name, config.roles[name]


def _without_role(
    config: ProjectConfig, principal: Principal, action: Action, tool: Subject
) -> Decision:
    if config.roles:
        reason = f"{principal.id!r} has no role, and covalt.yaml has no default_role"
        return Decision(allowed=False, reason=reason)
    if action != "approve" and (rule := hiding_rule(config, None, tool.path)) is not None:
        return Decision(allowed=False, reason=f"rule {rule.pattern} denies it")
    reason = "no role is defined, so the user of this machine is admin"
    return Decision(allowed=True, reason=reason)


def hiding_rule(config: ProjectConfig, role: str | None, path: str) -> PolicyRule | None:
    """Return the rule that hides a tool from a role; None if no rule does.

    That is the first rule that can apply to calls of the tool, if it denies all of them.  The annotations and arguments that
    rules compare are not known here.  So a tool is visible if an earlier rule about it could allow a call.
    """
    for rule in config.rules:
        if rule.effect == "deny" and not rule.is_of_all_calls:
            continue
        if rule.is_for(role) and matches(rule.pattern, path):
            return rule if rule.effect == "deny" else None
    return None


def _may_call(config: ProjectConfig, name: str, role: RoleConfig, path: str) -> Decision:
    # deny comes first, so that it also restricts admins.
    denying = _first_match(role.deny, path)
    if denying is not None:
        return Decision(allowed=False, reason=f"role {name!r} denies {denying}")
    decision = _may("allow", name, role, path)
    if decision.allowed and (rule := hiding_rule(config, name, path)) is not None:
        return Decision(allowed=False, reason=f"rule {rule.pattern} denies it")
    return decision


def _may(verb: Literal["allow", "approve"], name: str, role: RoleConfig, path: str) -> Decision:
    if role.admin:
        return Decision(allowed=True, reason=f"role {name!r} is admin")
    pattern = _first_match(role.approve if verb == "approve" else role.allow, path)
    if pattern is not None:
        return Decision(allowed=True, reason=f"role {name!r} {verb}s {pattern}")
    return Decision(allowed=False, reason=f"no {verb} pattern of role {name!r} matches {path}")


def _first_match(patterns: tuple[str, ...], path: str) -> str | None:
    # Roles may have many patterns and projects many tools: only those that name the namespace, or any, are compared.
    by_namespace, of_any = _by_namespace(patterns)
    for begins, pattern in by_namespace.get(path.partition(".")[0], of_any):
        if path.startswith(begins) and matches(pattern, path):
            return pattern
    return None


@lru_cache(maxsize=256)
def _by_namespace(patterns: tuple[str, ...]) -> tuple[dict[str, _Patterns], _Patterns]:
    """Return the patterns, with their beginnings, that can match ids of each namespace that one names, and of any other."""
    by_namespace: dict[str, _Patterns] = {}
    of_any: _Patterns = []
    for pattern in patterns:
        entry = beginning(pattern), pattern
        namespace = pattern.partition(".")[0]
        if "*" in namespace:
            for candidates in (of_any, *by_namespace.values()):
                candidates.append(entry)
        else:
            by_namespace.setdefault(namespace, [*of_any]).append(entry)
    return by_namespace, of_any
