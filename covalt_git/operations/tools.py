"""Operations on tools: list, search and show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from covalt_git.calls.tool_grants import check_runnable, check_signed_in
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.json_values import JsonObject
from covalt_git.manifests.state_files import read_state
from covalt_git.manifests.stored_schemas import SCHEMAS
from covalt_git.models.held_back import HeldBack
from covalt_git.models.project_config import effective_limits
from covalt_git.models.renderers import Renderer
from covalt_git.models.tool import ConfirmationSource, ToolKind
from covalt_git.models.tool_properties import Annotations, Example, HttpRequest, Limits, Security
from covalt_git.models.toolset_state import LocalOverride, ToolsetState
from covalt_git.names import BUILTIN_NAMESPACE
from covalt_git.operations.context import Context
from covalt_git.operations.registry import EmptyRequest, Request, Result, ToolRequest, operation
from covalt_git.toolsets import builtin_tools
from covalt_git.toolsets.icons import icon_data_url
from covalt_git.toolsets.permissions import check_trusted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.models.tool import Tool

GroupKind = Literal["builtin", "toolset", "mcp_server"]


class ListTools(Request):
    """Request: which tools to list."""

    q: str = Field("", max_length=200, description="Words of a tool's id, name or description.")
    toolset_id: str = Field("", max_length=64, description="Only the tools of this toolset.")


class SearchTools(Request):
    """Request: the words to search for."""

    query: str = Field(max_length=2000, description="Words, or a question.")
    toolset_id: str = Field("", max_length=64, description="Only the tools of this toolset.")
    limit: int = Field(20, ge=1, le=1000)


class ToolFacts(Result):
    """The fields that lists and details of tools share."""

    tool_id: str
    path: str = Field(description="Its name for agents and in patterns.")
    name: str
    description: str
    toolset_id: str
    kind: ToolKind
    version: str = Field(description="Its version, or that of its toolset.")
    entrypoint: str | None
    input_schema: JsonObject
    requires_confirmation: tuple[str, ...] = Field(
        description="Why a call needs approval; empty if it needs none."
    )
    enabled: bool
    held_back: HeldBack | None = Field(
        description="Why a tool of an MCP server is disabled although its toolset enables it."
    )
    callable: bool = Field(description="Whether it can be called now.")
    why_not: str = Field(description="Why it cannot be called now; empty if it can.")


class ToolRow(ToolFacts):
    """A tool in a list; ``renderer`` is the type of the renderer of its result."""

    renderer: str | None
    icon: str | None = Field(description="Its icon as a data: URL.")
    broken: bool = Field(
        description="Whether its toolset has errors, so that this is the last valid version."
    )


class ToolRows(Result):
    """Tools, the best matches first."""

    tools: tuple[ToolRow, ...]


class ToolDetail(ToolFacts):
    """The effective definition of a tool; ``limits`` are the effective limits of a call."""

    toolset_name: str
    toolset_digest: str = Field(
        description="Digest of its toolset's files; for a server's tool, of the server and the definition."
    )
    renderer: Renderer | None
    recorded: bool = Field(
        description="Whether its calls are recorded; those of some built-in tools are not."
    )
    schema_from: Literal["manifest", "stored", "source", "server", "builtin"] = Field(
        description=f"The source of its input schema: {SCHEMAS} if it is stored; one that is read from Python may "
        "be incomplete."
    )
    arguments_are_unread: bool = Field(
        description="Whether nothing is known about its arguments, because its signature could not be read."
    )
    output_schema: JsonObject | None
    annotations: Annotations
    examples: tuple[Example, ...]
    free_examples: tuple[JsonObject, ...] = Field(
        description="Examples in another form than calls, unchanged."
    )
    extensions: JsonObject = Field(description="Data of other systems, unchanged.")
    tags: tuple[str, ...]
    limits: Limits
    security: Security | None
    confirmation: tuple[ConfirmationSource, ...] = Field(
        description="What requires approval, without the rules of covalt.yaml."
    )
    confirmation_is_settled: bool = Field(
        description="Whether an override of this project decides that."
    )
    local: LocalOverride = Field(description="The overrides of this project.")
    meta: JsonObject = Field(description="The _meta of a server's definition.")
    icons: tuple[JsonObject, ...]
    http: HttpRequest | None
    server: str | None = Field(description="The id of the MCP server that provides it.")
    upstream: str | None = Field(description="Its name on that server.")
    alias_of: str | None = Field(
        description="The tool to which a registered tool forwards calls; null if it is hidden."
    )


class ToolGroup(Result):
    """The tools of one owner."""

    kind: GroupKind
    id: str
    name: str
    enabled: bool
    sound: bool = Field(
        description="Whether it has no errors; otherwise its tools are the last valid ones."
    )
    note: str = Field(description="Why its tools cannot be called; empty if they can.")
    tools: tuple[ToolRow, ...]


class ToolGroups(Result):
    """The tools, by owner."""

    groups: tuple[ToolGroup, ...]


class AvailableTool(Result):
    """A tool as an agent sees it; ``name`` is its path, such as app-builder.write_file."""

    name: str
    description: str
    input_schema: JsonObject
    annotations: Annotations


class AvailableTools(Result):
    """The tools that may be called now."""

    tools: tuple[AvailableTool, ...]


@operation(errors=(404,))
def list_tools(context: Context, request: ListTools) -> ToolGroups:
    """List the tools that the role may see, by toolset and MCP server.

    With ``q``, only tools whose id, name or description contains all of its words.  A toolset that does not exist is
    the error ``unknown_toolset``.
    """
    tools = context.catalog.visible(context.toolset_index().tools(request.toolset_id or None))
    if request.toolset_id and not tools:
        context.catalog.find_toolset(request.toolset_id)  # it may not exist
    matches = matching(tools, request.q)
    return ToolGroups(
        groups=grouped(context, matches, with_empty=not request.q and not request.toolset_id)
    )


@operation()
def search_tools(context: Context, request: SearchTools) -> ToolRows:
    """Find tools by words of their names, descriptions, parameters and tags, the best matches first.

    Tools with all of the words come before tools with some of them.  Prefixes and misspelt words match too.
    """
    rows = _owners(context)
    tools = context.catalog.search(
        context.toolset_index(), request.query, limit=request.limit, toolset_id=request.toolset_id
    )
    return ToolRows(tools=tuple(tool_row(context, tool, rows[tool.toolset_id]) for tool in tools))


def matching(tools: Iterable[Tool], words: str) -> list[Tool]:
    """Return the tools whose id, name or description contains all of some words."""
    terms = words.casefold().split()
    return [tool for tool in tools if _has(tool, terms)] if terms else list(tools)


def grouped(context: Context, tools: Iterable[Tool], *, with_empty: bool) -> tuple[ToolGroup, ...]:
    """Return tools by their toolset or MCP server, in their order; built-in tools have a group of their own.

    Toolsets are in the order of the first tools.  With ``with_empty``, groups without any of the tools are
    listed too.
    """
    of_toolset: dict[str, list[Tool]] = {}
    for tool in tools:
        of_toolset.setdefault(tool.toolset_id, []).append(tool)
    groups = [
        ToolGroup(
            kind="builtin" if row["id"] == BUILTIN_NAMESPACE else "toolset",
            id=row["id"],
            name=row["name"] or row["id"],
            enabled=row["enabled"],
            sound=row["sound"],
            note=_note(row),
            tools=tuple(tool_row(context, tool, row) for tool in of_toolset.get(row["id"], ())),
        )
        for row in _owners(context).values()
        if row["id"] in of_toolset or (with_empty and row["id"] != BUILTIN_NAMESPACE)
    ]
    if not with_empty:
        groups.sort(key=lambda group: list(of_toolset).index(group.id))
    return (*groups, *(_servers(context) if with_empty else ()))


@operation(errors=(404, 409))
def get_tool(context: Context, request: ToolRequest) -> ToolDetail:
    """Return one tool: its schemas, renderer, limits and overrides."""
    try:
        entry = context.catalog.find(request.tool_id)
    except UnknownNameError:
        from covalt_git.operations.namespace_problems import (  # noqa: PLC0415 - it loads the checks
            NamespaceClashError,
            claimants,
        )

        toolset_ids = claimants(context, request.tool_id.partition(":")[0])
        if not toolset_ids:
            raise
        raise NamespaceClashError(request.tool_id, toolset_ids) from None
    tool, toolset = context.catalog.with_target(entry.tool), entry.toolset
    schema_from: Literal["manifest", "stored", "source", "server", "builtin"] = "source"
    if tool.kind == "builtin":
        schema_from = "builtin"
    elif tool.kind == "mcp":
        schema_from = "server"
    elif "input_schema" in toolset.stored_keys(tool):
        schema_from = "stored"
    elif tool.schema_is_declared or tool.kind == "http":
        schema_from = "manifest"
    why_not = reason_not_callable(context, tool, toolset.state, enabled=toolset.enabled)
    return ToolDetail.of(
        tool,
        **_facts(context, tool, why_not),
        toolset_name=toolset.manifest.name if toolset.manifest else toolset.id,
        alias_of=context.catalog.target(entry.tool),
        recorded=builtin_tools.is_recorded(tool.tool_id),
        schema_from=schema_from,
        arguments_are_unread=tool.arguments_are_unread,
        limits=effective_limits(tool.limits, context.project.config.limits),
        local=toolset.state.overrides.get(tool.name_in_state, LocalOverride()),
    )


@operation()
def get_available_tools(context: Context, _: EmptyRequest) -> AvailableTools:
    """List the tools that the role may call now, in the form that an agent's host needs."""
    rows = _owners(context)
    tools = [
        tool
        for tool in context.catalog.visible(context.toolset_index().tools())
        if tool_row(context, tool, rows[tool.toolset_id]).callable
    ]
    described = map(context.catalog.with_target, tools)
    return AvailableTools(tools=tuple(AvailableTool.of(tool, name=tool.path) for tool in described))


def visible_toolsets(context: Context) -> list[JsonObject]:
    """Return the index's rows of the toolsets that the role may see."""
    tool_ids = context.toolset_index().toolset_tools()
    catalog = context.catalog
    return [
        row
        for row in context.toolset_index().toolsets()
        if catalog.sees_one_of(row["id"], tool_ids.get(row["id"], []))
    ]


def _owners(context: Context) -> dict[str, JsonObject]:
    """Return the rows of the visible toolsets by id; the last row is for the built-in tools."""
    rows = {row["id"]: row for row in visible_toolsets(context)}
    facts = {"sound": True, "enabled": True, "source_type": None}
    builtin = {"id": BUILTIN_NAMESPACE, "name": builtin_tools.NAME, **facts}
    return {**rows, BUILTIN_NAMESPACE: builtin}


def tool_row(context: Context, tool: Tool, row: JsonObject) -> ToolRow:
    """Return a tool for a list; ``row`` is its toolset's row in the index."""
    why_not = "its toolset has errors"
    if row["sound"]:
        why_not = reason_not_callable(
            context, tool, _state(context, tool, row), enabled=row["enabled"]
        )
    return ToolRow.of(
        tool,
        **_facts(context, tool, why_not),
        renderer=tool.renderer.type if tool.renderer else None,
        icon=icon_data_url(context.project.root, tool),
        broken=not row["sound"],
    )


def _state(context: Context, tool: Tool, row: JsonObject) -> ToolsetState:
    """Return the state of a tool's toolset, from its file, because the index has no grants."""
    if tool.kind in {"python", "builtin"}:
        return ToolsetState(source_type=row["source_type"])
    file = context.project.root / "toolsets" / "state" / f"{tool.toolset_id}.yaml"
    return read_state(file, file.name).value or ToolsetState()


def reason_not_callable(context: Context, tool: Tool, state: ToolsetState, *, enabled: bool) -> str:
    """Return why a tool of a toolset without errors cannot be called now; empty if it can."""
    if not enabled:
        return "its toolset is disabled"
    decision = context.catalog.may_call(tool)
    if not decision.allowed:
        return decision.reason
    try:
        check_runnable(tool, state)
        # Only these can lack trust. Lists ask about each tool, so a toolset is not read without need.
        if tool.kind != "builtin" and (state.grants or state.accepted or state.overrides):
            from covalt_git.toolsets.toolset import read_toolset  # noqa: PLC0415 - few tools need it

            toolset = read_toolset(context.project.root, tool.toolset_id)
            check_trusted(toolset, tool, context.project.config)
            check_signed_in(toolset, tool)
        # An alias gives no access to its target (test_an_alias_gives_no_access_to_its_tool).
        if tool.alias_of is not None:
            target = context.catalog.find_callable(tool.tool_id)
            check_runnable(target.tool, target.toolset.state)
    except CovaltError as error:
        return error.message
    return ""


def _facts(context: Context, tool: Tool, why_not: str) -> JsonObject:
    """Return the shared fields that depend on the project."""
    called = context.catalog.called(tool)
    reasons = context.catalog.decide_call(called, {}).asks
    return {"requires_confirmation": reasons, "callable": not why_not, "why_not": why_not}


def _note(row: JsonObject) -> str:
    if not row["sound"]:
        return "it has errors, so none of its tools can be called"
    return "" if row["enabled"] else "it is disabled"


def _has(tool: Tool, words: list[str]) -> bool:
    text = f"{tool.tool_id} {tool.name} {tool.description}".casefold()
    return all(word in text for word in words)


def _servers(context: Context) -> list[ToolGroup]:
    """Return the MCP servers whose tools were never listed."""
    tools = context.toolset_index().tools()
    listed_servers = {(tool.toolset_id, tool.server) for tool in tools if tool.server is not None}
    return [
        ToolGroup(
            kind="mcp_server",
            id=row["id"],
            name=row["id"],
            enabled=row["enabled"],
            sound=True,
            note=f"declared by {row['toolset_id']}; its tools have not been listed yet",
            tools=(),
        )
        for row in context.toolset_index().mcp_servers()
        if (row["toolset_id"], row["id"]) not in listed_servers
        and context.visibility.sees_one_of(row["id"], ())
    ]
