"""Access check for listing, reading, calling and approving; and the grants of toolsets.

Its functions are pure functions of the project's configuration, a principal and a tool.  Decisions are not cached,
so that a changed ``covalt.yaml`` applies to the next decision.
"""

from covalt_git.access.approval_required import (
    approval_reasons_of_any,
    confirmation,
    decide_call,
    deciding_rule,
    may_be_denied,
)
from covalt_git.access.decisions import (
    Action,
    Decision,
    Principal,
    UnknownRoleError,
    acting,
    admin_roles,
    allowed_roles,
    decide,
    has_admin_role,
    is_admin,
    is_denied_by_role,
    lacks_trust,
    may_decide_over_mcp,
    may_manage_chats,
    may_register,
    registering_roles,
    rules_of,
    sees_everything,
)
from covalt_git.access.subject import NamedTool, Subject
from covalt_git.access.visibility import PolicyDeniedError, Visibility

__all__ = [
    "Action",
    "Decision",
    "NamedTool",
    "PolicyDeniedError",
    "Principal",
    "Subject",
    "UnknownRoleError",
    "Visibility",
    "acting",
    "admin_roles",
    "allowed_roles",
    "approval_reasons_of_any",
    "confirmation",
    "decide",
    "decide_call",
    "deciding_rule",
    "has_admin_role",
    "is_admin",
    "is_denied_by_role",
    "lacks_trust",
    "may_be_denied",
    "may_decide_over_mcp",
    "may_manage_chats",
    "may_register",
    "registering_roles",
    "rules_of",
    "sees_everything",
]
