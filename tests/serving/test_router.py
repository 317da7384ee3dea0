"""The apps of the one process: the paths that they are at, and the lifespan of the server."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.models.project_config import ServerConfig
from covalt_git.serving.listen_socket import listen
from covalt_git.serving.router import router, with_access_log
from covalt_git.serving.uvicorn_server import Server
from covalt_git.serving.wsgi_bridge import WSGIBridge
from tests.uvicorn_server import running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from _typeshed.wsgi import StartResponse
    from starlette.types import ASGIApp, Receive, Scope, Send


def pages(environ: dict[str, Any], start: StartResponse) -> list[bytes]:
    start("200 OK", [])
    return [b"pages " + environ["PATH_INFO"].encode("latin-1")]


def git(environ: dict[str, Any], start: StartResponse) -> list[bytes]:
    start("200 OK", [])
    return [b"git " + environ["PATH_INFO"].encode("latin-1")]


class Gateway:
    """An ASGI app that answers its name and the path."""

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        body = f"gateway {scope['path']}".encode()
        await send({"type": "http.response.body", "body": body, "more_body": False})


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/", b"pages /"),
        ("/mcp", b"gateway /mcp"),
        ("/mcp/", b"gateway /mcp/"),
        ("/mcp/a/b", b"gateway /mcp/a/b"),
        ("/%6dcp", b"gateway /mcp"),
        ("/mcps", b"pages /mcps"),
        ("/a/mcp", b"pages /a/mcp"),
        ("//mcp", b"pages //mcp"),
        (
            "/.well-known/oauth-protected-resource/mcp",
            b"gateway /.well-known/oauth-protected-resource/mcp",
        ),
        ("/.well-known/other", b"pages /.well-known/other"),
        ("/git/c1/info/refs?service=x", b"git /git/c1/info/refs"),
        ("/github", b"pages /github"),
    ],
)
def test_a_request_goes_to_the_app_of_its_place(path: str, answer: bytes) -> None:
    gateway = Gateway()
    places: dict[str, ASGIApp] = {
        "/mcp": gateway,
        "/.well-known/oauth-protected-resource": gateway,
        "/git": WSGIBridge(git),
    }
    with running(pages, places=places) as served:
        assert served.get(path) == answer


@pytest.mark.parametrize("fails_at", ["", "start", "end"])
def test_lifespan_begins_and_ends_with_the_server(
    fails_at: str, caplog: pytest.LogCaptureFixture
) -> None:
    listener = listen(ServerConfig(), host=None, port=0)
    events: list[str] = []

    def note(event: str) -> None:
        events.append(event)
        if event == fails_at:
            raise RuntimeError("the gateway cannot")

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        note("start")
        yield
        note("end")

    def stop_again() -> None:
        events.append("ready")
        server.should_exit = True

    server = Server(router(WSGIBridge(pages), {}, lifespan), stop_again)
    with listener.socket, suppress(SystemExit):
        server.run([listener.socket])

    assert events == (["start"] if fails_at == "start" else ["start", "ready", "end"])
    assert ("the gateway cannot" in caplog.text) == bool(fails_at)


def test_a_line_is_told_for_each_request_without_its_query() -> None:
    lines: list[str] = []

    async def ask(app: Callable[..., Any]) -> None:
        async def nothing(_: object) -> None:
            pass

        scope = {"type": "http", "method": "GET", "raw_path": b"/a%20b", "path": "/a b"}
        await app({**scope, "query_string": b"token=secret"}, None, nothing)

    asyncio.run(ask(with_access_log(router(Gateway(), {}), lines.append)))

    assert lines == ["GET /a%20b 200"]
