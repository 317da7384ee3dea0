"""Changes of ``covalt.yaml`` between two versions: its approval rules and the default role."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from covalt_git.access import Principal, decide
from covalt_git.authority.approval_rules import (
    always,
    judge_rules,
    required_annotations,
    rules_beyond,
    rules_for,
)
from covalt_git.authority.facts import FactChange, Place
from covalt_git.authority.pattern_subset import tools_within
from covalt_git.authority.project_facts import EVERYTHING, LOCAL_USER, PROJECT
from covalt_git.models.project_config import RoleConfig

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from covalt_git.authority.facts import Verdict
    from covalt_git.authority.snapshots import ProjectSnapshot
    from covalt_git.models.project_config import ApprovalRule, ProjectConfig
    from covalt_git.models.tool import Tool

_MANY = 8
"""Number of tools that a detail names."""


def rule_changes(base: ProjectSnapshot, head: ProjectSnapshot) -> Iterator[FactChange]:
    """Yield the removed and the inserted rules, if the calls that require approval change.

    An inserted rule that requires approval is narrower, a removed one is wider.  If all changes together
    are certainly wider or certainly narrower, only the changes of that kind are reported.
    """
    old, new = base.settings.approvals, head.settings.approvals
    total = judge_rules(old, new)
    if total.verdict == "neutral":
        return
    where = _place(base, None)
    found = [
        _change("no longer has", old[at], None, _place(base, at), stricter=not old[at].require)
        for at in rules_beyond(old, new)
    ]
    found += [
        _change("newly has", new[at], _place(head, at), where, stricter=new[at].require)
        for at in rules_beyond(new, old)
    ]
    if total.certain:
        found = [one for one in found if one.verdict == total.verdict]
    if all(one.verdict != total.verdict for one in found):
        message = f"{PROJECT} {total.words}: its approval rules are in another order"
        at = _place(head, None)
        found.append(
            FactChange(total.verdict, total.certain, PROJECT, "approvals", message, at, where)
        )
    details = tuple(_affected_tools(base, head))
    for one in found:
        if one.verdict == total.verdict:
            yield replace(one, certain=total.certain, details=details)
        else:
            yield one


def _change(
    verb: str, rule: ApprovalRule, at: Place | None, was: Place, *, stricter: bool
) -> FactChange:
    when = [f"{name} {str(value).lower()}" for name, value in required_annotations(rule).items()]
    when += [f"{path} is {value!r}" for path, value in rule.when.args.items()]
    effect = "requires" if rule.require else "waives"
    condition = f" where {', '.join(when)}" if when else ""
    message = f"{PROJECT} {verb} the rule that {effect} approval for {rule.pattern}{condition}"
    verdict: Verdict = "narrowing" if stricter else "widening"
    return FactChange(verdict, True, PROJECT, "approvals", message, at, was)


def _place(snapshot: ProjectSnapshot, at: int | None) -> Place:
    reading = snapshot.config
    if reading.document is None:
        return Place(reading.path)
    loc: tuple[str | int, ...] = ("approvals",) if at is None else ("approvals", at)
    return Place(reading.path, *reading.document.locate(loc, key=at is None))


def _affected_tools(base: ProjectSnapshot, head: ProjectSnapshot) -> Iterator[str]:
    """Yield the tools in both snapshots whose approval rules changed."""
    before, now = base.tools(), head.tools()
    found: dict[str, list[str]] = {"fewer": [], "more": [], "other": []}
    for tool_id in sorted(before.keys() & now.keys()):
        tool = before[tool_id]
        new = rules_for(head.settings.approvals, tool)
        judged = judge_rules(rules_for(base.settings.approvals, tool), new)
        some = "" if always(new) is not None else " for some arguments"
        if judged.verdict != "neutral":
            word = "fewer" if judged.verdict == "widening" else "more"
            found[word if judged.certain else "other"].append(tool_id + some)
    for word, names in found.items():
        if names:
            yield f"approval for {word} calls: {shortened_list(names)}"


def shortened_list(names: Sequence[str]) -> str:
    """Return the first names, and the number of further ones."""
    more = f" and {len(names) - _MANY} more" if len(names) > _MANY else ""
    return ", ".join(names[:_MANY]) + more


def default_role_changes(base: ProjectSnapshot, head: ProjectSnapshot) -> Iterator[FactChange]:
    """Yield the change of the default role, which decides what the local user may do."""
    old, new = base.settings, head.settings
    if old.default_role == new.default_role and bool(old.roles) == bool(new.roles):
        return
    before, now = _default_role(old), _default_role(new)
    if before is None and now is None:
        return
    wider, narrower = not _is_within(now, before), not _is_within(before, now)
    verdict: Verdict = "neutral"
    if wider or narrower:
        verdict = "widening" if wider else "narrowing"
    message = f"{LOCAL_USER} {_description(new)} (was: {_description(old)})"
    gained = tools_gained(base, head, LOCAL_USER) if verdict == "widening" else []
    yield FactChange(
        verdict,
        certain=not (wider and narrower),
        subject=LOCAL_USER,
        kind="default_role",
        message=message,
        at=_default_place(head),
        was=_default_place(base),
        details=details_of_gained(gained),
    )


def _default_role(config: ProjectConfig) -> RoleConfig | None:
    """Return the role that applies to a user without a role; None if such a user may do everything."""
    if config.default_role is not None:
        return config.roles[config.default_role]
    return RoleConfig() if config.roles else None


def _is_within(one: RoleConfig | None, other: RoleConfig | None) -> bool:
    """Return whether ``other`` permits everything that ``one`` permits."""
    if other is None:
        return True
    if one is None:
        return other.admin and not other.deny
    denied = all(any(tools_within(pattern, wide) for wide in one.deny) for pattern in other.deny)
    return (
        (other.admin or not one.admin)
        and (other.approve_own or not one.approve_own)
        and (other.register_tools or other.admin or not one.register_tools)
        and _all_within(_patterns(one.allow, one), _patterns(other.allow, other))
        and _all_within(_patterns(one.approve, one), _patterns(other.approve, other))
        and (denied or not (one.allow or one.admin))
    )


def _patterns(patterns: tuple[str, ...], role: RoleConfig) -> tuple[str, ...]:
    return (EVERYTHING,) if role.admin else patterns


def _all_within(narrow: tuple[str, ...], wide: tuple[str, ...]) -> bool:
    return all(any(tools_within(one, other) for other in wide) for one in narrow)


def _description(config: ProjectConfig) -> str:
    if config.default_role is not None:
        return f"has the role {config.default_role!r}"
    return "has no role and may do nothing" if config.roles else "may do everything"


def _default_place(snapshot: ProjectSnapshot) -> Place:
    reading = snapshot.config
    if reading.document is None:
        return Place(reading.path)
    return Place(reading.path, *reading.document.locate(("default_role",)))


def tools_gained(base: ProjectSnapshot, head: ProjectSnapshot, subject: str) -> list[Tool]:
    """Return the tools of both snapshots that a role, or the local user, may newly call."""
    name = None if subject == LOCAL_USER else subject.removeprefix("role ").strip("'")
    before, now = base.tools(), head.tools()
    return [
        now[tool_id]
        for tool_id in sorted(before.keys() & now.keys())
        if _may(head, name, now[tool_id]) and not _may(base, name, before[tool_id])
    ]


def details_of_gained(tools: Sequence[Tool]) -> tuple[str, ...]:
    """Return the line that lists newly callable tools, in a tuple; an empty tuple without tools."""
    return (f"newly: {shortened_list([tool.tool_id for tool in tools])}",) if tools else ()


def _may(snapshot: ProjectSnapshot, role: str | None, tool: Tool) -> bool:
    config = snapshot.settings
    if role is not None and role not in config.roles:
        return False
    return decide(config, Principal("", role), "call", tool).allowed
