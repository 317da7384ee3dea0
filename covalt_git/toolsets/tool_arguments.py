"""Validation of the arguments of a call by the input schema of its tool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.json_values import canonical_json, json_schema
from covalt_git.json_values.pointer import REF, BadReferenceError, json_path
from covalt_git.json_values.schema_rules import with_rule
from covalt_git.json_values.subschemas import Subschemas
from covalt_git.models.tool_properties import UNREAD_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.json_values import JsonObject
    from covalt_git.json_values.pointer import Loc
    from covalt_git.models.tool import Tool


def check_arguments(tool: Tool, args: JsonObject) -> None:
    """Validate arguments against the tool's input schema; the tool does not run.

    Raises:
        InvalidArgumentsError: with all problems, each with its JSON path.
    """
    try:
        # First, because the validator accepts values that no record can represent, such as a float NaN or a lone
        # surrogate.
        canonical_json.dumps(args)
    except canonical_json.NotJsonError as error:
        place, _, why = error.message.partition(": ")
        raise json_schema.InvalidArgumentsError(tool.tool_id, [(place, why)]) from None
    sent = json_schema.with_integers(tool.input_schema, args)
    refusals = json_schema.value_problems(tool.input_schema, sent)
    if refusals:
        problems = [
            (
                json_path(place),
                with_rule(message, rule_at(tool.input_schema, place), tool.input_schema),
            )
            for place, message in refusals
        ]
        raise json_schema.InvalidArgumentsError(tool.tool_id, problems)


def problems_of(tools: Iterable[Tool], args: JsonObject) -> list[tuple[str, str]]:
    """Return the problems for which a call is refused before its rules are asked: the JSON path and message of each.

    ``tools`` get the arguments: an alias and the tool that it calls, or one tool.
    """
    try:
        for tool in tools:
            check_arguments(tool, args)
    except json_schema.InvalidArgumentsError as error:
        return [(problem.path, problem.message) for problem in error.problems]
    return []


def problems_of_function(tool: Tool, args: JsonObject) -> list[tuple[str, str]]:
    """Return the names of arguments that a Python function refuses, though they match the schema of its manifest.

    What the function converts or checks in other ways only its run shows.
    """
    schema = tool.function_schema
    if (
        schema is None
        or schema.get(UNREAD_SCHEMA)
        or schema.get("additionalProperties") is not False
    ):
        return []
    unknown = [name for name in args if name not in schema.get("properties", ())]
    missing = [name for name in schema.get("required", ()) if name not in args]
    return [(json_path((name,)), "unknown argument") for name in unknown] + [
        ("$", f"{name!r} is missing") for name in missing
    ]


def rule_at(schema: JsonObject, place: Loc) -> JsonObject:
    """Return the part of a schema that is about a place of a value; empty if none is, or each alternative has another."""
    subschemas = Subschemas(schema)
    try:
        parts = subschemas.of_all()
        for name in place:
            declared = [
                part["properties"][name] for part in parts if name in part.get("properties", {})
            ]
            if any(part != declared[0] for part in declared):
                return {}
            parts = subschemas.below(parts, str(name))
    except BadReferenceError:
        return {}
    return next(
        (part for part in parts if REF not in part), {}
    )  # what a reference leads to follows it
