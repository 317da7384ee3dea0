"""The format of lock files, which is only written: ``toolsets/locks/SERVER.yaml`` from the tools of an MCP server.

A lock lists tools before the server is started for the first time.  A user accepts them as after a refresh.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from covalt_git.formats.documents import FormatError
from covalt_git.formats.model import Format, Imported, Part
from covalt_git.formats.tools_list import definition_of
from covalt_git.models.tool_lock import BadDefinitionError, ToolLock, locked_tool

if TYPE_CHECKING:
    from collections.abc import Sequence


def _write(toolsets: Sequence[Part], imported: Imported) -> Any:
    if len(toolsets) != 1:
        message = f"a lock file is for one MCP server, but the input has {len(toolsets)} toolsets"
        raise FormatError(message, hint="convert each toolset on its own")
    manifest = toolsets[0]
    server_id = manifest.take("id")
    tools = {}
    for tool in manifest.parts("tools"):
        # The complete definition: its digest is compared with that of the server's tool.
        upstream = imported.upstream.get(tool.loc)
        if upstream is not None:
            tool.use()
        try:
            tools[tool.peek("id")] = locked_tool(upstream or definition_of(tool))
        except BadDefinitionError as error:
            raise FormatError(error.message) from None
    lock = ToolLock(namespace=server_id, toolset_id=server_id, kind="mcp", tools=tools)
    return lock.model_dump(mode="json", exclude_defaults=True) | {"version": 1}


FORMAT: Final = Format(
    name="tool-lock",
    title="a lock file",
    kind="yaml",
    file_name="lock.yaml",
    write=_write,
)
