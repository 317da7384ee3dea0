"""Who may repair ``covalt.yaml`` while it has errors, so that the rights in it are not known."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from pydantic import ValidationError

from covalt_git import yaml_text
from covalt_git.access import is_admin
from covalt_git.access.decisions import UnknownRoleError
from covalt_git.errors import CovaltError, nearest_name
from covalt_git.manifests.fixes import fix_text
from covalt_git.manifests.project_root import CONFIG
from covalt_git.models.project_config import ProjectConfig
from covalt_git.models.rules import Effect, PolicyRule
from covalt_git.toolsets.config_changes import committed_config, read_config_text
from covalt_git.toolsets.file_changes import NotEditableError
from covalt_git.trust import Consents, trusted_config

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from covalt_git.access import Principal
    from covalt_git.errors import Problem
    from covalt_git.json_values import JsonObject

_ROLES = ("roles", "default_role")
_RIGHTS = (*_ROLES, "rules")
"""The keys that decide whether a principal is an admin."""

_BLOCK = re.compile(r"^(?=[\"']?[\w.-]+[\"']?[ \t]*:(?:\s|$))", re.MULTILINE)
"""The place before a key at the beginning of a line."""

_COMMENT = re.compile(r"^[ \t]*#.*$|^([^\"'\n]*)[ \t]#.*$", re.MULTILINE)
"""A comment that cannot be a part of a quoted text, and the text before it in the line."""

_KEY = re.compile(r"([\w-]+)[\"']?\s*:")
_ALIKE = 0.8


class RightsUnknownError(CovaltError):
    """A request to repair ``covalt.yaml`` of a principal that may be no admin."""

    code = "forbidden"
    http_status = 403

    def __init__(self, problems: Sequence[Problem] = ()) -> None:
        super().__init__(
            f"{CONFIG} has errors, so it is not known whether you may change it",
            hint=f"fix {CONFIG} on the server's machine: covalt-git validate",
            problems=problems,
        )


class _Rights(NamedTuple):
    """What a text of ``covalt.yaml`` says about rights, as far as it can be read.

    Attributes:
        config: the readable part; None if the roles cannot be read.
        has_roles: whether it has roles, or may have roles that cannot be read.
        may_hide: whether a rule that cannot be read may hide tools from a role.
    """

    config: ProjectConfig | None
    has_roles: bool
    may_hide: bool = False

    @property
    def decides(self) -> bool:
        """Whether it says who is an admin, though it has roles."""
        return self.config is not None and not self.may_hide


def check_repair(root: Path, principal: Principal | None, problems: Sequence[Problem] = ()) -> None:
    """Check that a principal may repair ``covalt.yaml`` while it has errors.

    It must be an admin by the readable rights in the file, and by git's last commit: a misspelt ``roles`` must not make
    each user an admin.  Without roles in both, everybody with the server's own token is one, whatever else is broken.
    ``principal`` is None if it is not known; ``problems`` are those of the file, for the error.

    Raises:
        RightsUnknownError: otherwise.
    """
    if principal is None or principal.token is not None:
        raise RightsUnknownError(problems)
    committed = committed_config(root)
    try:
        text = read_config_text(root).text
    except NotEditableError:
        text = ""
    own = _rights(text)
    last = None if committed is None else _rights(committed.decode("utf-8", "replace"))
    # What cannot be read may deny it, unless the last commit has roles too, which decide then.
    is_decided = last is not None and last.decides and last.has_roles
    if (own.has_roles or principal.role is not None) and not (own.decides or is_decided):
        raise RightsUnknownError(problems)
    readable = [rights.config for rights in (own, last) if rights and rights.config is not None]
    consents = Consents.of(root)
    try:
        if not all(is_admin(trusted_config(config, consents), principal) for config in readable):
            raise RightsUnknownError(problems)
    except UnknownRoleError:
        raise RightsUnknownError(problems) from None


def _rights(text: str) -> _Rights:
    """Return what a text says about rights.  Misspelt keys count as what ``validate --fix`` makes of them."""
    text = text.removeprefix("\ufeff")
    data, rest = _parsed(text), ""
    if data is None:
        # A syntax error in another part must not hide the roles, so each key of the top is read alone.
        data, rest = _parts(text)
    may_have_more = _mentions(rest, _ROLES)
    has_roles = may_have_more or any(key in data for key in _ROLES)
    rules, may_hide = _rules(data.get("rules", []))
    may_hide = may_hide or _mentions(rest, ("rules",))
    roles = {key: data[key] for key in _ROLES if key in data}
    if may_have_more:
        return _Rights(None, has_roles)
    for readable_rules in (rules, []):
        try:
            config = ProjectConfig.model_validate({"version": 1, **roles, "rules": readable_rules})
        except ValidationError:
            may_hide = True
        else:
            return _Rights(config, has_roles, may_hide)
    return _Rights(None, has_roles)


def _parsed(text: str) -> JsonObject | None:
    """Return the mapping in a text; None if it is not YAML."""
    try:
        data = yaml_text.load(fix_text(text, CONFIG).text, CONFIG).data
    except yaml_text.YamlProblems:
        return None
    return data if isinstance(data, dict) else {}


def _parts(text: str) -> tuple[JsonObject, str]:
    """Return the keys of a text that can be read alone, and the text of all others."""
    data: JsonObject = {}
    rest = ""
    for block in _BLOCK.split(text):
        part = _parsed(block)
        if part is None or part.keys() & data.keys():
            rest += block
        else:
            data |= part
    return data, rest


def _mentions(text: str, keys: tuple[str, ...]) -> bool:
    """Return whether a text that cannot be read may contain one of the keys, or a misspelt name of it."""
    plain = _COMMENT.sub(r"\1", text)
    misspelt = set(_KEY.findall(plain)) - {*ProjectConfig.model_fields, *_RIGHTS}
    return any(key in plain for key in keys) or any(
        nearest_name(name, keys, cutoff=_ALIKE) for name in misspelt
    )


def _rules(data: Any) -> tuple[list[Any], bool]:
    """Return the readable rules, and whether another one may hide tools."""
    if not isinstance(data, list):
        return [], True
    rules, may_hide = [], False
    for rule in data:
        try:
            PolicyRule.model_validate(rule)
        except ValidationError:
            may_hide = may_hide or _may_deny(rule)
        else:
            rules.append(rule)
    return rules, may_hide


def _may_deny(rule: Any) -> bool:
    """Return whether a rule that cannot be read may deny calls: not if its effect is most similar to another one."""
    effect = rule.get("effect") if isinstance(rule, dict) else None
    return not isinstance(effect, str) or nearest_name(effect, get_args(Effect)) in {None, "deny"}
