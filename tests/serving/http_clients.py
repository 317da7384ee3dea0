"""A served project, and the SDK's own client to talk to it over HTTP, in both eras."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.types import ASGIApp

from covalt_git.models.project_config import ServerConfig
from covalt_git.serving.body_timeout import TIMEOUT_S
from covalt_git.serving.listen_socket import listen
from covalt_git.serving.server import faces
from covalt_git.serving.uvicorn_server import Server

Result = TypeVar("Result")

TOKEN = "a-token-of-the-tests"


def served(
    root: Path,
    role: str | None = None,
    *,
    seen_by: Callable[[ASGIApp], ASGIApp] = lambda app: app,
    timeout_s: float = TIMEOUT_S,
) -> Iterator[int]:
    """Yield the port that a project is served at, by who has :data:`TOKEN`.

    ``seen_by`` returns the app as those see it who ask.
    """
    listener = listen(ServerConfig(), host=None, port=0)
    ready = threading.Event()
    app = faces(root, token=TOKEN, port=listener.port, role=role, timeout_s=timeout_s)
    server = Server(seen_by(app), ready.set, grace_s=1, timeout_s=timeout_s)
    thread = threading.Thread(target=server.run, args=([listener.socket],))
    with listener.socket:
        thread.start()
        try:
            assert ready.wait(30)
            yield listener.port
        finally:
            server.should_exit = True
            thread.join(30)
        assert not thread.is_alive()


async def say(
    port: int,
    said: Callable[[Client], Awaitable[Result]],
    *,
    era: str,
    token: str = TOKEN,
    query: str = "",
    hears: Any = None,
    can: dict[str, Any] | None = None,
) -> Result:
    """Return what somebody says who comes in by ``token``."""
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
        way = streamable_http_client(f"http://127.0.0.1:{port}/mcp{query}", http_client=http)
        async with Client(
            way, mode=era, cache=None, message_handler=hears, **(can or {})
        ) as client:
            return await said(client)


def talk(port: int, said: Callable[[Client], Awaitable[Result]], *, era: str, **how: Any) -> Result:
    """Return what :func:`say` returns."""

    async def main() -> Result:
        return await say(port, said, era=era, **how)

    return anyio.run(main)


async def names(client: Client) -> list[str]:
    """Return what its tools are called."""
    return [tool.name for tool in (await client.list_tools()).tools]
