"""Permissions of a project that act on a machine only after its user has trusted them there.

A repository can contain grants, accepted definitions and rules that another user decided.  Cloning it must not
make these decisions for the user of this machine.
"""

from covalt_git.trust.consents import Consent, Consents, NotTrustedError
from covalt_git.trust.permission import Permission
from covalt_git.trust.permissions import (
    config_permissions,
    own_code,
    state_permissions,
    trusted_config,
    waived,
)

__all__ = [
    "Consent",
    "Consents",
    "NotTrustedError",
    "Permission",
    "config_permissions",
    "own_code",
    "state_permissions",
    "trusted_config",
    "waived",
]
