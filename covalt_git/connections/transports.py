"""Transports to a server: stdio, SSE and streamable HTTP (MCP specification, "Transports")."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from contextlib import (
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    closing,
    contextmanager,
    suppress,
)
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp.client.sse import sse_client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from covalt_git.connections.answers import ReceivingStream, SendingStream, is_foreign_answer
from covalt_git.connections.sandboxed_program import sandboxed_program
from covalt_git.hosts import Reach
from covalt_git.http_client.errors import HttpError
from covalt_git.http_client.oauth_requests import BearerAuth
from covalt_git.http_client.transport import mcp_http_client
from covalt_git.system import locked_folder, private_files, programs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from mcp.client._transport import TransportStreams

    from covalt_git.connections.answers import ToolResults
    from covalt_git.connections.definition import Definition
    from covalt_git.connections.stderr_tail import StderrTail
    from covalt_git.http_client.oauth_requests import Tokens
    from covalt_git.http_client.transport import Response

MOST_EVENT_BYTES = 64 << 20
"""Limit of one event over streamable HTTP; the SDK limits events of the older SSE to 1 MiB.

Each call also has its own, usually smaller limit.
"""

_EMPTY = "covalt-git-mcp-"
"""Beginning of the names of the folders that programs start in."""


@asynccontextmanager
async def transport(
    definition: Definition,
    stderr: StderrTail,
    closed: asyncio.Event,
    on_response: Callable[[int], None],
    tokens: Tokens | None = None,
    *,
    results: ToolResults,
) -> AsyncIterator[TransportStreams]:
    """Open a transport; ``closed`` is set when the server closes it, and ``results`` gets the results of tools.

    For HTTP, ``on_response`` is called with the status of each response, and ``tokens`` has the bearer token.

    Raises:
        OSError: if a program cannot be started; the SDK raises other errors too.
    """
    stdio = definition.transport == "stdio"
    async with AsyncExitStack() as stack:
        if definition.check is not None:
            files = await asyncio.to_thread(definition.check)
            await asyncio.to_thread(files.__enter__)
            stack.push(files)
        if definition.sandbox is not None:
            connection = sandboxed_program(definition, definition.sandbox, stderr)
        elif stdio:
            connection = _stdio(definition, stderr)
        else:
            connection = _http(definition, on_response, tokens)
        read, write = await stack.enter_async_context(connection)
        over_http = definition.transport not in {"stdio", "sse"}
        receiving = ReceivingStream(read, closed, results, over_http=over_http)
        yield receiving, SendingStream(write, results)


@asynccontextmanager
async def _stdio(definition: Definition, stderr: StderrTail) -> AsyncIterator[TransportStreams]:
    command, *args = definition.argv
    with ExitStack() as stack:
        # In a relative folder of PATH, the program could be a file that the grant does not cover.
        env, cwd = {"PATH": programs.search_path(), **definition.env}, definition.cwd
        if definition.toolset is not None:
            stack.enter_context(closing(definition.toolset.hold()))
            # Its bytecode is read only from this folder, and written there for the next start.
            env = {"PYTHONPYCACHEPREFIX": str(definition.toolset.bytecode)} | env
        if cwd is None:
            cwd = stack.enter_context(_empty_folder())
        # A byte that is not UTF-8 must not end the connection.
        parameters = StdioServerParameters(
            command=command, args=args, env=env, cwd=cwd, encoding_error_handler="replace"
        )
        with stderr.capture() as stream:
            async with stdio_client(parameters, errlog=stream) as streams:
                stream.close()  # the program has its own descriptor
                yield streams


@contextmanager
def _empty_folder() -> Iterator[Path]:
    """Yield a new folder of the user's cache, for programs that start in no other.

    Not in ``/tmp``: npx also runs programs of ``node_modules`` in the folders above, and reads their ``.npmrc``, which
    another user of the machine could write there.
    """
    parent = private_files.cache_folder() / "servers"
    with suppress(OSError):
        parent.mkdir(0o700, parents=True, exist_ok=True)
    if not os.access(
        parent, os.W_OK
    ):  # a user without a home, for whom npx cannot install anything either
        parent = Path(tempfile.gettempdir())
    # A killed process left its folder; those of running ones are locked.
    locked_folder.clear(parent, _EMPTY)
    with locked_folder.create(parent, _EMPTY) as folder:
        yield folder


@asynccontextmanager
async def _http(
    definition: Definition, on_response: Callable[[int], None], tokens: Tokens | None
) -> AsyncIterator[TransportStreams]:
    reach = definition.reach or Reach()
    bearer = None if tokens is None else BearerAuth(definition.url, tokens)

    async def check(response: Response) -> None:
        on_response(response.status_code)
        # Servers of the older transport send their answers on another connection.
        if definition.transport != "sse":
            await _check_first_answer(response)

    # The client that the SDK would make knows no reach, and connects to any host.
    def client(headers: dict[str, str] | None = None, timeout: Any = None, auth: Any = None) -> Any:  # noqa: ARG001 - as the SDK calls it
        return mcp_http_client(reach, headers or definition.headers, bearer, check)

    url, headers = definition.url, dict(definition.headers)
    if definition.transport == "sse":
        async with sse_client(url, headers, httpx_client_factory=client) as streams:
            yield streams
        return
    async with (
        client() as http,
        streamable_http_client(
            url, http_client=http, max_sse_event_size=MOST_EVENT_BYTES
        ) as streams,
    ):
        yield streams


async def _check_first_answer(response: Response) -> None:
    """Refuse an answer to the first requests that is JSON of another API.

    The SDK takes a request that such an API sends back for one of the server, and waits for the answer.

    Raises:
        HttpError: with the status and the type of the answer.
    """
    content_type = response.headers.get("content-type", "").partition(";")[0].strip()
    if not response.is_success or content_type.lower() != "application/json":
        return
    try:
        method = json.loads(response.request.content)["method"]
    except (ValueError, TypeError, KeyError):
        return  # it is no request of the protocol
    if not is_foreign_answer(method, await response.aread()):
        return
    status = f"{response.status_code} {response.reason_phrase}".rstrip()
    why = f"it answered {status} with {content_type}, which is no answer of MCP"
    raise HttpError("bad_answer", why, sent=True)
