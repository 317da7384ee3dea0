"""The places of the one process: paths, and the server's life as the apps there are told of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.models.project_config import ServerConfig
from covalt_git.serving.listening import listen
from covalt_git.serving.places import Places, told
from covalt_git.serving.uvicorn_server import Server
from covalt_git.serving.wsgi_bridge import WSGIBridge
from tests.serving.serving_app import running

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse

    from covalt_git.serving.asgi import App, Receive, Scope, Send


def pages(environ: dict[str, Any], start: StartResponse) -> list[bytes]:
    start("200 OK", [])
    return [b"pages " + environ["PATH_INFO"].encode("latin-1")]


def git(environ: dict[str, Any], start: StartResponse) -> list[bytes]:
    start("200 OK", [])
    return [b"git " + environ["PATH_INFO"].encode("latin-1")]


class Gateway:
    """An ASGI app that answers its name and the path, and notes what it is told of the server."""

    def __init__(self, *, fails_at: str = "") -> None:
        self.fails_at = fails_at
        self.events: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        while scope["type"] == "lifespan":
            event = (await receive())["type"]
            self.events.append(event)
            if event == self.fails_at:
                await send({"type": f"{event}.failed", "message": "the gateway cannot"})
                return
            await send({"type": f"{event}.complete"})
            if event == "lifespan.shutdown":
                return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        body = f"gateway {scope['path']}".encode()
        await send({"type": "http.response.body", "body": body, "more_body": False})


async def without_a_life(scope: Scope, _: Receive, send: Send) -> None:
    if scope["type"] != "http":
        raise NotImplementedError
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"simple", "more_body": False})


async def returns_at_once(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await without_a_life(scope, receive, send)


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
    places: dict[str, App] = {
        "/mcp": gateway,
        "/.well-known/oauth-protected-resource": gateway,
        "/git/": WSGIBridge(git),
    }
    with running(pages, places=places) as served:
        assert served.get(path) == answer


@pytest.mark.parametrize("neighbour", [without_a_life, returns_at_once, WSGIBridge(git)])
def test_apps_that_want_to_know_are_told_of_start_and_end(neighbour: App) -> None:
    gateway, other = Gateway(), Gateway()
    places: dict[str, App] = {
        "/mcp": gateway,
        "/well": gateway,
        "/none": neighbour,
        "/other": other,
    }
    with running(pages, places=places) as served:
        assert gateway.events == other.events == ["lifespan.startup"]
        assert served.get("/none") in {b"simple", b"git /none"}

    assert gateway.events == other.events == ["lifespan.startup", "lifespan.shutdown"]


@pytest.mark.parametrize("event", ["lifespan.startup", "lifespan.shutdown"])
def test_what_an_app_cannot_do_is_said(event: str, caplog: pytest.LogCaptureFixture) -> None:
    listener = listen(ServerConfig(), host=None, port=0)
    ready: list[bool] = []

    def stop_again() -> None:
        ready.append(True)
        server.should_exit = True

    app = Places(WSGIBridge(pages), {"/mcp": Gateway(fails_at=event)})
    server = Server(app, stop_again)
    with listener.socket:
        if event == "lifespan.startup":
            with pytest.raises(SystemExit):
                server.run([listener.socket])
        else:
            server.run([listener.socket])

    assert ready == ([] if event == "lifespan.startup" else [True])
    assert "the gateway cannot" in caplog.text


def test_a_line_is_told_for_each_request_without_its_query() -> None:
    lines: list[str] = []

    async def ask(app: Callable[..., Any]) -> None:
        async def nothing(_: object) -> None:
            pass

        scope = {"type": "http", "method": "GET", "raw_path": b"/a%20b", "path": "/a b"}
        await app({**scope, "query_string": b"token=secret"}, None, nothing)

    asyncio.run(ask(told(Places(without_a_life, {}), lines.append)))

    assert lines == ["GET /a%20b 200"]
