"""Tools that the page of a renderer may call: ``calls`` in the configuration of the renderer ``html``.

An entry is a tool of the page's own toolset, by its name or its full id, or a pattern of such names::

    calls: [summarize, "read_*", "gear:status"]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.manifests.override_keys import override_key
from covalt_git.names import matches

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.models.tool import Tool


def path_pattern(toolset_id: str, entry: str) -> str:
    """Return the pattern of tool paths for an entry of ``calls``."""
    return override_key(toolset_id, entry).replace(":", ".", 1)


def page_call_patterns(tool: Tool) -> tuple[str, ...]:
    """Return the patterns of the tools that the page of a tool's results may call, in their order."""
    if tool.renderer is None or tool.renderer.type != "html":
        return ()
    entries = tool.renderer.config.get("calls") or ()
    return tuple(dict.fromkeys(path_pattern(tool.toolset_id, entry) for entry in entries))


def tools_of_page(tool: Tool, tools: Iterable[Tool]) -> list[Tool]:
    """Return those of ``tools`` that the page of a tool's results may call: of its own toolset only."""
    patterns = page_call_patterns(tool)
    if not patterns:
        return []
    own = (other for other in tools if other.toolset_id == tool.toolset_id)
    return [other for other in own if any(_selects(pattern, other) for pattern in patterns)]


def _selects(pattern: str, tool: Tool) -> bool:
    # A manifest names the server or the source, whose namespace may have another name in this project.
    origin = tool.server or tool.source
    paths = {tool.path} if origin is None else {tool.path, f"{origin}.{tool.id.name}"}
    return any(matches(pattern, path) for path in paths)
