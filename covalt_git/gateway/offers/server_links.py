"""Links in results of MCP servers to their resources, which clients read through us."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mcp_types as types

from covalt_git.gateway.resources import resource_uris

if TYPE_CHECKING:
    from covalt_git.models.calls import ToolCall

_LINK_KEYS = frozenset({"uri", "name", "title", "media_type"})
_BESIDES = {"structured_content", "content"}


def server_links(call: ToolCall) -> list[dict[str, str]]:
    """Return the links in the recorded result of a server's tool, in their order.

    A result with one content block is this block; one with several is a list, or has it beside the structured content.
    Only blocks that the record says to be links count: the agent may have chosen the rest of the result.
    """
    result = call.result
    if isinstance(result, dict) and result.keys() == _BESIDES:
        result = result["content"]
    blocks = result if isinstance(result, list) else [result]
    return [blocks[at] for at in call.links if at < len(blocks) and _is_link(blocks[at])]


def link_blocks(call: ToolCall) -> list[types.ContentBlock]:
    """Return the links in a result with URIs that this server can read."""
    if call.post_manifest_id is None:
        return []
    return [
        types.ResourceLink(
            uri=resource_uris.link(call.chat_id, call.post_manifest_id, number),
            name=link.get("name") or link["uri"],
            title=link.get("title"),
            description=f"the resource {link['uri']} of the MCP server",
            mime_type=link.get("media_type"),
        )
        for number, link in enumerate(server_links(call), 1)
    ]


def _is_link(block: Any) -> bool:
    return (
        isinstance(block, dict)
        and "uri" in block
        # A JSON object of a tool may have a uri too; only a link has no other keys.
        and block.keys() <= _LINK_KEYS
        and all(isinstance(value, str) for value in block.values())
    )
