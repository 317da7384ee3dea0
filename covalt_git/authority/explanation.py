"""Explanation of a decision about a call: each line of the project's files that took part, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from covalt_git.access.approval_required import applies, args_match
from covalt_git.access.call_arguments import CallArguments
from covalt_git.authority.facts import Place, place_in
from covalt_git.authority.policy_outcomes import (
    NO_TARGET,
    NOT_PENDING,
    policy_decision,
    possible_effects,
    tool_decision,
)
from covalt_git.authority.toolset_facts import toolset_facts
from covalt_git.json_values import canonical_json
from covalt_git.names import matches
from covalt_git.toolsets.builtin_tools import is_recorded

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from covalt_git.authority.policy_outcomes import PolicyDecision
    from covalt_git.authority.project_tools import ProjectTools
    from covalt_git.json_values import JsonObject
    from covalt_git.manifests.reading import Reading
    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.models.tool import Tool


class DecisionLine(NamedTuple):
    """A line of a file that took part in a decision, what it says about the call, and whether it decides."""

    place: Place
    words: str
    decides: bool = False


class ExplainedDecision(NamedTuple):
    """A decision about a call, None if it depends on the arguments, and the lines that took part."""

    decision: PolicyDecision | None
    lines: tuple[DecisionLine, ...]


def explain(
    reading: Reading[ProjectConfig],
    tools: ProjectTools,
    called: Sequence[Tool],
    role: str | None,
    args: JsonObject | None,
    *,
    untrusted: Collection[int] = (),
) -> ExplainedDecision:
    """Explain the decision about a call of a role, or about all of its calls of a tool.

    Args:
        reading: The valid ``covalt.yaml``.
        tools: The tools of the project.
        called: The called tool and, if it is an alias, the tool that it calls.
        role: The role of the caller; None: the default role.
        args: The arguments; None: any.
        untrusted: The positions of rules that do not act, because the user of this machine does not trust them.

    Raises:
        UnknownRoleError: if the role is not defined.
    """
    whole = reading.valid
    acting = whole.with_rules(
        rule for position, rule in enumerate(whole.rules) if position not in untrusted
    )
    # If all calls have one decision, the call without arguments has it too.
    decision = policy_decision(acting, role, called, args or {})
    arguments = None if args is None else CallArguments(called, args)
    depends = args is None and len(possible_effects(acting, role, called)) > 1
    lines: list[DecisionLine] = []
    for tool in called:
        is_hidden = tool_decision(acting, role, tool, {}, called).outcome == "hidden"
        lines += _lines(reading, tools, tool, role, arguments, untrusted, is_hidden=is_hidden)
    if called[-1].alias_of is not None:
        place = Place(tools.toolset(called[-1].toolset_id).manifest_reading.path)
        lines.append(DecisionLine(place, f"{called[-1].tool_id} {NO_TARGET}", decides=True))
    return ExplainedDecision(None if depends else decision, tuple(dict.fromkeys(lines)))


def _lines(
    reading: Reading[ProjectConfig],
    tools: ProjectTools,
    tool: Tool,
    role: str | None,
    arguments: CallArguments | None,
    untrusted: Collection[int],
    *,
    is_hidden: bool,
) -> Iterator[DecisionLine]:
    config = reading.valid
    name = config.default_role if role is None else role
    if role is None and name is not None:
        yield DecisionLine(place_in(reading, ("default_role",)), f"the default role is {name!r}")
    if name is not None:
        line, may_call = _role_line(reading, name, tool)
        yield line
        if not may_call:
            return
    elif config.roles:
        words = "without default_role, a user without a role may call nothing"
        yield DecisionLine(place_in(reading, ("roles",), key=True), words, decides=True)
        return
    for position, rule in enumerate(config.rules):
        if not rule.is_for(name) or not matches(rule.pattern, tool.path):
            continue
        where = f"{rule.effect} {rule.pattern}"
        if is_hidden and not (rule.effect == "deny" and rule.is_of_all_calls):
            continue  # it can only deny more of the calls
        if position in untrusted:
            words, decides = f"{where} is not trusted on this machine", False
        elif is_hidden:
            words, decides = f"{where} hides the tool", True
        elif not applies(rule, tool):
            words, decides = f"{where} is about other annotations", False
        elif arguments is None and rule.when.args:
            condition = canonical_json.dumps(rule.condition.get("args", {})).decode()
            words, decides = f"{where} applies to these arguments: {condition}", False
        elif arguments is not None and not args_match(rule, arguments):
            words, decides = f"{where} does not match these arguments", False
        else:
            words, decides = f"{where} applies" + (f": {rule.reason}" if rule.reason else ""), True
            if rule.effect == "ask" and not is_recorded(tool.tool_id):
                words += f", but {NOT_PENDING}"
        yield DecisionLine(place_in(reading, config.rule_place(position)), words, decides)
        if decides:
            return
    yield _own_line(config, tools, tool)


def _role_line(reading: Reading[ProjectConfig], name: str, tool: Tool) -> tuple[DecisionLine, bool]:
    """Return the line of a role that decides whether it may call a tool, and whether it may."""
    role = reading.valid.roles[name]
    for position, pattern in enumerate(role.deny):
        if matches(pattern, tool.path):
            place = place_in(reading, ("roles", name, "deny", position))
            return DecisionLine(place, f"role {name!r} denies {pattern}", decides=True), False
    if role.admin:
        return DecisionLine(
            place_in(reading, ("roles", name, "admin")), f"role {name!r} is admin"
        ), True
    for position, pattern in enumerate(role.allow):
        if matches(pattern, tool.path):
            place = place_in(reading, ("roles", name, "allow", position))
            return DecisionLine(place, f"role {name!r} allows {pattern}"), True
    place = place_in(reading, ("roles", name), key=True)
    return DecisionLine(place, f"role {name!r} allows no pattern that matches", decides=True), False


def _own_line(config: ProjectConfig, tools: ProjectTools, tool: Tool) -> DecisionLine:
    """Return the line of the settings of a tool, if no rule applies."""
    words = f"{tool.tool_id} requires no approval"
    if tool.confirmation:
        words = f"{tool.tool_id} requires approval: {', '.join(tool.confirmation)}"
    if tool.kind == "builtin":
        return DecisionLine(Place("covalt-git"), words, decides=True)
    toolset = tools.toolset(tool.toolset_id)
    place = Place(toolset.manifest_reading.path)
    if toolset.sound:
        facts = toolset_facts(toolset, config)
        place = next(
            (
                fact.place
                for fact in facts
                if (fact.kind, fact.subject) == ("confirmation", tool.tool_id)
            ),
            place,
        )
    return DecisionLine(place, words, decides=True)
