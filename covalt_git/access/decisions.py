"""Whether a principal may see, call or approve a tool, and why."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from covalt_git.errors import UnknownNameError
from covalt_git.models.tool import WHY_HELD_BACK
from covalt_git.names import beginning, matches

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.models.project_config import ProjectConfig, RoleConfig
    from covalt_git.models.tool import Tool

Action = Literal["see", "call", "approve"]


class Principal(NamedTuple):
    """Somebody who asks; without a role of their own they hold the project's default role."""

    id: str
    role: str | None = None


class Decision(NamedTuple):
    """The answer and, in words, what it rests on."""

    allowed: bool
    reason: str


class UnknownRoleError(UnknownNameError):
    """A principal holds a role that ``covalt.yaml`` does not define: nothing is decided for it."""

    http_status = 403

    def __init__(self, role: str, known: Iterable[str]) -> None:
        super().__init__("role", role, known, list_with="covalt-git role list")


def decide(config: ProjectConfig, principal: Principal, action: Action, tool: Tool) -> Decision:
    """Decide whether ``principal`` may do ``action`` with ``tool``.

    Where ``covalt.yaml`` defines no role, whoever has none is admin: the person at this machine.

    To see a tool is to find it in lists; a tool is seen by whoever could call it were it enabled.
    To approve is a right of its own: who approves the calls of a tool need not be allowed to make
    them, and ``deny``, which is about calling, takes nothing from it.

    Raises:
        UnknownRoleError: when the principal's role is not defined.
    """
    role = config.default_role if principal.role is None else principal.role
    if role is None:
        decision = _without_role(config, principal)
    elif role not in config.roles:
        raise UnknownRoleError(role, config.roles)
    elif action == "approve":
        decision = _may_approve(role, config.roles[role], tool.path)
    else:
        decision = _may_call(role, config.roles[role], tool.path)
    if action == "call" and decision.allowed and not tool.enabled:
        why = f": {WHY_HELD_BACK[tool.held_back]}" if tool.held_back else ""
        return Decision(allowed=False, reason=f"'{tool.tool_id}' is disabled{why}")
    return decision


def acting(config: ProjectConfig, principal: Principal) -> str:
    """Return in words the role that a principal acts under."""
    role = config.default_role if principal.role is None else principal.role
    return "a user without a role" if role is None else f"the role {role!r}"


def allowed_roles(config: ProjectConfig, action: Action, tool: Tool) -> str:
    """Return in words the roles that may do ``action`` with a tool."""
    return _in_words(
        name for name in config.roles if decide(config, Principal("", name), action, tool).allowed
    )


def admin_roles(config: ProjectConfig) -> str:
    """Return in words the roles from which nothing is hidden."""
    return _in_words(name for name in config.roles if sees_everything(config, Principal("", name)))


def _in_words(roles: Iterable[str]) -> str:
    names = list(map(repr, roles))
    if not names:
        return "no role of covalt.yaml may"
    return f"{'this role' if len(names) == 1 else 'these roles'} may: {', '.join(names)}"


def sees_everything(config: ProjectConfig, principal: Principal) -> bool:
    """Tell whether no tool of any name could be hidden from ``principal``.

    Raises:
        UnknownRoleError: when the principal's role is not defined.
    """
    role = config.default_role if principal.role is None else principal.role
    if role is None:
        return not config.roles
    if role not in config.roles:
        raise UnknownRoleError(role, config.roles)
    return config.roles[role].admin and not config.roles[role].deny


def _without_role(config: ProjectConfig, principal: Principal) -> Decision:
    if config.roles:
        reason = f"{principal.id!r} has no role, and covalt.yaml names no default_role"
        return Decision(allowed=False, reason=reason)
    reason = "no role is defined, so the person at this machine is admin"
    return Decision(allowed=True, reason=reason)


def _may_call(name: str, role: RoleConfig, path: str) -> Decision:
    # deny comes first, so that it also takes something from an admin.
    denying = _first_match(role.deny, path)
    if denying is not None:
        return Decision(allowed=False, reason=f"role {name!r} denies {denying}")
    if role.admin:
        return Decision(allowed=True, reason=f"role {name!r} is admin")
    allowing = _first_match(role.allow, path)
    if allowing is not None:
        return Decision(allowed=True, reason=f"role {name!r} allows {allowing}")
    return Decision(allowed=False, reason=f"nothing that role {name!r} allows matches {path}")


def _may_approve(name: str, role: RoleConfig, path: str) -> Decision:
    if role.admin:
        return Decision(allowed=True, reason=f"role {name!r} is admin")
    approving = _first_match(role.approve, path)
    if approving is not None:
        return Decision(allowed=True, reason=f"role {name!r} approves {approving}")
    return Decision(allowed=False, reason=f"nothing that role {name!r} approves matches {path}")


def _first_match(patterns: tuple[str, ...], path: str) -> str | None:
    # Roles may have many patterns and projects many tools, most of which begin otherwise.
    if not path.startswith(_beginnings(patterns)):
        return None
    return next((pattern for pattern in patterns if matches(pattern, path)), None)


@lru_cache(maxsize=256)
def _beginnings(patterns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(beginning(pattern) for pattern in patterns)
