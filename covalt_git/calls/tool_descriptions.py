"""Schemas of Python tools as they run, compared with those that lists show, and their storage.

A schema that the manifest declares limits a function on purpose, so such a tool is compared with its source.

A tool is described in its sandbox, without network, secrets or workspace, if a call of it would not be refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from covalt_git.authority.schema_meaning import judge_meaning
from covalt_git.calls import preconditions, python_calls
from covalt_git.checks.stored_schemas import sources_digest
from covalt_git.errors import WrongCallError
from covalt_git.json_values import json_schema
from covalt_git.json_values.pointer import json_path
from covalt_git.manifests.stored_schemas import (
    stored_as,
    undeclared_keys,
    write_stored_schemas,
)
from covalt_git.models.calls import CallError
from covalt_git.models.stored_schemas import StoredSchema
from covalt_git.problems import codes
from covalt_git.runtime import sandbox_levels
from covalt_git.toolsets.toolset import read_toolset
from covalt_git.toolsets.toolset_copies import ToolsetChangedError
from covalt_git.toolsets.update_lock import locks_toolsets
from covalt_git.workspaces.lock import CancelledError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from covalt_git.calls.engine import Engine
    from covalt_git.catalog.catalog import Found
    from covalt_git.errors import Problem
    from covalt_git.json_values import JsonObject
    from covalt_git.models.outcomes import RunSchemas
    from covalt_git.toolsets.toolset import Toolset


REPAIRED: Final = frozenset({codes.BAD_EXAMPLE})
"""Errors of a toolset that do not stop the description of its tools, because a schema that was read wrongly makes them."""


@dataclass(frozen=True, slots=True)
class SchemaDifference:
    """A difference of a schema that ran from the listed one.

    Attributes:
        schema: which of the tool's schemas.
        verdict: whether the schema that ran accepts more, or less.
        certain: false if it may also be the other way round.
        message: the difference.
    """

    schema: Literal["input", "output"]
    verdict: Literal["widening", "narrowing"]
    certain: bool
    message: str


class ToolSchemas(NamedTuple):
    """The schemas of a tool as it ran, and their differences from the listed ones; or why it did not run."""

    found: Found
    ran: RunSchemas | None
    differences: tuple[SchemaDifference, ...] = ()
    error: CallError | None = None


def find_described(engine: Engine, tool_id: str) -> Found:
    """Return a Python tool that the principal may call now, or could but for the examples in its toolset.

    Raises:
        WrongCallError: if it is not a Python tool.
        CovaltError: as a call, before it runs.
    """
    target = engine.catalog.find_callable(tool_id, despite=REPAIRED)
    if target.tool.kind != "python":
        raise WrongCallError(
            f"{tool_id} is not a Python tool, so its schema is not read from source"
        )
    preconditions.check_found(target, engine.root, engine.config, at=engine.level)
    return target


def run_schemas(engine: Engine, target: Found) -> ToolSchemas:
    """Run the module of a tool for its schemas, and compare them.

    Raises:
        CovaltError: as a call that cannot start.
        CancelledError: if the user or the follower cancels it.
    """

    def check_again() -> None:
        find_described(engine.as_of_now(), target.tool_id)

    outcome = python_calls.describe(
        target,
        engine.config,
        engine.follower,
        level=engine.level or sandbox_levels.level(),
        check_again=check_again,
    )
    ran, error = outcome.schemas, outcome.error
    if error is not None and error.code == "cancelled":
        raise CancelledError(error.message)
    if error is None:
        error = _schema_error(ran)
    if ran is None or error is not None:
        return ToolSchemas(target, None, error=error)
    source = target.toolset.sources[target.tool.id.name]
    undeclared = undeclared_keys(target.toolset.manifest_reading, target.tool.id.name)
    listed = target.tool if "input_schema" in undeclared else source
    answer = target.tool if "output_schema" in undeclared else source
    return ToolSchemas(
        target,
        ran,
        (
            *_differences("input", listed.input_schema, ran.input_schema),
            *_differences("output", answer.output_schema or {}, ran.output_schema or {}),
        ),
    )


def _schema_error(ran: RunSchemas | None) -> CallError | None:
    """Return what is wrong with the schemas of a tool, which may have sent anything."""
    if ran is None:
        return CallError(code="cannot_load", message="it sent no schema")
    for name, schema in (("input", ran.input_schema), ("output", ran.output_schema or {})):
        for place, message in json_schema.schema_problems(schema):
            words = f"its {name} schema is invalid: {json_path(place)}: {message}"
            return CallError(code="cannot_load", message=words)
    if ran.input_schema.get("type") != "object":
        return CallError(code="cannot_load", message="its input schema is not of type object")
    return None


def _differences(
    name: Literal["input", "output"], read: JsonObject, ran: JsonObject
) -> Iterator[SchemaDifference]:
    for difference in judge_meaning(read, ran):
        words = (
            difference.words
            if name == "input"
            else difference.words.replace("the arguments", "the result", 1)
        )
        verdict: Literal["widening", "narrowing"] = (
            "narrowing" if difference.verdict == "narrowing" else "widening"
        )
        yield SchemaDifference(name, verdict, difference.certain, words)


class StoredNames(NamedTuple):
    """The tools that have an entry now, and the errors that the schema of another one would make."""

    stored: list[str]
    contradicting: dict[str, CallError]


@locks_toolsets
def store_schemas(root: Path, toolset_id: str, described: Mapping[str, ToolSchemas]) -> StoredNames:
    """Store the schemas of tools, by their ids in the manifest, that ``toolset.yaml`` does not declare.

    Entries of tools that do not exist, or are not Python tools, are removed; others stay.  So does that of a tool with
    whose new entry the toolset would have more errors than before, such as an example that does not match its schema:
    no tool of such a toolset can be called.

    Raises:
        ToolsetChangedError: if the toolset's files changed since the tools ran.
        CovaltError: if the file cannot represent the schemas.
    """
    toolset = read_toolset(root, toolset_id)
    # The tools ran before this lock was taken. An entry is only true for the source that ran.
    if any(schemas.found.toolset.digest != toolset.digest for schemas in described.values()):
        raise ToolsetChangedError(
            f"the files of {toolset_id!r} changed meanwhile, so no schema was stored",
            hint=f"covalt-git tool describe {toolset_id} --write",
        )
    stored = toolset.stored_schemas.valid.tools
    entries = {name: entry for name, entry in stored.items() if name in toolset.sources}
    others = {name: entry for name, entry in entries.items() if name not in described}
    new = {
        name: entry
        for name, schemas in described.items()
        if schemas.ran is not None and (entry := _entry(toolset, name, schemas.ran))
    }
    contradicting: dict[str, CallError] = {}
    # If they fail together, each is tried by itself: one example that contradicts a schema must not stop the storage
    # of all others.
    if not _errors_with(root, toolset, others | new):
        others |= new
    else:
        for name, entry in new.items():
            if errors := _errors_with(root, toolset, others | {name: entry}):
                contradicting[name] = _contradiction(toolset, errors)
                others |= {name: entries[name]} if name in entries else {}
            else:
                others[name] = entry
    if others != stored:
        write_stored_schemas(toolset.folder, others)
    return StoredNames([name for name in new if name not in contradicting], contradicting)


def _contradiction(toolset: Toolset, errors: list[Problem]) -> CallError:
    problems = "\n".join(str(problem) for problem in errors)
    return CallError(
        code="contradicts_toolset",
        message=f"the toolset does not match the schema that runs, so it was not stored:\n{problems}",
        hint=f"correct these places, then: covalt-git tool describe {toolset.id} --write",
    )


def _errors_with(
    root: Path, toolset: Toolset, entries: Mapping[str, StoredSchema]
) -> list[Problem]:
    """Return the errors that a toolset would have with other stored schemas, and does not have now."""
    display_path = toolset.manifest_reading.path.rpartition("/")[0]
    _, stored = stored_as(display_path, entries)
    written = read_toolset(root, toolset.id, stored=stored)
    return [
        problem
        for problem in written.problems
        if problem.severity == "error" and problem not in toolset.problems
    ]


def _entry(toolset: Toolset, name: str, ran: RunSchemas) -> StoredSchema | None:
    """Return the entry of a tool; None if the manifest declares everything."""
    schemas = {key: getattr(ran, key) for key in undeclared_keys(toolset.manifest_reading, name)}
    if all(schema is None for schema in schemas.values()):
        return None
    digest = sources_digest(toolset.sources[name], toolset.files)
    unsaid = sorted({*ran.unsaid} & ran.input_schema.get("properties", {}).keys())
    if "input_schema" in schemas:
        schemas["unsaid"] = unsaid
    return StoredSchema(sources_digest=digest, **schemas)
