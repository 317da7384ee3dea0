"""The server in a thread, with a small app or a whole project, and the SDK's client over HTTP."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from covalt_git.models.project_config import ServerConfig
from covalt_git.serving.body_timeout import TIMEOUT_S, with_body_timeout
from covalt_git.serving.listen_socket import listen
from covalt_git.serving.router import router
from covalt_git.serving.server import project_app
from covalt_git.serving.uvicorn_server import Server
from covalt_git.serving.wsgi_bridge import THREADS, WSGIBridge
from tests.mcp_client import VERSIONS

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication
    from starlette.types import ASGIApp

Result = TypeVar("Result")

TOKEN = "a-token-of-the-tests"
PATIENCE_S = 30
"""How long a test waits for what must happen before it fails."""


@dataclass(frozen=True)
class Running:
    """A server that answers."""

    port: int
    server: Server
    thread: threading.Thread

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)

    def socket(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def get(self, path: str = "/") -> bytes:
        connection = self.connect()
        try:
            connection.request("GET", path)
            return connection.getresponse().read()
        finally:
            connection.close()

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()


@contextmanager
def running_app(
    app_at: Callable[[int], ASGIApp], *, grace_s: int = 0, timeout_s: float = TIMEOUT_S
) -> Iterator[Running]:
    """Serve the ASGI app for a port; when the block ends, requests have ``grace_s`` seconds left."""
    listener = listen(ServerConfig(), host=None, port=0)
    ready = threading.Event()
    server = Server(app_at(listener.port), ready.set, grace_s=grace_s, timeout_s=timeout_s)
    thread = threading.Thread(target=server.run, args=([listener.socket],))
    with listener.socket:
        thread.start()
        running = Running(listener.port, server, thread)
        try:
            assert ready.wait(PATIENCE_S)
            yield running
        finally:
            running.stop()


def running(
    wsgi: WSGIApplication,
    *,
    threads: int = THREADS,
    grace_s: int = 0,
    timeout_s: float = TIMEOUT_S,
) -> AbstractContextManager[Running]:
    """Serve a WSGI app."""
    bridge = WSGIBridge(wsgi, threads=threads)
    app = with_body_timeout(router(bridge, {}), timeout_s)
    return running_app(lambda _: app, grace_s=grace_s, timeout_s=timeout_s)


@contextmanager
def served(
    root: Path,
    role: str | None = None,
    *,
    timeout_s: float = TIMEOUT_S,
    wrap: Callable[[ASGIApp], ASGIApp] = lambda app: app,
) -> Iterator[int]:
    """Serve a project whose token is :data:`TOKEN`, and yield the port; ``wrap`` changes the app."""

    def app(port: int) -> ASGIApp:
        return wrap(project_app(root, token=TOKEN, port=port, role=role, timeout_s=timeout_s))

    with running_app(app, grace_s=1, timeout_s=timeout_s) as server:
        yield server.port


async def say_over_http(
    port: int,
    say: Callable[[Client], Awaitable[Result]],
    *,
    version: str = VERSIONS[0],
    token: str = TOKEN,
    query: str = "",
    message_handler: Any = None,
    callbacks: Mapping[str, Any] | None = None,
) -> Result:
    """Return what ``say`` returns, which talks to ``/mcp`` of a port with a token."""
    headers = {"Authorization": f"Bearer {token}"}
    # An SSL context, which plain HTTP does not use, would take 40 ms.
    async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S, verify=False) as http:
        url = f"http://127.0.0.1:{port}/mcp{query}"
        async with Client(
            streamable_http_client(url, http_client=http),
            mode=version,
            cache=None,
            message_handler=message_handler,
            **(callbacks or {}),
        ) as client:
            return await say(client)


def talk_over_http(port: int, say: Callable[[Client], Awaitable[Result]], **options: Any) -> Result:
    """Return what :func:`say_over_http` returns."""

    async def main() -> Result:
        return await say_over_http(port, say, **options)

    return anyio.run(main)


def call_over_http(
    port: int, name: str, args: Mapping[str, Any] | None = None, **options: Any
) -> Any:
    """Return the result of one call."""

    async def say(client: Client) -> Any:
        return await client.call_tool(name, {**(args or {})})

    return talk_over_http(port, say, **options)
