"""Check of a script before it runs: its syntax, what its interpreter lacks, and the paths and arguments of its calls.

Only what is certain is reported, as :mod:`covalt_git.runtime.scripts.analysis` finds it.  No call is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from covalt_git.calls import preconditions
from covalt_git.errors import CovaltError, nearest_name
from covalt_git.json_values.keywords import list_at, object_at
from covalt_git.runtime.scripts.analysis import analyze
from covalt_git.runtime.scripts.steps import ScriptLimits, ScriptSource
from covalt_git.scripts import tool_paths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.catalog.catalog import Catalog
    from covalt_git.json_values import JsonObject
    from covalt_git.models.scripts import Language
    from covalt_git.runtime.scripts.analysis import LiteralCall


class SourceProblem(NamedTuple):
    """Why a script would fail; line and column count from 1, as far as they are known."""

    line: int | None
    col: int | None
    code: str
    message: str


def check(
    catalog: Catalog, text: str, language: Language, limits: ScriptLimits
) -> list[SourceProblem]:
    """Return what is certainly wrong with a script, in the order of its text.

    Raises:
        CovaltError: if scripts of the language do not run here.
    """
    from covalt_git.runtime.scripts.process import ScriptProcess  # noqa: PLC0415 - it loads an interpreter

    analysis = analyze(text, language)
    problems = [
        SourceProblem(item.line, item.col, "script_unsupported", item.message)
        for item in analysis.unsupported
    ]
    with ScriptProcess(ScriptSource(text, language, {}, 0, 0), limits, checks=True) as process:
        end = process.advance(()).end
    error = None if end is None else end.error
    # The interpreter stops at the first thing that it lacks, which the analysis has in better words.
    if error is not None and error.line not in {problem.line for problem in problems}:
        problems.append(SourceProblem(error.line, error.col, error.code, error.message))
    for call in analysis.calls:
        problems += _of_call(catalog, call)
    return sorted(problems, key=lambda problem: (problem.line or 0, problem.col or 0))


def _of_call(catalog: Catalog, call: LiteralCall) -> Iterator[SourceProblem]:
    """Yield what is wrong with the path and the names of the arguments of a call."""
    schema = tool_paths.SCHEMAS.get(call.path)
    if schema is None:
        try:
            entry = tool_paths.find(catalog, call.path)
            preconditions.check_caller(entry.tool, "script")
        except CovaltError as error:
            yield SourceProblem(call.line, call.col, error.code, error.message)
            return
        schema = catalog.with_target(entry.alias or entry.tool).input_schema
    for message in _of_names(schema, call.arguments):
        yield SourceProblem(
            call.line, call.col, "invalid_arguments", f"tools.{call.path}: {message}"
        )


def _of_names(schema: JsonObject, names: tuple[str, ...] | None) -> Iterator[str]:
    if names is None:
        return
    properties = object_at(schema, "properties")
    if schema.get("additionalProperties") is False and not object_at(schema, "patternProperties"):
        for name in names:
            if name not in properties:
                near = nearest_name(name, properties)
                hint = (
                    f"did you mean {near!r}?"
                    if near
                    else f"known: {', '.join(properties) or 'none'}"
                )
                yield f"unknown argument {name!r}; {hint}"
    for name in list_at(schema, "required"):
        if name not in names and "default" not in object_at(properties, name):
            yield f"the argument {name!r} is missing"
