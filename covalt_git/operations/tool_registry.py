"""Operations on the registry of tools: list, show, register, replace and remove registered tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from covalt_git.access import NamedTool, acting, may_register, registering_roles
from covalt_git.catalog import toolset_cache
from covalt_git.errors import Problem
from covalt_git.json_values import JsonObject
from covalt_git.manifests.tool_entries import TOOL_ID_PATTERN, tool_name
from covalt_git.models.held_back import WHY_HELD_BACK
from covalt_git.names import REGISTRY_NAMESPACE, ToolId
from covalt_git.operations.context import Context, ForbiddenError
from covalt_git.operations.registry import Request, Result, invalid, operation
from covalt_git.operations.tools import reason_not_callable
from covalt_git.toolsets import tool_registry

if TYPE_CHECKING:
    from covalt_git.manifests.tool_entries import ToolEntry
    from covalt_git.models.tool import Tool
    from covalt_git.toolsets.toolset import Toolset


class ListRegisteredTools(Request):
    """Request: the registered tools to list."""

    protocol: str = Field(
        "", max_length=100, description="Only tools that accept calls over this protocol."
    )


_TOOL_ID: JsonObject = {"type": "string", "pattern": TOOL_ID_PATTERN}
_NAME: JsonObject = {"type": "string", "minLength": 1, "maxLength": 200}


class GetRegisteredTool(Request):
    """Request: the registered tool to return."""

    tool_id: str = Field(
        max_length=200, description="The id in the entry, such as com.example/weather."
    )


class RegisterTool(Request):
    """Request: the entry of a new tool."""

    entry: JsonObject = Field(
        description="A ToolEntry: tool_id, name, description, version, protocols, protocol_meta, ...",
        json_schema_extra={
            "required": ["tool_id", "name"],
            "properties": {"tool_id": _TOOL_ID, "name": _NAME},
        },
    )


class ReplaceRegisteredTool(GetRegisteredTool):
    """Request: a registered tool, and its new entry."""

    tool_id: str = Field(
        max_length=200,
        description="The id in the entry, such as com.example/weather.",
        json_schema_extra={"pattern": TOOL_ID_PATTERN},
    )

    entry: JsonObject = Field(
        description="The complete new entry.",
        json_schema_extra={"required": ["name"], "properties": {"name": _NAME}},
    )


class RemoveRegisteredTool(GetRegisteredTool):
    """Request: the registered tool to remove."""


class RegisteredTool(Result):
    """A registered tool: its entry, and whether it can be called."""

    tool_id: str
    tool: str = Field(description="The id of the tool in the catalog: registered:<name>.")
    name: str
    description: str
    protocols: tuple[str, ...]
    calls: str = Field(
        description="The request or the tool that a call runs; empty if it cannot be called."
    )
    entry: JsonObject = Field(
        description="The complete entry, with unknown keys, but without a tool that is hidden."
    )
    granted: bool = Field(description="Whether its current entry is granted.")
    callable: bool = Field(description="Whether it can be called now.")
    why_not: str = Field(description="Why it cannot be called now; empty if it can.")


class RegisteredTools(Result):
    """The registered tools, by id."""

    tools: tuple[RegisteredTool, ...]
    digest: str = Field(description="Digest of all entries, for add_grant.")
    problems: tuple[Problem, ...] = Field(
        description="The errors of entries, which are not in the list; for admins."
    )


class ToolRemoved(Result):
    """The id of a tool that was removed."""

    tool_id: str


@operation()
def list_registered_tools(context: Context, request: ListRegisteredTools) -> RegisteredTools:
    """List the registered tools that the role may see."""
    toolset = _toolset(context)
    tools = {tool.tool_id: tool for tool in toolset.tools}
    return RegisteredTools(
        digest=toolset.digest,
        # The tools of these entries are unknown, so only an admin is sure to may see them.
        problems=tuple(
            problem
            for problem in toolset.problems
            if context.is_admin and problem.severity == "error"
        ),
        tools=tuple(
            _row(context, entry, toolset, tools.get(full_id(entry.tool_id)))
            for entry in _visible_entries(context).values()
            if not request.protocol or _accepts(entry, request.protocol)
        ),
    )


@operation(errors=(404,))
def get_registered_tool(context: Context, request: GetRegisteredTool) -> RegisteredTool:
    """Return one registered tool."""
    return _find(context, request.tool_id)


@operation(changes=True, errors=(409,))
def register_tool(context: Context, request: RegisterTool) -> RegisteredTool:
    """Register a tool; it is listed, and disabled until it is granted.

    Its entry is a file in ``toolsets/state/registered``.  Without ``protocols`` it accepts calls over MCP.
    The role needs ``register: true``, and may only register a tool that it may call.
    """
    entry = tool_registry.check_new_entry(request.entry)
    _check_may_change(context, entry.tool_id)
    return _written(context, tool_registry.add_entry(context.project.root, entry))


@operation(changes=True, errors=(404,))
def replace_registered_tool(context: Context, request: ReplaceRegisteredTool) -> RegisteredTool:
    """Replace the entry of a registered tool; if the new entry differs, the tool's grant ends."""
    entry = tool_registry.check_new_entry({"tool_id": request.tool_id} | request.entry)
    if entry.tool_id != request.tool_id:
        message = f"must be {request.tool_id!r} (got {entry.tool_id!r})"
        raise invalid(Problem("entry.tool_id", 0, 0, "invalid_request", message))
    _check_may_change(context, request.tool_id)
    _check_sees_target(context, request.tool_id)
    return _written(context, tool_registry.replace_entry(context.project.root, entry))


@operation(changes=True, errors=(404, 409))
def remove_registered_tool(context: Context, request: RemoveRegisteredTool) -> ToolRemoved:
    """Remove a registered tool, with its grant.

    If this project requires approval of its calls, a user has to end that first.
    """
    _check_may_change(context, request.tool_id)
    tool_registry.remove_entry(context.project.root, request.tool_id)
    context.update_toolset_index()
    return ToolRemoved(tool_id=request.tool_id)


def _check_may_change(context: Context, tool_id: str) -> None:
    """Check the caller's role before the tool is looked up, so that an error does not reveal whether it exists.

    Raises:
        ForbiddenError: if the role may not register tools, or not this one.
    """
    config, principal = context.project.config, context.project.principal
    who = acting(config, principal)
    if not may_register(config, principal):
        raise ForbiddenError(f"{who} may not register tools", hint=registering_roles(config))
    tool = NamedTool(full_id(tool_id))
    if not context.visibility.decide("see", tool).allowed:
        raise ForbiddenError(
            f"{who} may not register {tool_id!r}, because it may not call {tool.path}",
            hint="add a pattern to allow of the role in covalt.yaml",
        )


def _check_sees_target(context: Context, tool_id: str) -> None:
    """Check that the role sees the complete entry: a new entry made from its visible part would lose the target.

    Raises:
        ForbiddenError: if the entry forwards its calls to a tool that is hidden from the role.
    """
    entry = _visible_entries(context).get(tool_id)
    target = entry.alias_of if entry is not None else None
    if target is not None and not context.visibility.sees(target):
        who = acting(context.project.config, context.project.principal)
        raise ForbiddenError(
            f"{who} may not replace {tool_id!r}, because it may not see the tool to which its calls are forwarded",
            hint="an admin can replace it",
        )


def full_id(tool_id: str) -> str:
    """Return the id by which a registered tool is called, also of one that is not registered."""
    return str(ToolId(REGISTRY_NAMESPACE, tool_name(tool_id)))


def _visible_entries(context: Context) -> dict[str, ToolEntry]:
    sees = context.visibility.sees
    entries = tool_registry.registered_entries(context.project.root)
    return {name: entry for name, entry in entries.items() if sees(full_id(name))}


def _find(context: Context, tool_id: str) -> RegisteredTool:
    entries = _visible_entries(context)
    if tool_id not in entries:
        raise tool_registry.ToolNotFoundError(tool_id, entries)
    toolset = _toolset(context)
    return _row(context, entries[tool_id], toolset, toolset.tool(full_id(tool_id)))


def _written(context: Context, entry: ToolEntry) -> RegisteredTool:
    """Return the result of a write, also if another request has removed the entry since."""
    context.update_toolset_index()
    toolset = _toolset(context)
    return _row(context, entry, toolset, toolset.tool(full_id(entry.tool_id)))


def _toolset(context: Context) -> Toolset:
    return toolset_cache.toolset(context.project.root, REGISTRY_NAMESPACE)


def _accepts(entry: ToolEntry, protocol: str) -> bool:
    """Return whether a tool accepts a protocol, which may be named without its version."""
    return any(
        protocol in {accepted_protocol, accepted_protocol.partition("/")[0]}
        for accepted_protocol in entry.protocols
    )


def _row(context: Context, entry: ToolEntry, toolset: Toolset, tool: Tool | None) -> RegisteredTool:
    why_not = "its entry has errors"
    if tool is not None and toolset.sound:
        held_back = tool.held_back and WHY_HELD_BACK[tool.held_back]
        why_not = held_back or reason_not_callable(
            context, tool, toolset.state, enabled=toolset.enabled
        )
    request, stored = entry.request, entry.stored()
    target = entry.alias_of
    if target is not None and not context.visibility.sees(target):
        # A hidden target does not exist for the role (tests/security/test_hidden_targets.py).
        target = None
        del stored["protocol_meta"]["mcp"]["tool"]
    return RegisteredTool.of(
        entry,
        tool=full_id(entry.tool_id),
        calls=f"{request.method} {request.url}" if request else target or "",
        entry=stored,
        granted=tool is not None and tool.held_back is None,
        callable=not why_not,
        why_not=why_not,
    )
