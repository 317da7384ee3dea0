"""Tools in the form of MCP lists, and their pages (MCP specification, "Tools" and "Pagination")."""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from typing import TYPE_CHECKING, TypeVar

import mcp_types as types
from mcp import MCPError

from covalt_git.gateway import icons
from covalt_git.gateway.large_results import output_schema
from covalt_git.toolsets.icons import icon_data_url

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from covalt_git.json_values import JsonObject
    from covalt_git.models.tool import Tool


PAGE = 1000
"""Most tools or resources on a page: many hosts never request a second page."""

TOOL_ID = "covalt-git/tool_id"
"""Key in ``_meta`` with the id of a tool whose name is not its path."""

VERSION = "covalt-git/version"
"""Key in ``_meta`` with the version of a tool."""

CHAT_ARGUMENT = "covalt_chat"
"""Argument in which a client without a session names its chat."""

Described = TypeVar("Described")


def describe(tool: Tool, name: str, *, root: Path, needs_chat: bool = False) -> types.Tool:
    """Return a tool as it is listed; with ``needs_chat``, with the argument for the chat.

    Its icon is read from its toolset in the project at ``root``.
    """
    output = tool.output_schema
    hints = tool.annotations
    meta = {TOOL_ID: tool.tool_id if name != tool.path else "", VERSION: tool.version}
    return types.Tool(
        name=name,
        title=tool.name,
        description=tool.description or None,
        input_schema=with_chat(tool.input_schema) if needs_chat else _of_object(tool.input_schema),
        output_schema=None if output is None else output_schema(output),
        annotations=types.ToolAnnotations(
            title=tool.name,
            read_only_hint=hints.read_only,
            destructive_hint=hints.destructive,
            idempotent_hint=hints.idempotent,
            open_world_hint=hints.open_world,
        ),
        icons=_icons(tool, root),
        _meta={key: value for key, value in meta.items() if value} or None,
    )


def _icons(tool: Tool, root: Path) -> list[types.Icon] | None:
    """Return the tool's icons: its toolset's own icon, or those that an MCP server listed."""
    if not tool.icons:
        return None
    own = icon_data_url(root, tool)
    if own is not None:
        return [types.Icon(src=own, mime_type=own.removeprefix("data:").partition(";")[0])]
    return icons.permitted(tool.icons)


def with_chat(schema: JsonObject) -> JsonObject:
    """Return a schema with the argument for the chat; unchanged if the tool has an argument of that name."""
    properties = schema.get("properties", {})
    if not can_name_chat(schema):
        return _of_object(schema)
    return _of_object({**schema, "properties": {**properties, CHAT_ARGUMENT: _CHAT_SCHEMA}})


def can_name_chat(schema: JsonObject) -> bool:
    """Return whether the name of the argument for the chat is available: the tool has no such argument."""
    return CHAT_ARGUMENT not in schema.get("properties", {})


_CHAT_SCHEMA: JsonObject = {
    "type": "string",
    "description": "Id of this conversation's chat, which the result of its first call has; name it in each later call. "
    'Default in the first call: a new chat, as with "new".',
}


def page_of(
    listed: Mapping[str, Callable[[], Described]],
    params: types.PaginatedRequestParams | None,
    most: int | None = None,
) -> tuple[list[Described], str | None]:
    """Return the entries of the requested page, sorted by their keys, and the cursor of the next page; by default at most ``PAGE``.

    A cursor contains the last key of its page, so that entries are neither repeated nor skipped if others
    are added or removed meanwhile.

    Raises:
        MCPError: if the cursor is not one of this server.
    """
    keys, cursor = [*listed], None if params is None else params.cursor
    start = 0 if cursor is None else bisect_right(keys, _key(cursor))
    end = start + (most or PAGE)
    last = base64.urlsafe_b64encode(keys[end - 1].encode()).decode() if end < len(keys) else None
    return [listed[key]() for key in keys[start:end]], last


def _key(cursor: str) -> str:
    try:
        return base64.b64decode(cursor, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        message = "the cursor is not one of this server; list again from the start"
        raise MCPError(types.INVALID_PARAMS, message) from None


def _of_object(schema: JsonObject) -> JsonObject:
    """Return a schema with the type that MCP requires at its root."""
    return schema if schema.get("type") == "object" else {**schema, "type": "object"}
