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
from covalt_git.authority.facts import Change, Place
from covalt_git.authority.pattern_subset import tools_within
from covalt_git.authority.project_facts import EVERYTHING, PERSON, PROJECT
from covalt_git.models.project_config import RoleConfig

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from covalt_git.authority.facts import Verdict
    from covalt_git.authority.snapshots import State
    from covalt_git.models.project_config import ApprovalRule, ProjectConfig
    from covalt_git.models.tool import Tool

_MANY = 8
"""Number of tools that a detail names."""


def rule_changes(base: State, head: State) -> Iterator[Change]:
    """Yield the removed and the inserted rules, if the calls that require approval change.

    An inserted rule that requires approval is narrower, a removed one is wider.  If all changes together
    are plainly wider or plainly narrower, only the changes of that kind are reported.
    """
    old, new = base.settings.approvals, head.settings.approvals
    whole = judge_rules(old, new)
    if whole.verdict == "neutral":
        return
    where = _place(base, None)
    found = [
        _change(
            "has no rule any more that", old[at], None, _place(base, at), asks=not old[at].require
        )
        for at in rules_beyond(old, new)
    ]
    found += [
        _change("has a new rule that", new[at], _place(head, at), where, asks=new[at].require)
        for at in rules_beyond(new, old)
    ]
    if whole.certain:
        found = [one for one in found if one.verdict == whole.verdict]
    if all(one.verdict != whole.verdict for one in found):
        message = f"{PROJECT} {whole.words}: its approval rules are in another order"
        at = _place(head, None)
        found.append(Change(whole.verdict, whole.certain, PROJECT, "approvals", message, at, where))
    details = tuple(_tools_concerned(base, head))
    for one in found:
        if one.verdict == whole.verdict:
            yield replace(one, certain=whole.certain, details=details)
        else:
            yield one


def _change(words: str, rule: ApprovalRule, at: Place | None, was: Place, *, asks: bool) -> Change:
    when = [f"{name} {str(value).lower()}" for name, value in required_annotations(rule).items()]
    when += [f"{path} is {value!r}" for path, value in rule.when.args.items()]
    said = f" where {', '.join(when)}" if when else ""
    rule_words = (
        f"asks for {rule.pattern}{said}" if rule.require else f"lets {rule.pattern} pass{said}"
    )
    verdict: Verdict = "narrowing" if asks else "widening"
    return Change(verdict, True, PROJECT, "approvals", f"{PROJECT} {words} {rule_words}", at, was)


def _place(state: State, at: int | None) -> Place:
    reading = state.config
    if reading.document is None:
        return Place(reading.path)
    loc: tuple[str | int, ...] = ("approvals",) if at is None else ("approvals", at)
    return Place(reading.path, *reading.document.locate(loc, key=at is None))


def _tools_concerned(base: State, head: State) -> Iterator[str]:
    """Yield the tools in both states whose calls require approval otherwise, by the rules alone."""
    before, now = base.tools(), head.tools()
    found: dict[str, list[str]] = {"less": [], "more": [], "for other calls": []}
    for tool_id in sorted(before.keys() & now.keys()):
        tool = before[tool_id]
        new = rules_for(head.settings.approvals, tool)
        judged = judge_rules(rules_for(base.settings.approvals, tool), new)
        some = "" if always(new) is not None else " for some arguments"
        if judged.verdict != "neutral":
            word = "less" if judged.verdict == "widening" else "more"
            found[word if judged.certain else "for other calls"].append(tool_id + some)
    for word, names in found.items():
        if names:
            yield f"asks {word}: {shortened_list(names)}"


def shortened_list(names: Sequence[str]) -> str:
    """Return the first names of many, and how many more there are."""
    more = f" and {len(names) - _MANY} more" if len(names) > _MANY else ""
    return ", ".join(names[:_MANY]) + more


def person_changes(base: State, head: State) -> Iterator[Change]:
    """Yield the change of the default role: what a user without a role may do."""
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
    """Return what a user without a role may do; None for everything."""
    if config.default_role is not None:
        return config.roles[config.default_role]
    return RoleConfig() if config.roles else None


def _reaches_less(one: RoleConfig | None, other: RoleConfig | None) -> bool:
    """Return whether ``other`` permits everything that ``one`` permits."""
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
    """Return the tools of both versions that a role, or a user without a role, may newly call."""
    name = None if subject == PERSON else subject.removeprefix("role ").strip("'")
    before, now = base.tools(), head.tools()
    gained = [
        tool_id
        for tool_id in sorted(before.keys() & now.keys())
        if _may(head, name, now[tool_id]) and not _may(base, name, before[tool_id])
    ]
    return (f"newly: {shortened_list(gained)}",) if gained else ()


def _may(state: State, role: str | None, tool: Tool) -> bool:
    config = state.settings
    if role is not None and role not in config.roles:
        return False
    return decide(config, Principal("", role), "call", tool).allowed
