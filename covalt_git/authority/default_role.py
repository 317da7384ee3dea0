"""Which role a person at this machine has in two versions of ``covalt.yaml``, and which tools a role gains."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.access import Principal, decide
from covalt_git.authority.approval_rules import some_of
from covalt_git.authority.facts import Change, Place
from covalt_git.authority.pattern_subset import tools_within
from covalt_git.authority.project_facts import EVERYTHING, PERSON
from covalt_git.models.project_config import RoleConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.authority.facts import Verdict
    from covalt_git.authority.snapshots import State
    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.models.tool import Tool


def person_changes(base: State, head: State) -> Iterator[Change]:
    """Yield what became of the role of whoever has none of their own."""
    old, new = base.settings, head.settings
    if old.default_role == new.default_role and bool(old.roles) == bool(new.roles):
        return
    before, now = _person(old), _person(new)
    if before is None and now is None:
        return
    wider, narrower = not _reaches_less(now, before), not _reaches_less(before, now)
    verdict: Verdict = "neutral"
    if wider or narrower:
        verdict = "widening" if wider else "narrowing"
    message = f"{PERSON} {_holding(new)} (was: {_holding(old)})"
    yield Change(
        verdict,
        certain=not (wider and narrower),
        subject=PERSON,
        kind="default_role",
        message=message,
        at=_default_place(head),
        was=_default_place(base),
        details=tools_gained(base, head, PERSON) if verdict == "widening" else (),
    )


def _person(config: ProjectConfig) -> RoleConfig | None:
    """Return what whoever has no role of their own may do; None for everything."""
    if config.default_role is not None:
        return config.roles[config.default_role]
    return RoleConfig() if config.roles else None


def _reaches_less(one: RoleConfig | None, other: RoleConfig | None) -> bool:
    """Tell whether all that one may do the other may do as well."""
    if other is None:
        return True
    if one is None:
        return other.admin and not other.deny
    denied = all(any(tools_within(pattern, wide) for wide in one.deny) for pattern in other.deny)
    return (
        (other.admin or not one.admin)
        and _all_within(_patterns(one.allow, one), _patterns(other.allow, other))
        and _all_within(_patterns(one.approve, one), _patterns(other.approve, other))
        and (denied or not (one.allow or one.admin))
    )


def _patterns(given: tuple[str, ...], role: RoleConfig) -> tuple[str, ...]:
    return (EVERYTHING,) if role.admin else given


def _all_within(narrow: tuple[str, ...], wide: tuple[str, ...]) -> bool:
    return all(any(tools_within(one, other) for other in wide) for one in narrow)


def _holding(config: ProjectConfig) -> str:
    if config.default_role is not None:
        return f"holds the role {config.default_role!r}"
    return "holds no role, and may do nothing" if config.roles else "may do everything"


def _default_place(state: State) -> Place:
    reading = state.config
    if reading.document is None:
        return Place(reading.path)
    return Place(reading.path, *reading.document.locate(("default_role",)))


def tools_gained(base: State, head: State, subject: str) -> tuple[str, ...]:
    """Return in words which tools that stay a role, or the person at this machine, may newly call."""
    name = None if subject == PERSON else subject.removeprefix("role ").strip("'")
    before, now = base.tools(), head.tools()
    gained = [
        tool_id
        for tool_id in sorted(before.keys() & now.keys())
        if _may(head, name, now[tool_id]) and not _may(base, name, before[tool_id])
    ]
    return (f"newly: {some_of(gained)}",) if gained else ()


def _may(state: State, role: str | None, tool: Tool) -> bool:
    config = state.settings
    if role is not None and role not in config.roles:
        return False
    return decide(config, Principal("", role), "call", tool).allowed
