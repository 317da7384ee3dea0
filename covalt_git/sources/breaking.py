"""Changes of a definition that break its callers, and recorded calls that it would refuse."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from covalt_git.authority.schema_diff import judge_schemas
from covalt_git.json_values import json_schema
from covalt_git.json_values.shared_definitions import Definitions
from covalt_git.models.sources.tool_lock import LockedOffer, LockedTool

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from covalt_git.json_values import JsonObject
    from covalt_git.sources.refresh import ToolDifference

MOST_CALLS = 200
"""The most recorded calls of a tool that are compared with its new definition."""

_MOST_REASONS = 20
_ARGUMENTS = re.compile(r"\(([^()]*)\)")
_VARIABLE = re.compile(r"\$(\w+)")


def breaking_changes(
    difference: ToolDifference, old: Mapping[str, JsonObject], new: Mapping[str, JsonObject]
) -> tuple[str, ...]:
    """Return why callers of a tool may fail after a change; empty if none of them does.

    A change whose effect is not certain counts as breaking.  ``old`` and ``new`` are the shared definitions.
    """
    accepted, current = difference.before, difference.after
    if difference.kind == "gone":
        return ("it is removed",)
    if isinstance(accepted, LockedOffer) and accepted.kind == "skill":
        return ()  # it is read, and has no callers
    if not isinstance(accepted, LockedTool) or not isinstance(current, LockedTool):
        return ("the accepted definition is not stored",) if difference.kind == "changed" else ()
    same = accepted.request == _request_of_old_arguments(accepted, current)
    reasons = [] if same else ["the request is another one"]
    judged = judge_schemas(
        Definitions(old).within(accepted.input_schema),
        Definitions(new).within(current.input_schema),
    )
    reasons += [
        judgement.words
        for judgement in judged
        if judgement.verdict == "narrowing" or not judgement.certain
    ]
    if set(accepted.fields) - set(current.fields) or (current.fields and not accepted.fields):
        reasons.append("answers have fewer fields")
    return tuple(reasons[:_MOST_REASONS])


def _request_of_old_arguments(accepted: LockedTool, current: LockedTool) -> JsonObject:
    """Return the new request without the places of arguments that are new and optional.

    Callers of the old definition do not pass them.  A default is what the API assumes without the argument.
    """
    added = (
        current.input_schema.get("properties", {}).keys()
        - accepted.input_schema.get("properties", {}).keys()
        - set(current.input_schema.get("required", ()))
    )
    request = dict(current.request)
    places = request.pop("parameters", {})
    if left := {name: place for name, place in places.items() if name not in added}:
        request["parameters"] = left
    body = request.get("body")
    if isinstance(body, dict) and "graphql" in body:
        graphql = body["graphql"]
        query = _ARGUMENTS.sub(lambda match: _arguments_without(match[1], added), graphql["query"])
        request["body"] = {"graphql": graphql | {"query": query}}
    return request


def _arguments_without(arguments: str, variables: AbstractSet[str]) -> str:
    """Return a list of arguments of a compiled query, with its parentheses, without those of the variables."""
    left = [
        argument
        for argument in arguments.split(", ")
        if not variables & set(_VARIABLE.findall(argument))
    ]
    return f"({', '.join(left)})" if left else ""


def refused_calls(
    difference: ToolDifference, definitions: Mapping[str, JsonObject], calls: Iterable[JsonObject]
) -> int:
    """Return how many calls with these arguments the new definition would refuse."""
    after = difference.after
    if not isinstance(after, LockedTool):
        return sum(1 for _ in calls)
    schema = Definitions(definitions).within(after.input_schema)
    if json_schema.schema_problems(schema):
        return sum(1 for _ in calls)
    return sum(
        bool(json_schema.value_problems(schema, json_schema.with_integers(schema, args)))
        for args in calls
    )
