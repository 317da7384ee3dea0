"""Tools with arguments that clients repeat in headers (MCP specification, "Transports", ``x-mcp-header``).

Since 2026-07-28 the SDK refuses a call whose headers say something else than its body; it asks for the
schema by the tool's name alone, before it is known who calls and by which names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp.shared.inbound import x_mcp_header_map

from covalt_git.gateway import meta_tools, tool_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.json_values import JsonObject
    from covalt_git.models.tool import Tool


def schemas(tools: Iterable[Tool]) -> dict[str, JsonObject]:
    """Return the schemas of such tools by every name that a client may call them by.

    A name that stands for another tool in another style is that of none: nothing is refused for it.
    """
    known = {tool.tool_id: tool for tool in tools}
    mirroring = {one for one, tool in known.items() if x_mcp_header_map(tool.input_schema)}
    if not mirroring:
        return {}
    meant: dict[str, set[str]] = {}
    for style in tool_names.STYLES:
        named = tool_names.names(sorted(known), style, taken=meta_tools.NAMES)
        for name, tool_id in named.items():
            meant.setdefault(name, set()).add(tool_id)
    return {
        name: known[tool_id].input_schema
        for name, (tool_id, *others) in meant.items()
        if not others and tool_id in mirroring
    }
