"""Who may do what: the one door that listing, reading, calling and approving go through.

Everything here is a pure function of the project's configuration, a principal and a tool; nothing
is cached, so a changed ``covalt.yaml`` holds from the next question on.
"""

from covalt_git.access.approval_required import confirmation
from covalt_git.access.decisions import (
    Action,
    Decision,
    Principal,
    UnknownRoleError,
    acting,
    admin_roles,
    allowed_roles,
    decide,
    sees_everything,
)

__all__ = [
    "Action",
    "Decision",
    "Principal",
    "UnknownRoleError",
    "acting",
    "admin_roles",
    "allowed_roles",
    "confirmation",
    "decide",
    "sees_everything",
]
