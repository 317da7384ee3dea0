"""Operation on the schemas of Python tools as they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from covalt_git.access.grants import granted
from covalt_git.calls.tool_descriptions import (
    REPAIRED,
    SchemaDifference,
    ToolSchemas,
    find_described,
    run_schemas,
    store_schemas,
)
from covalt_git.catalog.catalog import DisabledToolError
from covalt_git.json_values import JsonObject
from covalt_git.manifests.stored_schemas import SCHEMAS
from covalt_git.models.calls import CallError
from covalt_git.operations.context import Context
from covalt_git.operations.registry import Request, Result, operation
from covalt_git.runtime import sandbox_levels
from covalt_git.toolsets.toolset import read_toolset

if TYPE_CHECKING:
    from covalt_git.calls.engine import Engine
    from covalt_git.catalog.catalog import Found


class DescribeTools(Request):
    """Request: a Python tool, or a toolset for all its Python tools."""

    target: str = Field(
        max_length=200, description="A tool or a toolset, such as data-lab:summarize or data-lab."
    )
    write: bool = Field(
        default=False, description=f"Store the schemas that are not declared in {SCHEMAS}."
    )


class DescribedTool(Result):
    """The schemas of one tool as it ran, compared with those that lists show."""

    tool_id: str
    verdict: Literal["same", "differs", "failed"]
    differences: tuple[SchemaDifference, ...] = Field(
        description="How the schemas that ran differ in meaning from the listed ones, or, if toolset.yaml declares "
        "those, from those that were read from the source."
    )
    input_schema: JsonObject | None = Field(description="As it ran; null if it failed.")
    output_schema: JsonObject | None
    error: CallError | None = Field(
        description="Why it did not run, or why its schemas were not stored."
    )
    stored: bool = Field(description=f"Whether its schemas were stored in {SCHEMAS}.")


class ToolsDescribed(Result):
    """Tools as they ran."""

    toolset_id: str
    tools: tuple[DescribedTool, ...]
    same: int
    differing: int
    failed: int
    written: str | None = Field(
        description="The path of the file with the schemas, if any are stored."
    )
    ended_grants: bool = Field(
        description="Whether grants of the toolset have ended, because a file of it was written."
    )


@operation(changes=True, errors=(403, 404, 409))
def describe_tools(context: Context, request: DescribeTools) -> ToolsDescribed:
    """Run Python tools for their schemas, in the sandbox without network, secrets and workspace, and compare them.

    The tools are not called, but their modules are imported.  A tool of a disabled toolset is refused, and so is
    each tool whose call would be refused.
    """
    if request.write:
        context.require_admin("change tools")
    # The fork server tries the sandbox while the catalog is read here.
    sandbox_levels.begin()
    engine = context.engine()
    tools, results = _chosen(engine, request.target)
    for number, tool in enumerate(tools):
        context.progress(number, len(tools))
        results.append(run_schemas(engine, tool))
    context.progress(len(tools), len(tools))
    # Before anything is written: the new file ends grants, and the answer says so
    # (test_writing_the_file_reports_that_grants_have_ended).
    toolset = results[0].found.toolset if results else engine.catalog.find_toolset(request.target)
    root, may = context.project.root, granted(toolset.id, toolset.state, toolset.digest)
    stored: list[str] = []
    written, ended_grants = None, False
    if request.write:
        ran = {result.found.tool.id.name: result for result in results if result.ran is not None}
        stored, contradicting = store_schemas(root, toolset.id, ran)
        # One example that contradicts a schema must not stop the storage of the others
        # (test_a_schema_that_an_example_does_not_match_is_not_stored_and_does_not_stop_the_others).
        results = [
            result._replace(error=contradicting[result.found.tool.id.name])
            if result.found.tool.id.name in contradicting
            else result
            for result in results
        ]
        written = f"toolsets/{toolset.id}/{SCHEMAS}" if stored else None
        new_toolset = read_toolset(root, toolset.id)
        ended_grants = (
            granted(new_toolset.id, new_toolset.state, new_toolset.digest).stale != may.stale
        )
        context.update_toolset_index()
    verdicts = [_verdict(result) for result in results]
    return ToolsDescribed(
        toolset_id=toolset.id,
        tools=tuple(
            DescribedTool(
                tool_id=result.found.tool_id,
                verdict=_verdict(result),
                differences=result.differences,
                input_schema=result.ran.input_schema if result.ran else None,
                output_schema=result.ran.output_schema if result.ran else None,
                error=result.error,
                stored=result.found.tool.id.name in stored,
            )
            for result in sorted(results, key=lambda result: result.found.tool_id)
        ),
        same=verdicts.count("same"),
        differing=verdicts.count("differs"),
        failed=verdicts.count("failed"),
        written=written,
        ended_grants=ended_grants,
    )


def _chosen(engine: Engine, target: str) -> tuple[list[Found], list[ToolSchemas]]:
    """Return the tools to describe, and those of an enabled toolset that are disabled themselves.

    Raises:
        CovaltError: if a call of a tool would be refused.
    """
    if ":" in target:
        return [find_described(engine, target)], []
    toolset = engine.catalog.find_toolset(target)
    tools: list[Found] = []
    disabled: list[ToolSchemas] = []
    for tool in engine.catalog.visible(toolset.tools):
        if tool.kind != "python":
            continue
        try:
            tools.append(find_described(engine, tool.tool_id))
        except DisabledToolError as error:
            # No code of a disabled toolset runs; a disabled tool of an enabled one fails alone
            # (test_a_disabled_tool_of_an_enabled_toolset_fails_alone).
            if not toolset.enabled:
                raise
            reason = CallError(code=error.code, message=error.message, hint=error.hint)
            # An example that contradicts a wrongly read schema is an error of the toolset, and describing the tool is
            # the cure.
            named = engine.catalog.find(tool.tool_id, despite=REPAIRED)
            disabled.append(ToolSchemas(named, None, error=reason))
    return tools, disabled


def _verdict(result: ToolSchemas) -> Literal["same", "differs", "failed"]:
    if result.ran is None or result.error is not None:
        return "failed"
    return "differs" if result.differences else "same"
