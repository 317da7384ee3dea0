"""Asking an MCP server what tools it has, without a chat: for its lock."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from covalt_git.calls import mcp_calls
from covalt_git.models.tool_lock import locked_tool

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from covalt_git.credentials.command import SecretCommand
    from covalt_git.models.tool_lock import LockedTool
    from covalt_git.models.toolset_manifest import McpServer
    from covalt_git.toolsets.toolset import Toolset


def listed(
    toolset: Toolset,
    server: McpServer,
    *,
    root: Path,
    command: SecretCommand | None = None,
    tell: Callable[[str], None] = lambda _: None,
    cancel: threading.Event | None = None,
) -> tuple[LockedTool, ...]:
    """Return the tools of a granted server as it gives them now; ``tell`` hears what it says meanwhile.

    It is offered an empty folder as its workspace, and told to end afterwards.

    Raises:
        GrantNeededError: when it was not granted as it is declared now.
        BadDefinitionError: when what it gives is no tool.
        CovaltError: when it cannot be started, reached or understood.
    """
    from covalt_git.connections.pool import CONNECTIONS  # noqa: PLC0415 - it loads the SDK
    from covalt_git.connections.thread_bridge import Hears  # noqa: PLC0415

    # It may still live, and write, when its folder goes.
    with tempfile.TemporaryDirectory(prefix="covalt-git-", ignore_cleanup_errors=True) as folder:
        defined = mcp_calls.definition(
            toolset,
            server,
            root=root,
            workspace=Path(folder).resolve(),
            chat_id=None,
            command=command,
        )
        try:
            said = CONNECTIONS.tools(defined, hears=Hears(starting=tell), cancel=cancel)
        finally:
            CONNECTIONS.end(defined.name)
    return tuple(locked_tool(one) for one in said)
