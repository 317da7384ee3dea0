"""Who may repair ``covalt.yaml`` while it has errors, so that the rights in it are not known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from covalt_git import yaml_text
from covalt_git.access import is_admin
from covalt_git.access.decisions import UnknownRoleError
from covalt_git.errors import CovaltError
from covalt_git.manifests.fixes import fix_text
from covalt_git.manifests.project_root import CONFIG
from covalt_git.models.project_config import ProjectConfig
from covalt_git.toolsets.config_changes import committed_config, read_config_text
from covalt_git.toolsets.file_changes import NotEditableError
from covalt_git.trust import Consents, trusted_config

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.access import Principal

_ROLES = ("roles", "default_role")
_RIGHTS = (*_ROLES, "rules")
"""The keys that decide whether a principal is an admin."""


class RightsUnknownError(CovaltError):
    """A request to repair ``covalt.yaml`` of a principal that may be no admin."""

    code = "forbidden"
    http_status = 403

    def __init__(self) -> None:
        super().__init__(
            f"{CONFIG} has errors, so it is not known whether you may change it",
            hint=f"fix {CONFIG} on the server's machine: covalt-git validate",
        )


def check_repair(root: Path, principal: Principal | None) -> None:
    """Check that a principal may repair ``covalt.yaml`` while it has errors.

    It must be an admin by the readable rights in the file, and by git's last commit: a misspelt ``roles`` must not make
    each user an admin.  ``principal`` is None if it is not known.

    Raises:
        RightsUnknownError: otherwise.
    """
    if principal is None or principal.token is not None:
        raise RightsUnknownError
    committed = committed_config(root)
    try:
        text = read_config_text(root).text
    except NotEditableError:
        text = ""
    own = _rights(text)
    last = None if committed is None else _rights(committed.decode("utf-8", "replace"))
    # Roles that cannot be read may deny it, unless the last commit has roles too, which decide then.
    has_roles = any(key in text for key in _ROLES) or principal.role is not None
    if own is None and has_roles and (last is None or not last.roles):
        raise RightsUnknownError
    readable = [config for config in (own, last) if config is not None]
    consents = Consents.of(root)
    try:
        if not all(is_admin(trusted_config(config, consents), principal) for config in readable):
            raise RightsUnknownError
    except UnknownRoleError:
        raise RightsUnknownError from None


def _rights(text: str) -> ProjectConfig | None:
    """Return the part of ``covalt.yaml`` that decides about rights; None if it cannot be read.

    Misspelt keys count as what ``validate --fix`` makes of them.
    """
    try:
        fixed = fix_text(text, CONFIG).text
        data = yaml_text.load(fixed, CONFIG).data
        part = {key: data[key] for key in _RIGHTS if key in data} if isinstance(data, dict) else {}
        return ProjectConfig.model_validate({"version": 1, **part})
    except (yaml_text.YamlProblems, ValidationError):
        return None
