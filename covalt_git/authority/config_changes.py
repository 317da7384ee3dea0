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
from covalt_git.authority.facts import FactChange, place_in
from covalt_git.authority.project_facts import LOCAL_USER, PROJECT
from covalt_git.models.project_config import RoleConfig

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from covalt_git.authority.facts import Place, Verdict
    from covalt_git.authority.snapshots import ProjectSnapshot
    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.models.rules import PolicyRule
    from covalt_git.models.tool import Tool

_EFFECTS = {"ask": "requires approval for", "allow": "waives approval for", "deny": "denies"}

_MANY = 8
"""Number of tools that a detail names."""


def rule_changes(base: ProjectSnapshot, head: ProjectSnapshot) -> Iterator[FactChange]:
    """Yield the removed and the inserted rules, if the calls that require approval change.

    An inserted rule that requires approval is narrower, a removed one is wider.  If all changes together
    are certainly wider or certainly narrower, only the changes of that kind are reported.
    """
    old, new = base.settings.rules, head.settings.rules
    total = judge_rules(old, new)
    if total.verdict == "neutral":
        return
    where = place_in(base.config, (_key_of(base),), key=True)
    changes = [
        _change("no longer has", rule, None, place_in(base.config, base.settings.rule_place(at)))
        for at, rule in rules_beyond(old, new)
    ]
    changes += [
        _change("newly has", rule, place_in(head.config, head.settings.rule_place(at)), where)
        for at, rule in rules_beyond(new, old)
    ]
    # A narrower part of a change that is wider as a whole would only calm the reviewer.
    if total.certain:
        changes = [change for change in changes if change.verdict == total.verdict]
    if all(change.verdict != total.verdict for change in changes):
        message = f"{PROJECT} {total.words}: its approval rules are in another order"
        at = place_in(head.config, (_key_of(head),), key=True)
        changes.append(
            FactChange(total.verdict, total.certain, PROJECT, "approvals", message, at, where)
        )
    details = tuple(_affected_tools(base, head))
    for change in changes:
        if change.verdict == total.verdict:
            yield replace(change, certain=total.certain, details=details)
        else:
            yield change


def _key_of(snapshot: ProjectSnapshot) -> str:
    return snapshot.settings.rule_place(0)[0]


def _change(verb: str, rule: PolicyRule, at: Place | None, was: Place) -> FactChange:
    """Return the change of a rule: removed if it has no place ``at``, else inserted."""
    when = [f"{name} {str(value).lower()}" for name, value in required_annotations(rule).items()]
    when += [f"{path} is {value!r}" for path, value in rule.condition.get("args", {}).items()]
    if rule.roles:
        when.append(f"the role is {' or '.join(rule.roles)}")
    effect = _EFFECTS[rule.effect]
    condition = f" where {', '.join(when)}" if when else ""
    message = f"{PROJECT} {verb} the rule that {effect} {rule.pattern}{condition}"
    verdict: Verdict = "narrowing" if rule.requires is (at is not None) else "widening"
    return FactChange(verdict, True, PROJECT, "approvals", message, at, was)


def _affected_tools(base: ProjectSnapshot, head: ProjectSnapshot) -> Iterator[str]:
    """Yield the tools in both snapshots whose approval rules changed."""
    base_tools, head_tools = base.tools(), head.tools()
    tools_by_effect: dict[str, list[str]] = {"fewer": [], "more": [], "other": []}
    for tool_id in sorted(base_tools.keys() & head_tools.keys()):
        # The tool as BASE has it, so that changed annotations are not reported as changed rules.
        tool = base_tools[tool_id]
        new = rules_for(head.settings.rules, tool)
        judged = judge_rules(rules_for(base.settings.rules, tool), new)
        some = "" if always(new) is not None else " for some arguments"
        if judged.verdict != "neutral":
            word = "fewer" if judged.verdict == "widening" else "more"
            tools_by_effect[word if judged.certain else "other"].append(tool_id + some)
    for word, names in tools_by_effect.items():
        if names:
            yield f"approval for {word} calls: {shortened_list(names)}"


def shortened_list(names: Sequence[str]) -> str:
    """Return the first names, and the number of further ones."""
    more = f" and {len(names) - _MANY} more" if len(names) > _MANY else ""
    return ", ".join(names[:_MANY]) + more


def default_role_changes(base: ProjectSnapshot, head: ProjectSnapshot) -> Iterator[FactChange]:
    """Yield the change of the default role, which decides what the local user may do.

    It is narrower only if the local user could do everything before, or may do nothing now.
    """
    old, new = base.settings, head.settings
    if old.default_role == new.default_role and bool(old.roles) == bool(new.roles):
        return
    old_role, new_role = _default_role(old), _default_role(new)
    if old_role == new_role and _has_same_rules(old, new):
        return
    # Other roles are not compared: with patterns that allow and deny, neither may include the other.
    narrower = old_role is None or new_role == RoleConfig()
    gained = [] if narrower else tools_gained(base, head, LOCAL_USER)
    yield FactChange(
        "narrowing" if narrower else "widening",
        certain=narrower or new_role is None,
        subject=LOCAL_USER,
        kind="default_role",
        message=f"{LOCAL_USER} {_description(new)} (was: {_description(old)})",
        at=place_in(head.config, ("default_role",)),
        was=place_in(base.config, ("default_role",)),
        details=details_of_gained(gained),
    )


def _has_same_rules(old: ProjectConfig, new: ProjectConfig) -> bool:
    """Return whether the same rules are about both default roles, in each version."""
    names = old.default_role, new.default_role
    return all(config.rules_for(names[0]) == config.rules_for(names[1]) for config in (old, new))


def _default_role(config: ProjectConfig) -> RoleConfig | None:
    """Return the role that applies to a user without a role; None if such a user may do everything."""
    if config.default_role is not None:
        return config.roles[config.default_role]
    return RoleConfig() if config.roles else None


def _description(config: ProjectConfig) -> str:
    if config.default_role is not None:
        return f"has the role {config.default_role!r}"
    return "has no role and may do nothing" if config.roles else "may do everything"


def tools_gained(base: ProjectSnapshot, head: ProjectSnapshot, subject: str) -> list[Tool]:
    """Return the tools of both snapshots that a role, or the local user, may newly call."""
    name = None if subject == LOCAL_USER else subject.removeprefix("role ").strip("'")
    base_tools, head_tools = base.tools(), head.tools()
    return [
        head_tools[tool_id]
        for tool_id in sorted(base_tools.keys() & head_tools.keys())
        if _may(head, name, head_tools[tool_id]) and not _may(base, name, base_tools[tool_id])
    ]


def details_of_gained(tools: Sequence[Tool]) -> tuple[str, ...]:
    """Return the line that lists newly callable tools, in a tuple; an empty tuple without tools."""
    return (f"newly: {shortened_list([tool.tool_id for tool in tools])}",) if tools else ()


def _may(snapshot: ProjectSnapshot, role: str | None, tool: Tool) -> bool:
    config = snapshot.settings
    if role is not None and role not in config.roles:
        return False
    return decide(config, Principal("", role), "call", tool).allowed
