"""Subject of access decisions: a tool, or only its id."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from covalt_git.names import ToolId

if TYPE_CHECKING:
    from covalt_git.models.held_back import HeldBack
    from covalt_git.models.tool import Tool
    from covalt_git.models.tool_properties import Security

Subject: TypeAlias = "Tool | NamedTool"


class NamedTool(NamedTuple):
    """A tool of which only the id is known; it may have been deleted."""

    tool_id: str
    enabled: bool = True
    held_back: HeldBack | None = None
    security: Security | None = None

    @property
    def path(self) -> str:
        """The id in the form of role patterns.

        Raises:
            BadNameError: if the id is not a valid tool id.
        """
        return ToolId.parse(self.tool_id).path
