"""Transport to the program of a server in the sandbox: stdio (MCP specification, "Transports").

The SDK's own transport starts the program itself, which a sandbox cannot be entered from.
"""

from __future__ import annotations

import asyncio
import codecs
import os
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage

from covalt_git.system import programs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client._transport import TransportStreams

    from covalt_git.connections.definition import Definition, Program, Sandbox
    from covalt_git.connections.stderr_tail import StderrTail

_END_S = 2.0
"""Seconds for a program to end after its input has ended."""

_READ = 1 << 16


@asynccontextmanager
async def sandboxed_program(
    definition: Definition, sandbox: Sandbox, stderr: StderrTail
) -> AsyncIterator[TransportStreams]:
    """Start a program in its sandbox, and end all its processes after the block.

    Raises:
        OSError: if it cannot be started.
    """
    loop = asyncio.get_running_loop()
    # The copy of the toolset and installed packages are read-only, so their bytecode cannot be replaced.
    own = {"PATH": programs.search_path(), "PYTHONDONTWRITEBYTECODE": "1"}
    env = own | dict(definition.env)
    input_end, our_input = os.pipe()
    our_output, output_end = os.pipe()
    # Unbuffered, and owned by the transports that asyncio makes of them below.
    sent, received = os.fdopen(our_input, "wb", 0), os.fdopen(our_output, "rb", 0)
    with sent, received, stderr.capture() as stream:
        try:
            streams = (input_end, output_end, stream.fileno())
            report = partial(_report, loop, stderr)
            start = partial(sandbox.start, definition.argv, env, definition.cwd, streams, report)
            program = await _started(start)
        finally:
            # Our copies: with them open, the end of the program would not end its output.
            os.close(input_end)
            os.close(output_end)
            stream.close()
        try:
            reader = asyncio.StreamReader()
            protocol = asyncio.StreamReaderProtocol(reader)
            output, _ = await loop.connect_read_pipe(lambda: protocol, received)
            flow, flow_protocol = await loop.connect_write_pipe(
                lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), sent
            )
            writer = asyncio.StreamWriter(flow, flow_protocol, None, loop)
            to_session, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
            write, from_session = anyio.create_memory_object_stream[SessionMessage](0)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_receive, reader, to_session)
                tasks.start_soon(_send, writer, from_session, to_session)
                try:
                    yield read, write
                finally:
                    tasks.cancel_scope.cancel()
                    writer.close()
                    output.close()
        finally:
            await _end(program)


def _report(loop: asyncio.AbstractEventLoop, stderr: StderrTail, text: str) -> None:
    with suppress(RuntimeError):  # the loop is closed
        loop.call_soon_threadsafe(stderr.add_report, text)


async def _started(start: Callable[[], Program]) -> Program:
    # In a thread: the fork server answers other requests first.
    started = asyncio.ensure_future(asyncio.to_thread(start))
    try:
        return await asyncio.shield(started)
    except asyncio.CancelledError:
        # The thread continues, and nothing else would end its program.
        with suppress(Exception):
            await asyncio.to_thread((await started).end)
        raise


async def _end(program: Program) -> None:
    """Let the program end after its input, then end all its processes, also if the caller is cancelled."""

    def end() -> None:
        program.wait(_END_S)
        program.end()

    ended = asyncio.ensure_future(asyncio.to_thread(end))
    try:
        await asyncio.shield(ended)
    except asyncio.CancelledError:
        await ended
        raise


async def _receive(
    reader: asyncio.StreamReader, to_session: MemoryObjectSendStream[SessionMessage | Exception]
) -> None:
    # A byte that is not UTF-8 must not end the connection.
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest = ""
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        async with to_session:
            while chunk := await reader.read(_READ):
                *lines, rest = (rest + decoder.decode(chunk)).split("\n")
                for line in lines:
                    await to_session.send(_message(line))


def _message(line: str) -> SessionMessage | Exception:
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except Exception as error:  # noqa: BLE001 - the session reports a line that is no message
        return error


async def _send(
    writer: asyncio.StreamWriter,
    from_session: MemoryObjectReceiveStream[SessionMessage],
    to_session: MemoryObjectSendStream[Any],
) -> None:
    try:
        async with from_session:
            async for sent in from_session:
                text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                writer.write(f"{text}\n".encode("utf-8", "replace"))
                await writer.drain()
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        await to_session.aclose()  # a request must not wait for a program that reads no more
