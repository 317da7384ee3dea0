"""What the whole policy of a project decides about a call: its roles, its rules and the settings of its tools."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final, NamedTuple

from covalt_git.access.approval_required import applies, args_match, decide_call
from covalt_git.access.call_arguments import CallArguments
from covalt_git.access.decisions import Principal, decide, hiding_rule, rules_of
from covalt_git.toolsets.builtin_tools import is_recorded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.json_values import JsonObject
    from covalt_git.models.policy_tests import PolicyOutcome
    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.models.rules import Effect
    from covalt_git.models.tool import Tool

_STRICTEST_FIRST: Final = ("hidden", "denied", "asks", "runs")
_EFFECTS: Final[tuple[Effect, ...]] = ("deny", "ask", "allow")
"""The strictest first."""

NOT_PENDING: Final = "its calls are not recorded and cannot be pending"
NO_TARGET: Final = "forwards its calls to a tool that does not exist"

_OUTCOMES: Final[dict[Effect, PolicyOutcome]] = {"deny": "denied", "ask": "asks", "allow": "runs"}


class PolicyDecision(NamedTuple):
    """The outcome of a call, the reasons, and the position of the rule that decides; None if no rule does."""

    outcome: PolicyOutcome
    reasons: tuple[str, ...]
    rule: int | None


def policy_decision(
    config: ProjectConfig, role: str | None, tools: Sequence[Tool], args: JsonObject
) -> PolicyDecision:
    """Return what is decided about a call of a role; whether the tool is enabled and can run is not considered.

    Args:
        config: The configuration of the project.
        role: The role of the caller; None: the default role.
        tools: An alias and the tool that it calls, or one tool.
        args: The arguments.

    Raises:
        UnknownRoleError: if the role is not defined.
    """
    if tools[-1].alias_of is not None:
        return PolicyDecision("hidden", (f"{tools[-1].tool_id} {NO_TARGET}",), None)
    decisions = [tool_decision(config, role, tool, args, tools) for tool in tools]
    return min(decisions, key=lambda decision: _STRICTEST_FIRST.index(decision.outcome))


def tool_decision(
    config: ProjectConfig, role: str | None, tool: Tool, args: JsonObject, tools: Sequence[Tool]
) -> PolicyDecision:
    """Return what is decided about one of the tools of a call, as :func:`policy_decision` about all."""
    principal = Principal("", role)
    name = config.default_role if role is None else role
    seen = decide(config, principal, "see", tool)
    if not seen.allowed:
        hiding = hiding_rule(config, name, tool.path)
        position = None
        if hiding is not None and seen.reason.startswith("rule "):
            position = next(at for at, rule in enumerate(config.rules) if rule is hiding)
        return PolicyDecision("hidden", (seen.reason,), position)
    called = decide_call(rules_of(config, principal), [tool], args, tools)
    outcome, reasons = _OUTCOMES[called.effect], called.reasons
    if outcome == "asks" and not is_recorded(tool.tool_id):
        outcome, reasons = "denied", (*reasons, NOT_PENDING)
    return PolicyDecision(outcome, reasons, rule_position(config, role, tool, args, tools))


def rule_position(
    config: ProjectConfig, role: str | None, tool: Tool, args: JsonObject, tools: Sequence[Tool]
) -> int | None:
    """Return the position of the rule that decides about a call of a role; None if the tool's settings do."""
    name = config.default_role if role is None else role
    arguments = CallArguments(tools, args)
    for position, rule in enumerate(config.rules):
        if rule.is_for(name) and applies(rule, tool) and args_match(rule, arguments):
            return position
    return None


def possible_effects(config: ProjectConfig, role: str | None, tools: Sequence[Tool]) -> set[Effect]:
    """Return what can be decided about the calls of a role, whatever their arguments are; arguments as above.

    Empty if the role may make none, because a tool is hidden from it.
    """
    principal = Principal("", role)
    is_whole = tools[-1].alias_of is None
    if not is_whole or not all(decide(config, principal, "see", tool).allowed for tool in tools):
        return set()
    effects: set[Effect] = {"allow"}
    for tool in tools:
        of_tool = _effects(config, principal, tool)
        # The stricter decision of an alias and its tool counts, whichever arguments lead to both.
        pairs = product(effects, of_tool)
        effects = {min(pair, key=_EFFECTS.index) for pair in pairs}
    return effects


def _effects(config: ProjectConfig, principal: Principal, tool: Tool) -> set[Effect]:
    effects = _listed_effects(config, principal, tool)
    if "ask" in effects and not is_recorded(tool.tool_id):
        return (effects - {"ask"}) | {"deny"}
    return effects


def _listed_effects(config: ProjectConfig, principal: Principal, tool: Tool) -> set[Effect]:
    effects: set[Effect] = set()
    for rule in rules_of(config, principal):
        if applies(rule, tool):
            effects.add(rule.effect)
            if not rule.when.args:
                return effects
    return effects | {"ask" if tool.confirmation else "allow"}
