"""Permissions of a project that act on a machine only after its user has trusted them there.

A repository can contain grants, accepted definitions and rules that another user decided.  Cloning it must not
make these decisions for the user of this machine.
"""

from covalt_git.trust.consent import Consent, UnreadableConsentError
from covalt_git.trust.consents import (
    Consents,
    NotTrustedError,
    TrustedFact,
    foreign_data,
    trust_folder,
)
from covalt_git.trust.permission import Permission, conditional
from covalt_git.trust.permissions import (
    config_permissions,
    git_storage,
    own_code,
    project_source,
    sign_key,
    state_permissions,
    trusted_config,
    without_approval,
)

__all__ = [
    "Consent",
    "Consents",
    "NotTrustedError",
    "Permission",
    "TrustedFact",
    "UnreadableConsentError",
    "conditional",
    "config_permissions",
    "foreign_data",
    "git_storage",
    "own_code",
    "project_source",
    "sign_key",
    "state_permissions",
    "trust_folder",
    "trusted_config",
    "without_approval",
]
