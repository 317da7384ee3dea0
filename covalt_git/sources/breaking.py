"""Changes of a definition that break its callers, and recorded calls that it would refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.authority.schema_diff import judge_schemas
from covalt_git.json_values import json_schema
from covalt_git.json_values.shared_definitions import Definitions
from covalt_git.models.sources.tool_lock import LockedTool

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from covalt_git.json_values import JsonObject
    from covalt_git.sources.refresh import ToolDifference

MOST_CALLS = 200
"""The most recorded calls of a tool that are compared with its new definition."""

_MOST_REASONS = 20


def breaking_changes(
    difference: ToolDifference, old: Mapping[str, JsonObject], new: Mapping[str, JsonObject]
) -> tuple[str, ...]:
    """Return why callers of a tool may fail after a change; empty if none of them does.

    A change whose effect is not certain counts as breaking.  ``old`` and ``new`` are the shared definitions.
    """
    accepted, current = difference.before, difference.after
    if difference.kind == "gone":
        return ("it is removed",)
    if not isinstance(accepted, LockedTool) or not isinstance(current, LockedTool):
        return ("the accepted definition is not stored",) if difference.kind == "changed" else ()
    reasons = ["the request is another one"] if accepted.request != current.request else []
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
