"""The tools of a project's files, read when they are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.names import BadNameError, ToolId, matches
from covalt_git.toolsets.builtin_tools import BUILTINS
from covalt_git.toolsets.toolset import read_toolset

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from covalt_git.models.tool import Tool
    from covalt_git.toolsets.toolset import Toolset


class ProjectTools:
    """The tools of the project in ``root``, also disabled ones; each toolset is read once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._ids = toolset_ids(root / "toolsets")
        self._toolsets: dict[str, Toolset] = {}

    def toolset(self, toolset_id: str) -> Toolset:
        if toolset_id not in self._toolsets:
            self._toolsets[toolset_id] = read_toolset(self._root, toolset_id)
        return self._toolsets[toolset_id]

    @property
    def toolsets(self) -> Iterator[Toolset]:
        """The toolsets of the project."""
        return map(self.toolset, self._ids)

    def find(self, tool_id: str) -> Tool | None:
        """Return a tool; None if no toolset has it."""
        if tool_id in BUILTINS:
            return BUILTINS[tool_id]
        try:
            namespace = ToolId.parse(tool_id).namespace
        except BadNameError:
            return None
        # Most toolsets have the namespace of their id; that of a server can be another one.
        for toolset_id in sorted(self._ids, key=lambda name: name != namespace):
            tool = self.toolset(toolset_id).tool(tool_id)
            if tool is not None:
                return tool
        return None

    def unread(self, tool_id: str) -> str | None:
        """Return the toolset of a tool if its errors prevent that its tools are read; else None."""
        toolset_id = tool_id.partition(":")[0]
        if toolset_id not in self._ids or self.toolset(toolset_id).manifest is not None:
            return None
        return toolset_id

    def called(self, tool: Tool) -> tuple[Tool, ...]:
        """Return a tool and, for an alias, the tool that it calls."""
        target = None if tool.alias_of is None else self.find(tool.alias_of)
        return (tool,) if target is None else (tool, target)

    def matching(self, pattern: str) -> Iterator[Tool]:
        """Yield the tools that a pattern of a rule matches; the built-in ones first, which are not read."""
        yield from (tool for tool in BUILTINS.values() if matches(pattern, tool.path))
        for toolset in self.toolsets:
            yield from (tool for tool in toolset.tools if matches(pattern, tool.path))
