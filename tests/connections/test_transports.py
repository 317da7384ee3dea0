"""Servers at URLs: both transports, both protocol versions, headers, and refused connections."""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from covalt_git.connections.definition import Definition, Name
from covalt_git.connections.errors import ServerFailedError, ServerRefusedError
from covalt_git.connections.event_handlers import EventHandlers
from covalt_git.connections.pool import Connections
from covalt_git.connections.token_store import SignInFile, SignInNeededError
from covalt_git.hosts import Reach
from tests.connections.conftest import call_tool, text
from tests.connections.signing_in import serving, stored_login

SERVER = "over_http.py"
PROJECT = Path("/project")
transports = pytest.mark.parametrize("transport", ["streamable-http", "sse"])


def at(url: str, transport: Any = "streamable-http", reach: str = "") -> Definition:
    """Return the definition of a server, which is granted."""
    granted = Reach.of(reach or url.rpartition("/")[0])
    return Definition(Name(PROJECT, "demo", "remote", "c1"), transport, url=url, reach=granted)


def on_port(port: int, transport: str = "streamable-http") -> Definition:
    return at(f"http://127.0.0.1:{port}/{'sse' if transport == 'sse' else 'mcp'}", transport)


@pytest.mark.requirement("cjson-toolsets.headers")
@transports
@pytest.mark.usefixtures("config_folder")
def test_a_server_at_a_url_is_called_with_its_headers_and_with_the_token_that_it_requires(
    connections: Connections, transport: str
) -> None:
    def answer(*_: object) -> dict[str, Any]:
        return {"action": "accept", "content": {"name": "Ann"}}

    with serving(SERVER, transport, TOKEN="t0ken") as (port,):
        defined = on_port(port, transport)
        with pytest.raises(SignInNeededError) as raised:
            connections.begin(defined)
        assert raised.value.hint == "covalt-git auth login demo/remote"

        headers = {"Authorization": "Bearer t0ken", "X-Team": "red"}
        use = partial(call_tool, connections, replace(defined, headers=headers))
        assert text(use("echo", args={"text": "hello"})) == "hello"
        assert text(use("ask", handlers=EventHandlers(ask=answer))) == "accept Ann"
        assert text(use("headers")) == "red"
        if transport == "streamable-http":
            assert len(text(use("long", args={"text": "3000000"}))) == 3_000_000
        (health,) = connections.health(PROJECT)
        assert (health.protocol, health.server) == ("2026-07-28", "over-http 1")

        SignInFile.of(defined.name, defined.url).write(stored_login(PROJECT, defined.url))
        assert len(connections.tools(defined)) == 4
        connections.close()


@pytest.mark.parametrize(
    ("url", "reach", "why"),
    [
        ("http://127.0.0.1:1/mcp", "https://example.org", "was not granted"),
        ("http://localhost.example:1/mcp", "", "has no address"),
        ("http://127.0.0.1:1/mcp", "", "connection refused"),
    ],
)
def test_a_server_that_is_not_granted_or_not_there_is_an_error(
    connections: Connections, url: str, reach: str, why: str
) -> None:
    with pytest.raises(ServerFailedError, match=why):
        connections.begin(at(url, reach=reach))


@pytest.mark.rest
def test_a_server_that_was_restarted_is_found_again(connections: Connections) -> None:
    port = 0
    for word in ("one", "two"):
        with serving(SERVER, PORT=str(port)) as (port,):
            result = call_tool(connections, on_port(port), "echo", args={"text": word})
            assert text(result) == word
            if word == "two":
                connections.close()


@contextmanager
def answering_calls(status: int, code: int) -> Iterator[int]:
    """Yield the port of a server with sessions that answers each call with a status and an error."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            method, answer = request["method"], {"jsonrpc": "2.0", "id": request.get("id")}
            results = {
                "initialize": {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "refusing", "version": "1"},
                },
                "tools/list": {"tools": [{"name": "ask", "inputSchema": {"type": "object"}}]},
            }
            if method in results:
                self.send(200, answer | {"result": results[method]})
            elif method == "tools/call":
                self.send(status, answer | {"error": {"code": code, "message": "plain"}})
            elif "id" in request:
                self.send(200, answer | {"error": {"code": -32601, "message": "no such method"}})
            else:
                self.send(202)

        def do_GET(self) -> None:
            self.send(405)

        do_DELETE = do_GET  # noqa: N815 - as http.server calls it

        def send(self, status: int, answer: Any = None) -> None:
            body = b"" if answer is None else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Mcp-Session-Id", "s1")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print no log."""

    with running(Handler) as port:
        yield port


@contextmanager
def running(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """Yield the port of a server that runs in a thread."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


class Stored(BaseHTTPRequestHandler):
    """A REST API that stores each object, and answers with it and its own id."""

    more: Mapping[str, Any]

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps({**request, **self.more} if self.more else []).encode()
        self.send_response(201)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print no log."""


@pytest.mark.parametrize("more", [{"id": 101}, {"jsonrpc": None}, {}])
def test_an_answer_that_is_none_of_the_protocol_is_named_at_once(
    connections: Connections, more: Mapping[str, Any]
) -> None:
    handler = type("Api", (Stored,), {"more": more})
    begin = time.monotonic()

    with (
        running(handler) as port,
        pytest.raises(ServerFailedError, match="answered 201 Created with application/json,"),
    ):
        connections.begin(on_port(port))

    assert time.monotonic() - begin < 8


@pytest.mark.parametrize(
    ("status", "code", "starts"),
    [(200, -32000, 1), (200, -32001, 1), (400, -32602, 1), (400, -32000, 2), (404, -32001, 2)],
)
def test_an_error_is_quoted_and_an_unknown_session_is_not_used_again(
    connections: Connections, status: int, code: int, starts: int
) -> None:
    with answering_calls(status, code) as port:
        for _ in range(2):
            with pytest.raises(
                ServerRefusedError, match=rf"answered with an error: plain \({code}\)"
            ):
                call_tool(connections, on_port(port), "ask")
        (health,) = connections.health(PROJECT)
        connections.close()
    assert health.starts == starts
