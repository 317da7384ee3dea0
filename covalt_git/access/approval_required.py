"""What the rules of a project decide about a call: it runs, requires approval, or is refused.

Only the project waives approval, by a rule of ``covalt.yaml``, its state file, or the manifest of a toolset of its own.
The manifest of an imported toolset can require approval but not waive it.  Annotations are what an author says of a
tool; those of MCP servers are untrusted (Model Context Protocol 2026-07-28, server/tools).  So a rule that allows
tools with an annotation applies only to tools whose annotations the project itself states: the built-in
tools and those of its own toolsets.

:mod:`covalt_git.access.argument_conditions` compares arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.access.argument_conditions import (
    matches_missing,
    may_match,
    surely_matches,
)
from covalt_git.access.call_arguments import CallArguments
from covalt_git.errors import listed
from covalt_git.json_values import canonical_json
from covalt_git.models.rules import CallDecision
from covalt_git.names import matches
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from covalt_git.json_values import JsonObject
    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.models.rules import PolicyRule
    from covalt_git.models.tool import ConfirmationSource, Tool
    from covalt_git.models.tool_properties import Annotations

_REASONS: dict[ConfirmationSource, str] = {
    "toolset": "the toolset requires it",
    "server_default": "tools of MCP servers require it by default",
    "decorator": "its decorator requires it",
    "override": "the toolset's override requires it",
    "project": "this project's state requires it",
    "destructive": "destructive",
}

_MOST_CONDITION = 80
"""Characters of the value of a condition in a reason."""


def decide_call(
    rules: Iterable[PolicyRule],
    tools: Sequence[Tool],
    args: JsonObject,
    called: Sequence[Tool] = (),
) -> CallDecision:
    """Decide about a call that its principal may make: whether it runs, requires approval, or is refused.

    Args:
        rules: The rules about the principal's role.
        tools: An alias and the tool that it calls, or one tool.  Each is decided about, with the arguments of both.
        args: The arguments of the call.
        called: All tools that get the arguments, if these are more than ``tools``.

    Raises:
        NotJsonError: if a rule compares an argument that JSON cannot represent.
    """
    rules, arguments = tuple(rules), CallArguments(called or tools, args)
    decisions = [_decide(rules, tool, arguments) for tool in tools]
    for effect in ("deny", "ask"):
        of_effect = [decision for decision in decisions if decision.effect == effect]
        if of_effect:
            reasons = (reason for decision in of_effect for reason in decision.reasons)
            return CallDecision(effect, tuple(dict.fromkeys(reasons)))
    return CallDecision("allow")


def deciding_rule(
    rules: Iterable[PolicyRule], tool: Tool, args: JsonObject, called: Sequence[Tool] = ()
) -> int | None:
    """Return the position of the first rule that applies to a call; None if the tool's settings decide.

    If the tool is an alias or is called by one, ``called`` has both: the arguments are those of each.

    Raises:
        NotJsonError: if a rule compares an argument that JSON cannot represent.
    """
    return _deciding_rule(rules, tool, CallArguments(called or (tool,), args))


def _deciding_rule(rules: Iterable[PolicyRule], tool: Tool, arguments: CallArguments) -> int | None:
    for position, rule in enumerate(rules):
        if applies(rule, tool) and args_match(rule, arguments):
            return position
    return None


def confirmation(
    config: ProjectConfig,
    tool: Tool,
    args: JsonObject,
    called: Sequence[Tool] = (),
    *,
    role: str | None = None,
) -> tuple[str, ...]:
    """Return the reasons why a call of a role does not run without approval; empty if it does.

    Raises:
        NotJsonError: as :func:`deciding_rule`.
    """
    arguments = CallArguments(called or (tool,), args)
    return _decide(config.rules_for(role), tool, arguments).reasons


def _decide(rules: Sequence[PolicyRule], tool: Tool, arguments: CallArguments) -> CallDecision:
    position = _deciding_rule(rules, tool, arguments)
    if position is None:
        reasons = tuple(_REASONS[source] for source in tool.confirmation)
        return CallDecision("ask" if reasons else "allow", reasons)
    rule = rules[position]
    return CallDecision(rule.effect, (_reason(rule, tool),) if rule.requires else ())


def approval_reasons_of_any(
    rules: Iterable[PolicyRule], tool: Tool, names: Collection[str] | None = None
) -> tuple[str, ...]:
    """Return why a call of a tool may not run without approval, if its arguments are not known.

    ``names`` are all arguments that a call can have; None if it can have any.
    """
    for rule in rules:
        if applies(rule, tool) and (names is None or _may_be_about(rule, names)):
            if rule.requires:
                return (_reason(rule, tool),)
            if not rule.when.args:  # no later rule, and not the default, decides about any call
                return ()
    return tuple(_REASONS[source] for source in tool.confirmation)


def may_be_denied(rules: Iterable[PolicyRule], tool: Tool) -> bool:
    """Return whether a rule denies a call of a tool with some arguments."""
    for rule in rules:
        if applies(rule, tool):
            if rule.effect == "deny":
                return True
            if not rule.when.args:  # no later rule decides about any call
                return False
    return False


def least_limiting(rules: Iterable[PolicyRule]) -> tuple[PolicyRule, ...]:
    """Return rules that limit no call more than the rules do for any role, whatever the role is."""
    return tuple(
        rule.model_copy(update={"roles": ()})
        for rule in rules
        if not rule.roles or not rule.requires
    )


def _may_be_about(rule: PolicyRule, names: Collection[str]) -> bool:
    """Return whether arguments with these names can match a rule that compares the arguments at its paths."""
    # A name can have dots too, as that of a template's variable; a path of a rule has them between its keys.
    keys = {name.partition(".")[0] for name in names}
    return all(
        path.partition(".")[0] in keys or matches_missing(wanted)
        for path, wanted in rule.when.args.items()
    )


def _reason(rule: PolicyRule, tool: Tool) -> str:
    unknown = (
        ", and its arguments are not known" if rule.when.args and tool.arguments_are_unread else ""
    )
    why = "" if rule.reason is None else f": {rule.reason}"
    if rule.effect == "deny":
        # Its caller must not learn which other arguments the rule lets through.
        return f"rule {rule.pattern} denies it{unknown}{why}"
    return f"rule {rule.pattern}{_conditions(rule)} requires it{unknown}{why}"


def _conditions(rule: PolicyRule) -> str:
    """Return the conditions of a rule as text; without them, a rule for ``**`` would look like a rule for all calls."""
    conditions = {**rule.when.model_dump(mode="json", exclude_unset=True).get("args", {})}
    if rule.when.annotations is not None:
        conditions |= rule.when.annotations.model_dump(exclude_none=True)
    words = [
        f"{name}: {shorten(canonical_json.dumps(value).decode(), _MOST_CONDITION)}"
        for name, value in conditions.items()
    ]
    return f" with {listed(words)}" if words else ""


def is_about(rule: PolicyRule, tool: Tool) -> bool:
    """Return whether a rule can apply to a tool: only annotations of the project itself can waive approval."""
    trusts = not rule.requires and rule.when.annotations is not None
    return matches(rule.pattern, tool.path) and (tool.annotations_are_own or not trusts)


def applies(rule: PolicyRule, tool: Tool) -> bool:
    """Return whether a rule applies to calls of a tool, with the annotations that it has now."""
    annotations = rule.when.annotations
    return is_about(rule, tool) and (
        annotations is None or _same_annotations(annotations, tool.annotations)
    )


def args_match(rule: PolicyRule, arguments: CallArguments) -> bool:
    """Return whether the arguments of a call match a rule: possibly, or certainly if it allows the call."""
    match = may_match if rule.requires else surely_matches
    return all(match(arguments, path, wanted) for path, wanted in rule.when.args.items())


def _same_annotations(rule: Annotations, annotations: Annotations) -> bool:
    facts = rule.model_dump(exclude_none=True)
    return all(getattr(annotations, name) == value for name, value in facts.items())
