"""The router of the apps, and its access log."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.serving.router import router, with_access_log

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


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


def test_the_with_access_log_has_a_line_a_request_without_the_query() -> None:
    lines: list[Any] = []

    get(with_access_log(router(named("pages"), {}), lines.append), "/a b")

    assert lines == ["GET /a%20b 200"]
