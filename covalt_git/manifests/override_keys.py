"""Keys of tool overrides: which tool an override of a toolset or of the project names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.names import ToolId

if TYPE_CHECKING:
    from covalt_git.models.toolset_state import ToolsetState


def override_key(toolset_id: str, tool_id: str) -> str:
    """Return the whole id that an override's ``tool_id`` stands for."""
    return tool_id if ":" in tool_id else str(ToolId(toolset_id, tool_id))


def namespace_of(server_id: str, state: ToolsetState) -> str:
    """Return what the namespace of a server or source is called in this project."""
    return state.aliases.get(server_id, server_id)


def overridden_tool(toolset_id: str, tool_id: str, state: ToolsetState) -> str:
    """Return the id that a tool has here which a toolset's own override names: aliases are none of its."""
    namespace, colon, name = tool_id.rpartition(":")
    if not colon or namespace == toolset_id:
        return override_key(toolset_id, tool_id)
    return f"{namespace_of(namespace, state)}:{name}"
