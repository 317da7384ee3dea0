"""The MCP server on standard input and output, for a host that starts it for itself."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from mcp.server.stdio import stdio_server

from covalt_git.gateway.mcp_server import Faces
from covalt_git.runtime import python_tool
from covalt_git.text.log_format import escape_logs

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from covalt_git.gateway.service import Gateway

_ONLY = "stdio"
GRACE_S = 2.0
"""How long calls have to end when the process is told to, in seconds."""


def serve(gateway: Gateway) -> None:
    """Answer the one client until it closes our input, or SIGTERM or SIGINT comes.

    While it is served, whatever else is printed goes to the error stream.
    """
    escape_logs()
    anyio.run(_serve, gateway)


async def _serve(gateway: Gateway) -> None:
    faces = Faces(gateway, only_client=_ONLY)
    server = faces.server()
    async with anyio.create_task_group() as group:
        await group.start(_end, faces)
        async with stdio_server() as (read, write):
            # Only now, as what is started from here on has neither our input nor our output.
            python_tool.prepare(Path(sys.executable))
            await server.run(read, write, server.create_initialization_options())
        group.cancel_scope.cancel()


async def _end(faces: Faces, task_status: TaskStatus[None]) -> None:
    """End the calls that run when a signal comes, and then the process.

    Nothing else would wake the thread that reads our input.
    """
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for number in signals:
            await faces.end(GRACE_S)
            os._exit(128 + number)
