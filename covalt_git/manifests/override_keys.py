"""Tool ids of overrides, and namespaces of servers after ``aliases`` of the state file are applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.names import ToolId

if TYPE_CHECKING:
    from covalt_git.models.toolset_state import ToolsetState


def override_key(toolset_id: str, tool_id: str) -> str:
    """Return the full tool id for the ``tool_id`` of an override."""
    return tool_id if ":" in tool_id else str(ToolId(toolset_id, tool_id))


def namespace_of(server_id: str, state: ToolsetState) -> str:
    """Return the namespace of a server or source in this project: its alias, if it has one."""
    return state.aliases.get(server_id, server_id)


def overridden_tool(toolset_id: str, tool_id: str, state: ToolsetState) -> str:
    """Return the tool id in this project, after aliases, for the ``tool_id`` of a toolset's override."""
    namespace, colon, name = tool_id.rpartition(":")
    if not colon or namespace == toolset_id:
        return override_key(toolset_id, tool_id)
    return f"{namespace_of(namespace, state)}:{name}"
