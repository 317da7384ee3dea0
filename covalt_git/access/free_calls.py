"""The calls of a tool that need no approval, in a form in which two states of a project can be compared.

The first rule that is about a call decides, and the tool's default decides the rest.  So the calls without approval
are those of each waiver, and of a default that does not ask, except for what the rules before it require.

The names of rules are not compared, nor what they say about annotations: only which calls of the tool they match,
with the annotations that it has now.  So it does not matter by which file a pull ends an approval.  If each waiver of a
state is one of an earlier state, or of all calls, and no limit of that one is missing, the state waives no call that the
earlier state did not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.access.approval_required import applies
from covalt_git.access.argument_conditions import patterns_of
from covalt_git.access.shell_arguments import is_shell_argument_of
from covalt_git.json_values import canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from covalt_git.json_values import JsonObject
    from covalt_git.models.rules import PolicyRule
    from covalt_git.models.tool import Tool

_PLAIN = {"type", "properties", "required", "additionalProperties", "title", "description"}
"""Keys of a schema that has no other arguments than its properties, if it is closed."""

EVERY_CALL = ""
"""The condition of a waiver of all calls, and of a default that does not ask."""


def free_calls(
    rules: Iterable[PolicyRule], tool: Tool, called: Sequence[Tool] = ()
) -> dict[str, dict[str, str]]:
    """Return the conditions of the calls of a tool without approval, each with its limits.

    A condition is the JSON text of arguments, or ``EVERY_CALL``.  A limit is a digest, and words for users: the
    arguments and roles of an earlier rule that denies calls or requires their approval, without words if no call of the
    tool can have these arguments.  Rules are not left out if an earlier one covers them: without
    a rule that is not trusted, they decide.

    Args:
        rules: The approval rules of the project.
        tool: The tool.
        called: The tools whose arguments the rules compare, if it is an alias: it and the tool that it calls.
    """
    called = called or (tool,)
    free: dict[str, dict[str, str]] = {}
    limits: dict[str, str] = {}
    for rule in rules:
        if not applies(rule, tool):
            continue
        if not rule.requires:
            free.setdefault(_text(rule), limits | _shell_limits(rule, called))
        elif rule.when.args or rule.roles:
            # By the digest of the schemas too: a pull that changes a default changes which calls the rule is about,
            # not its text.
            can_match = any(_has_arguments(tool, _args(rule)) for tool in called)
            limits[_required_digest(rule, called)] = _text(rule) if can_match else ""
        else:  # no later rule, and not the default, decides about any call
            return free
    if not tool.confirmation:
        free.setdefault(EVERY_CALL, dict(limits))
    return free


def _has_arguments(tool: Tool, names: Iterable[str]) -> bool:
    """Return whether a call of a tool can have all these arguments; true if its schema does not say that it cannot."""
    schema = tool.input_schema
    is_closed = schema.get("additionalProperties") is False and schema.keys() <= _PLAIN
    properties = schema.get("properties")
    return not is_closed or not isinstance(properties, dict) or {*names} <= properties.keys()


def _args(rule: PolicyRule) -> JsonObject:
    args: JsonObject = rule.condition.get("args", {})
    return args


def _text(rule: PolicyRule) -> str:
    parts = [canonical_json.dumps(_args(rule)).decode()] if rule.when.args else []
    if rule.roles:
        parts.append(f"the role is {' or '.join(sorted(rule.roles))}")
    return " and ".join(parts)


def _required_digest(rule: PolicyRule, called: Sequence[Tool]) -> str:
    """Return the digest of a condition that requires approval: schemas have defaults, which it compares too."""
    schemas = [
        {
            "input": tool.input_schema,
            "function": tool.function_schema,
            "python": tool.kind == "python",
            "declared": tool.schema_is_declared,
        }
        for tool in called
    ]
    roles = {"roles": sorted(rule.roles)} if rule.roles else {}
    return canonical_json.digest({"requires": _args(rule), "schemas": schemas, **roles})


def _shell_limits(rule: PolicyRule, called: Sequence[Tool]) -> dict[str, str]:
    """Return a limit for each pattern that matches one command of a shell only, without words."""
    return {
        canonical_json.digest({"one_command": path}): ""
        for path, wanted in rule.when.args.items()
        if any(isinstance(value, str) and "*" in value for value in patterns_of(wanted))
        and any(is_shell_argument_of(tool, path) for tool in called)
    }
