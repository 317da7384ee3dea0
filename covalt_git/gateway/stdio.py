"""MCP server on standard input and output, for a host that starts it as a child process."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import stat
import sys
from typing import TYPE_CHECKING

import anyio
from anyio.to_thread import run_sync
from mcp.server.stdio import stdio_server

from covalt_git.calls.running import RUNNING
from covalt_git.gateway.mcp_server import RequestHandlers
from covalt_git.runtime import sandbox_levels
from covalt_git.text.log_format import escape_logs

if TYPE_CHECKING:
    from anyio.abc import TaskStatus

    from covalt_git.gateway.service import Gateway

_ONLY = "stdio"
GRACE_S = 2.0
"""Time in which the client gets the results of cancelled calls after SIGTERM or SIGINT, in seconds."""
RECORD_S = 30.0
"""Time in which cancelled calls are recorded after that, in seconds."""


def serve(gateway: Gateway) -> None:
    """Serve the client until it closes stdin or stdout, or SIGTERM or SIGINT arrives.

    Meanwhile everything else that is printed goes to stderr.
    """
    escape_logs()
    with RUNNING.served():
        anyio.run(_serve, gateway)


async def _serve(gateway: Gateway) -> None:
    handlers = RequestHandlers(gateway, only_client=_ONLY)
    _end_with_stdout(handlers)
    server = handlers.server()
    async with anyio.create_task_group() as group:
        # Before the first request, so that no signal meanwhile ends the process without its calls.
        await group.start(_end_on_signal, handlers)
        async with stdio_server() as (read, write):
            # Only now, so that the processes that it starts do not inherit stdin and stdout of the protocol.
            sandbox_levels.begin()
            await server.run(read, write, server.create_initialization_options())
        group.cancel_scope.cancel()


def _end_with_stdout(handlers: RequestHandlers) -> None:
    """End the running calls and then the process when the host closes its end of stdout.

    The SDK would fail at its next message, and wait for the thread that reads stdin.
    """
    out, loop = os.dup(sys.stdout.fileno()), asyncio.get_running_loop()
    kind = os.fstat(out).st_mode
    # The loop cannot watch a file, and the other end of a terminal is not closed.
    if not stat.S_ISFIFO(kind) and not stat.S_ISSOCK(kind):
        os.close(out)
        return

    async def end() -> None:
        await _exit(handlers, 0)

    def check() -> None:
        # A closed pipe stays readable, so the loop would call this again and again.
        loop.remove_reader(out)
        poll = select.poll()
        poll.register(out, 0)  # errors and the end are always reported
        if poll.poll(0):
            ending.append(loop.create_task(end()))

    # The loop has only weak references to tasks.
    ending: list[asyncio.Task[None]] = []
    loop.add_reader(out, check)


async def _end_on_signal(handlers: RequestHandlers, task_status: TaskStatus[None]) -> None:
    """End the running calls and then the process when a signal arrives."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for number in signals:
            await _exit(handlers, 128 + number)


async def _exit(handlers: RequestHandlers, status: int) -> None:
    """Cancel the running calls, and end the process when they are recorded."""
    await handlers.end(GRACE_S)
    # The tools have ended, but a large commit may take longer than the grace, and without its record the call would be
    # one that may have had its effect (test_a_call_whose_commit_takes_long_is_recorded_when_the_server_stops).
    await run_sync(RUNNING.stop, RECORD_S)
    # The thread of the SDK that reads stdin cannot be interrupted, and an ordinary exit would wait for it.
    os._exit(status)
