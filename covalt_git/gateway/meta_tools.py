"""Meta tools of the gateway: search, read and call tools, read large results, and resume calls that needed approval.

They belong to no toolset.  Access is decided for the tool that they find or call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import mcp_types as types

from covalt_git.gateway.tool_listing import with_chat
from covalt_git.json_values import json_schema, object_schema
from covalt_git.json_values.pointer import json_path

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject

Mode = Literal["direct", "search"]

MOST_FOUND = 50
"""Largest number of tools that a search returns."""

_READS = types.ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)


_NAME = {"type": "string", "description": "The tool's name, as search_tools returns it."}

SEARCH = types.Tool(
    name="search_tools",
    title="Search Tools",
    description="Find tools by words of their descriptions, the best match first. Call one with call_tool.",
    input_schema=object_schema(
        {
            "query": {"type": "string", "description": "Words, or a question."},
            "limit": {"type": "integer", "minimum": 1, "maximum": MOST_FOUND, "default": 10},
        },
        ["query"],
    ),
    annotations=_READS,
)
READ = types.Tool(
    name="read_tool",
    title="Read Tool",
    description="Get the description of one tool and the schema of its arguments.",
    input_schema=object_schema({"name": _NAME}),
    annotations=_READS,
)
CALL = types.Tool(
    name="call_tool",
    title="Call Tool",
    description="Call a tool that search_tools found, with arguments that match the schema from read_tool.",
    input_schema=object_schema(
        {
            "name": _NAME,
            "arguments": {"type": "object", "description": "The tool's arguments.", "default": {}},
        },
        ["name"],
    ),
)
RESUME = types.Tool(
    name="resume",
    title="Resume",
    description="Get the result of a call that needed approval, after a user has approved it. "
    "With approved, decide about it, if your role may; ask the user first.",
    input_schema=object_schema(
        {
            "execution_id": {"type": "string", "description": "As returned by the pending call."},
            "approved": {
                "type": "boolean",
                "description": "The decision of the user: true runs the call, false denies it.",
            },
        },
        ["execution_id"],
    ),
    annotations=types.ToolAnnotations(read_only_hint=False, open_world_hint=False),
)

RESULT = types.Tool(
    name="read_result",
    title="Read Result",
    description="Read a page of a result that was too large to be returned at once.",
    input_schema=object_schema(
        {
            "resource": {
                "type": "string",
                "description": "The URI that was returned with the beginning of the result.",
            },
            "page": {"type": "integer", "minimum": 1, "default": 1},
        },
        ["resource"],
    ),
    annotations=_READS,
)

_LISTED: dict[Mode, tuple[types.Tool, ...]] = {
    "direct": (RESULT, RESUME),
    "search": (CALL, RESULT, READ, RESUME, SEARCH),
}
NAMES = frozenset(tool.name for tool in _LISTED["search"])
"""Names that no other tool has, in any mode."""


def own_tools(mode: Mode) -> dict[str, types.Tool]:
    """Return the meta tools of a mode by their names, sorted."""
    return {tool.name: tool for tool in _LISTED[mode]}


def describe(tool: types.Tool, *, needs_chat: bool) -> types.Tool:
    """Return a meta tool as it is listed; see :func:`.tool_listing.describe`."""
    if not needs_chat or tool.name != CALL.name:
        return tool
    return tool.model_copy(update={"input_schema": with_chat(tool.input_schema)})


def check(tool: types.Tool, args: JsonObject) -> Any:
    """Return the arguments of a meta tool with its defaults.

    Raises:
        InvalidArgumentsError: with every problem of the arguments.
    """
    problems = json_schema.value_problems(tool.input_schema, args)
    if problems:
        at_paths = [(json_path(place), message) for place, message in problems]
        raise json_schema.InvalidArgumentsError(tool.name, at_paths)
    declared = tool.input_schema["properties"]
    defaults = {name: schema["default"] for name, schema in declared.items() if "default" in schema}
    return {**defaults, **args}
