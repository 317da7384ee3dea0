"""Tools as hosts are told of them, page by page (MCP specification, "Tools" and "Pagination")."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from typing import TYPE_CHECKING, TypeVar

import mcp_types as types
from mcp import MCPError

from covalt_git.toolsets.icons import icon_data_url

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from covalt_git.json_values import JsonObject
    from covalt_git.models.tool import Tool


PAGE = 1000
"""How many tools or resources a page has at most: a host that never asks for a second one has these."""

TOOL_ID = "covalt-git/tool_id"
"""Where a tool whose name is not its path says its id, in ``_meta``."""

CHAT_ARGUMENT = "covalt_chat"
"""The argument in which a client without a session can name its chat."""

_SHOWN = ("https://", "data:image/")
"""What hosts show: the specification lets no other address of an icon be one."""

Described = TypeVar("Described")


def described(
    tool: Tool, name: str, *, root: Path, modern: bool, chat_asked: bool = False
) -> types.Tool:
    """Return a tool as a host is told of it; with ``chat_asked``, one that takes a chat as well.

    Its icon is read from its toolset in the project at ``root``.
    Before 2026-07-28 an output schema could only be one of objects.
    """
    output = tool.output_schema
    if output is not None and not modern and output.get("type") != "object":
        output = None
    hints = tool.annotations
    return types.Tool(
        name=name,
        title=tool.name,
        description=tool.description or None,
        input_schema=with_chat(tool.input_schema) if chat_asked else _of_object(tool.input_schema),
        output_schema=output,
        annotations=types.ToolAnnotations(
            title=tool.name,
            read_only_hint=hints.read_only,
            destructive_hint=hints.destructive,
            idempotent_hint=hints.idempotent,
            open_world_hint=hints.open_world,
        ),
        icons=_icons(tool, root),
        _meta=None if name == tool.path else {TOOL_ID: tool.tool_id},
    )


def _icons(tool: Tool, root: Path) -> list[types.Icon] | None:
    """Return the tool's icons: its toolset's own as it is, and those that an MCP server told."""
    if not tool.icons:
        return None
    own = icon_data_url(root, tool)
    if own is not None:
        return [types.Icon(src=own, mime_type=own.removeprefix("data:").partition(";")[0])]
    told = [types.Icon.model_validate(icon) for icon in tool.icons]
    return [icon for icon in told if icon.src.startswith(_SHOWN)] or None


def with_chat(schema: JsonObject) -> JsonObject:
    """Return a schema of arguments among which a chat may be named; not where one is so called."""
    properties = schema.get("properties", {})
    if not has_room_for_chat(schema):
        return _of_object(schema)
    return _of_object({**schema, "properties": {**properties, CHAT_ARGUMENT: _CHAT_SCHEMA}})


def has_room_for_chat(schema: JsonObject) -> bool:
    """Tell whether a chat may be named among the arguments: the tool has none of that name."""
    return CHAT_ARGUMENT not in schema.get("properties", {})


_CHAT_SCHEMA: JsonObject = {
    "type": "string",
    "description": "The chat to work in, from now on. Left out: the chat of the last call.",
}


def page_of(
    listed: Mapping[str, Callable[[], Described]], params: types.PaginatedRequestParams | None
) -> tuple[list[Described], str | None]:
    """Return what is on the page that a client asks for, described, and the cursor of the next one.

    Raises:
        MCPError: for a cursor that is none of ours.
    """
    where, following = page([*listed], None if params is None else params.cursor)
    return [describe() for describe in [*listed.values()][where]], following


def page(keys: Sequence[str], cursor: str | None, size: int = PAGE) -> tuple[slice, str | None]:
    """Return which of the sorted keys are on a page, and the cursor of the next one.

    A cursor holds the last key of its page, so that nothing is told twice or left out where others
    come and go meanwhile.

    Raises:
        MCPError: for a cursor that is none of ours.
    """
    start = 0 if cursor is None else bisect_right(keys, _key(cursor))
    end = start + size
    return slice(start, end), _cursor(keys[end - 1]) if end < len(keys) else None


def _cursor(key: str) -> str:
    return base64.urlsafe_b64encode(key.encode()).decode()


def _key(cursor: str) -> str:
    try:
        return base64.b64decode(cursor, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise MCPError(types.INVALID_PARAMS, "that cursor is none of this server's") from None


def _of_object(schema: JsonObject) -> JsonObject:
    """Return a schema with the type that MCP wants at its root."""
    return schema if schema.get("type") == "object" else {**schema, "type": "object"}


def object_schema(properties: JsonObject, required: Sequence[str] | None = None) -> JsonObject:
    """Return the schema of an object with these properties and no others; without ``required``, all are."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties] if required is None else [*required],
        "additionalProperties": False,
    }
