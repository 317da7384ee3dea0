"""The ways to a server: a program's standard streams, or HTTP (MCP specification, "Transports")."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from covalt_git.hosts import Reach
from covalt_git.http_client.oauth_requests import BearerAuth
from covalt_git.http_client.transport import agent_client

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Callable
    from types import TracebackType

    from mcp.client._transport import ReadStream, TransportStreams
    from mcp.shared.message import SessionMessage

    from covalt_git.connections.definition import Definition
    from covalt_git.connections.stderr_tail import LastWords
    from covalt_git.http_client.oauth_requests import Tokens

MOST_EVENT_BYTES = 64 << 20
"""How much a server may say at once over streamable HTTP; the older SSE is held to 1 MiB by the SDK.

What a call may return is a limit of the call's, and smaller unless the project says otherwise.
"""


@asynccontextmanager
async def transport(
    definition: Definition,
    words: LastWords,
    closed: asyncio.Event,
    answered: Callable[[int], None],
    tokens: Tokens | None = None,
) -> AsyncIterator[TransportStreams]:
    """Open the way to a server; ``closed`` is set as soon as the server has closed it.

    ``answered`` hears the status of every answer, of HTTP, and ``tokens`` tells who asks there.

    Raises:
        OSError: when a program cannot be started; and what the SDK raises.
    """
    stdio = definition.transport == "stdio"
    way = _program(definition, words) if stdio else _address(definition, answered, tokens)
    async with way as (read, write):
        yield _Noted(read, closed), write


@asynccontextmanager
async def _program(definition: Definition, words: LastWords) -> AsyncIterator[TransportStreams]:
    command, *args = definition.argv
    with ExitStack() as held:
        env, cwd = dict(definition.env), definition.cwd
        if definition.toolset is not None:
            held.enter_context(closing(definition.toolset.hold()))
            # Bytecode of its files is read from there alone; it is written for the next start.
            env = {"PYTHONPYCACHEPREFIX": str(definition.toolset.bytecode)} | env
        if cwd is None:
            cwd = Path(tempfile.mkdtemp(prefix="covalt-git-mcp-"))
            held.callback(shutil.rmtree, cwd, ignore_errors=True)
        parameters = StdioServerParameters(command=command, args=args, env=env, cwd=cwd)
        with words.listening() as stream:
            async with stdio_client(parameters, errlog=stream) as streams:
                stream.close()  # the program has it now
                yield streams


@asynccontextmanager
async def _address(
    definition: Definition, answered: Callable[[int], None], tokens: Tokens | None
) -> AsyncIterator[TransportStreams]:
    reach = definition.reach or Reach()
    bearer = None if tokens is None else BearerAuth(definition.url, tokens)

    def client(headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None) -> Any:  # noqa: ARG001 - as the SDK calls it
        return agent_client(reach, headers or definition.headers, bearer, answered)

    way: AbstractAsyncContextManager[TransportStreams]
    if definition.transport == "sse":
        way = sse_client(definition.url, dict(definition.headers), httpx_client_factory=client)
        async with way as streams:
            yield streams
        return
    async with client() as http:
        way = streamable_http_client(
            definition.url, http_client=http, max_sse_event_size=MOST_EVENT_BYTES
        )
        async with way as streams:
            yield streams


class _Noted:
    """A stream of what a server sends, whose end is noted."""

    def __init__(
        self, stream: ReadStream[SessionMessage | Exception], closed: asyncio.Event
    ) -> None:
        self._stream = stream
        self._closed = closed

    @property
    def last_context(self) -> Any:
        """What the SDK keeps beside the last message."""
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message."""
        try:
            return await self._stream.receive()
        except Exception:
            self._closed.set()
            raise

    async def aclose(self) -> None:
        """Close our side."""
        await self._stream.aclose()

    def __aiter__(self) -> _Noted:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await anext(self._stream)
        except BaseException:
            self._closed.set()
            raise

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._stream.__aexit__(kind, error, traceback)
