"""What only the whole of ``covalt.yaml`` tells: its approval rules in their order, and who is at this machine."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from covalt_git.access import Principal, decide
from covalt_git.authority.asking import always, judge_rules, read_rules, rules_for
from covalt_git.authority.facts import Change, Place
from covalt_git.authority.languages import tools_within
from covalt_git.authority.project_facts import EVERYTHING, PERSON, PROJECT
from covalt_git.models.project_config import RoleConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.authority.facts import Verdict
    from covalt_git.authority.states import State
    from covalt_git.models.project_config import ApprovalRule, ProjectConfig
    from covalt_git.models.tool import Tool

_MANY = 8
"""How many tools are named where more are concerned."""


def _config(state: State) -> ProjectConfig:
    assert state.config.value is not None
    return state.config.value


# Approval rules


def rule_changes(base: State, head: State) -> Iterator[Change]:
    """Yield what became of the approval rules, each that came or went at its place.

    They are judged by all calls that any tool could make: first all changes together, and where
    these are neither all stricter nor all looser, one by one.
    """
    old, new = _config(base).approvals, _config(head).approvals
    whole = judge_rules(read_rules(old), read_rules(new))
    if whole.verdict == "neutral":
        return
    details = tuple(_asked_otherwise(base, head))
    kept = Counter(map(_key, old)) & Counter(map(_key, new))
    went = _beyond(old, kept)
    came = _beyond(new, kept)
    found = [*_gone(base, old, went), *_new(base, head, new, came)]
    if whole.certain:  # all for the stricter, or all for the looser
        found = [one for one in found if one.verdict == whole.verdict]
    if all(one.verdict != whole.verdict for one in found):  # it is their order that does it
        message = f"{PROJECT} {whole.words}: its approval rules stand in another order"
        at, was = _rules_place(head, None), _rules_place(base, None)
        found.append(Change(whole.verdict, whole.certain, PROJECT, "approvals", message, at, was))
    for one in found:
        yield replace(one, details=details) if one.verdict == whole.verdict else one


def _gone(base: State, old: tuple[ApprovalRule, ...], went: list[int]) -> Iterator[Change]:
    """Judge each rule that went by what BASE asks without it."""
    for at in went:
        left = old[:at] + old[at + 1 :]
        words = f"has no rule any more that {_told(old[at])}"
        yield from _step(old, left, words, None, _rules_place(base, at))


def _new(
    base: State, head: State, new: tuple[ApprovalRule, ...], came: list[int]
) -> Iterator[Change]:
    """Judge each rule that came by what HEAD would ask without it."""
    for at in came:
        without = new[:at] + new[at + 1 :]
        words = f"has a new rule that {_told(new[at])}"
        yield from _step(without, new, words, _rules_place(head, at), _rules_place(base, None))


def _step(
    before: tuple[ApprovalRule, ...],
    now: tuple[ApprovalRule, ...],
    words: str,
    at: Place | None,
    was: Place,
) -> Iterator[Change]:
    found = judge_rules(read_rules(before), read_rules(now))
    if found.verdict != "neutral":
        message = f"{PROJECT} {words}"
        yield Change(found.verdict, found.certain, PROJECT, "approvals", message, at, was)


def _beyond(rules: tuple[ApprovalRule, ...], kept: Counter[str]) -> list[int]:
    left = Counter(kept)
    found = []
    for at, rule in enumerate(rules):
        if left[_key(rule)]:
            left[_key(rule)] -= 1
        else:
            found.append(at)
    return found


def _key(rule: ApprovalRule) -> str:
    return rule.model_dump_json()


def _told(rule: ApprovalRule) -> str:
    wanted = rule.when.annotations
    when = [
        f"{name} {str(value).lower()}"
        for name, value in (wanted.model_dump(exclude_none=True) if wanted else {}).items()
    ]
    when += [f"{path} is {value!r}" for path, value in rule.when.args.items()]
    said = f" where {', '.join(when)}" if when else ""
    return f"asks for {rule.pattern}{said}" if rule.require else f"lets {rule.pattern} pass{said}"


def _rules_place(state: State, at: int | None) -> Place:
    reading = state.config
    if reading.document is None:
        return Place(reading.path)
    loc: tuple[str | int, ...] = ("approvals",) if at is None else ("approvals", at)
    return Place(reading.path, *reading.document.locate(loc, key=at is None))


def _asked_otherwise(base: State, head: State) -> Iterator[str]:
    """Yield which tools that stay ask otherwise, because of the rules alone."""
    before, now = base.tools(), head.tools()
    fewer, more = [], []
    for tool_id in sorted(before.keys() & now.keys()):
        tool = before[tool_id]
        old = rules_for(_config(base).approvals, tool)
        new = rules_for(_config(head).approvals, tool)
        found = judge_rules(old, new)
        some = "" if always(new) is not None else " for some arguments"
        if found.verdict == "widening":
            fewer.append(tool_id + some)
        elif found.verdict == "narrowing":
            more.append(tool_id + some)
    if fewer:
        yield f"asks less: {_named(fewer)}"
    if more:
        yield f"asks more: {_named(more)}"


def _named(names: list[str]) -> str:
    left = len(names) - _MANY
    return ", ".join(names[:_MANY]) + (f" and {left} more" if left > 0 else "")


# Who is at this machine, and which tools a role gains


def person_changes(base: State, head: State) -> Iterator[Change]:
    """Yield what became of the role of whoever has none of their own."""
    old, new = _config(base), _config(head)
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
    return (f"newly: {_named(gained)}",) if gained else ()


def _may(state: State, role: str | None, tool: Tool) -> bool:
    config = _config(state)
    if role is not None and role not in config.roles:
        return False
    return decide(config, Principal("", role), "call", tool).allowed
