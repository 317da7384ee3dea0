"""The router of the apps, its access log, and its lifespan."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from covalt_git.models.project_config import ServerConfig
from covalt_git.serving.listen_socket import listen
from covalt_git.serving.router import router
from covalt_git.serving.uvicorn_server import Server


def named(name: str) -> ASGIApp:
    """Return an app that answers with its name and the path."""

    async def app(scope: Scope, _: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": f"{name} {scope['path']}".encode()})

    return app


def get(app: ASGIApp, path: str) -> bytes:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError

    async def main() -> None:
        scope = {"type": "http", "method": "GET", "path": path, "raw_path": b"/a%20b"}
        await app({**scope, "query_string": b"token=secret"}, receive, send)

    asyncio.run(main())
    body: bytes = sent[1]["body"]
    return body


@pytest.mark.parametrize(
    ("path", "app"),
    [
        ("/", "pages"),
        ("/mcp", "mcp"),
        ("/mcp/", "mcp"),
        ("/mcp/a/b", "mcp"),
        ("/mcps", "pages"),
        ("/a/mcp", "pages"),
        ("//mcp", "pages"),
        ("/.well-known/oauth-protected-resource/mcp", "mcp"),
        ("/.well-known/other", "pages"),
        ("/git/c1/info/refs", "git"),
        ("/github", "pages"),
    ],
)
def test_a_request_reaches_the_app_of_its_path(path: str, app: str) -> None:
    places = {"/mcp": "mcp", "/.well-known/oauth-protected-resource": "mcp", "/git": "git"}
    apps = {place: named(name) for place, name in places.items()}

    assert get(router(named("pages"), apps), path) == f"{app} {path}".encode()


@pytest.mark.parametrize("fails_at", ["", "start", "end"])
def test_the_lifespan_begins_and_ends_with_the_server(
    fails_at: str, caplog: pytest.LogCaptureFixture
) -> None:
    events: list[str] = []

    def note(event: str) -> None:
        events.append(event)
        if event == fails_at:
            raise RuntimeError("the app cannot")

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        note("start")
        yield
        note("end")

    def stop_again() -> None:
        events.append("ready")
        server.should_exit = True

    listener = listen(ServerConfig(), host=None, port=0)
    server = Server(router(named("pages"), {}, lifespan), stop_again)
    with listener.socket, suppress(SystemExit):
        server.run([listener.socket])

    assert events == (["start"] if fails_at == "start" else ["start", "ready", "end"])
    assert ("the app cannot" in caplog.text) == bool(fails_at)
