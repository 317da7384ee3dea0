"""WSGI apps on uvicorn, over real sockets: both bodies stream, and both sides learn of every end."""

from __future__ import annotations

import hashlib
import http.client
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.errors import ClientGoneError
from covalt_git.serving.wsgi_bridge import BUFFERED
from tests.settling import until
from tests.uvicorn_server import PATIENCE_S, Running, running

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse

    App = Callable[[dict[str, Any], StartResponse], Iterable[bytes]]

Environ = dict[str, Any]
PART = b"x" * 65536
PARTS = 512
GET = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
UPLOAD = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n"


Serve = Callable[["App"], Running]


@pytest.fixture(scope="module")
def serve() -> Iterator[Serve]:
    """A function that sets the app which answers; one server for all tests."""
    app: App

    def answer(environ: Environ, start: StartResponse) -> Iterable[bytes]:
        return app(environ, start)

    with running(answer) as server:

        def serve(new: App) -> Running:
            nonlocal app
            app = new
            return server

        yield serve


class Closable:
    """Parts of an answer that note when they are closed."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        self.parts = iter(parts)
        self.closed = threading.Event()

    def __iter__(self) -> Iterator[bytes]:
        return self.parts

    def close(self) -> None:
        self.closed.set()


def answering(parts: Iterable[bytes], *headers: tuple[str, str], status: str = "200 OK") -> App:
    def app(_: Environ, start: StartResponse) -> Iterable[bytes]:
        start(status, list(headers))
        return parts

    return app


def digest(environ: Environ, start: StartResponse) -> list[bytes]:
    """Answer with the length and the hash of the body, and with its declared length, as JSON."""
    hashed, length = hashlib.sha256(), 0
    while part := environ["wsgi.input"].read(65536):
        hashed.update(part)
        length += len(part)
    start("200 OK", [("Content-Type", "application/json")])
    declared = environ.get("CONTENT_LENGTH"), environ.get("HTTP_TRANSFER_ENCODING")
    return [json.dumps([length, hashed.hexdigest(), *declared]).encode()]


def reset(connection: socket.socket) -> None:
    """Close a connection as the kernel does for a killed client."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


@pytest.fixture
def ask(serve: Serve) -> Iterator[Callable[..., http.client.HTTPResponse]]:
    """Send requests over one connection, which stays open for the whole test."""
    connection = serve(digest).connect()

    def send(method: str, path: str = "/", *args: Any, **options: Any) -> http.client.HTTPResponse:
        connection.request(method, path, *args, **options)
        return connection.getresponse()

    yield send
    connection.close()


Ask = Callable[..., http.client.HTTPResponse]


def test_an_answer_has_the_status_and_headers_of_the_app(serve: Serve, ask: Ask) -> None:
    headers = ("Content-Length", "5"), ("X-A", " ö ")
    serve(answering([b"hello"], *headers, status="418 Whatever"))
    answer = ask("GET")

    assert (answer.status, answer.headers["X-A"], answer.read()) == (418, "ö", b"hello")
    assert "uvicorn" not in str(answer.headers)


def test_the_environment_has_the_request(serve: Serve) -> None:
    seen: Environ = {}

    def app(environ: Environ, start: StartResponse) -> list[bytes]:
        seen.update(environ)
        start("204 No Content", [])
        return []

    server = serve(app)
    request = (
        b"GET /a%2Fb/%ff%20%C3%A4?x=%ff&y HTTP/1.1\r\nHost: here:1\r\nConnection: close\r\n"
        b"Cookie: a=1\r\nCookie: b=2\r\nX-Many: 1\r\nX-Many: 2\r\n"
        b"X_Many: spoofed\r\nContent_Length: 99\r\nContent-Type: text/x\r\n\r\n"
    )
    with server.socket() as connection:
        connection.sendall(request)
        while connection.recv(65536):
            pass

    wanted = {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": "/a/b/\xff \xc3\xa4",
        "QUERY_STRING": "x=%ff&y",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": str(server.port),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "CONTENT_TYPE": "text/x",
        "HTTP_HOST": "here:1",
        "HTTP_COOKIE": "a=1; b=2",
        "HTTP_X_MANY": "1,2",
        "wsgi.url_scheme": "http",
        "wsgi.multithread": True,
        "wsgi.input_terminated": True,
    }
    assert {name: seen.get(name) for name in wanted} == wanted
    assert "CONTENT_LENGTH" not in seen


@pytest.mark.parametrize("chunked", [False, True])
def test_a_large_upload_arrives_whole(serve: Serve, ask: Ask, *, chunked: bool) -> None:
    content = bytes(range(256)) * (5 << 12)
    serve(digest)
    parts = (content[at : at + 100_000] for at in range(0, len(content), 100_000))
    answer = json.load(ask("POST", "/", parts if chunked else content, encode_chunked=chunked))

    declared = None if chunked else str(len(content))
    assert answer == [len(content), hashlib.sha256(content).hexdigest(), declared, None]


# Clients that leave


def then(after: threading.Event, part: bytes) -> Iterator[bytes]:
    """Yield a first part, and another again and again after an event; empty parts check for the client."""
    yield b"data: 1\n\n"
    yield b""
    assert after.wait(PATIENCE_S)
    while True:
        after.wait(0.005)
        yield part


@pytest.mark.parametrize("leave", [socket.socket.close, reset])
@pytest.mark.parametrize(
    ("request_", "part"),
    [
        (GET, PART),
        (GET, b": ping\n\n"),
        (GET, b""),
        (UPLOAD % (BUFFERED + 1) + b"x" * (BUFFERED + 1), PART),
    ],
    ids=["large parts", "small parts", "empty parts", "unread body"],
)
def test_an_answer_is_closed_when_its_client_leaves(
    serve: Serve, leave: Callable[[socket.socket], None], request_: bytes, part: bytes
) -> None:
    left = threading.Event()
    parts = Closable(repeat(PART) if part == PART else then(left, part))
    connection = serve(answering(parts)).socket()
    connection.sendall(request_)
    received = connection.recv(100_000)
    leave(connection)
    left.set()

    assert parts.closed.wait(PATIENCE_S)
    assert b"0\r\n\r\n" not in received  # the end of an answer


def test_half_an_upload_is_never_read_as_a_whole_one_and_nothing_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ends: list[object] = []
    began = threading.Event()

    def app(environ: Environ, _: StartResponse) -> list[bytes]:
        began.set()
        try:
            ends.append(environ["wsgi.input"].read())
        except OSError as error:
            ends.append(type(error))
            raise
        return []

    with running(app, grace_s=PATIENCE_S) as server:
        with server.socket() as connection:
            connection.sendall(UPLOAD % 100 + b"half")
            assert began.wait(PATIENCE_S)
        until(lambda: ends)

    assert ends == [ClientGoneError]
    assert caplog.text == ""


# Backpressure


def test_a_slow_reader_slows_the_app_down(serve: Serve) -> None:
    made = 0

    def app(environ: Environ, start: StartResponse) -> Iterator[bytes]:
        nonlocal made
        start("200 OK", [])
        if environ["PATH_INFO"] == "/page":
            yield b"page"
            return
        for _ in range(PARTS):
            made += 1
            yield PART

    server = serve(app)
    with server.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        connection.sendall(GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        connection.recv(1)
        for _ in range(50):  # meanwhile the server has time
            assert server.get("/page") == b"page"

        assert made < PARTS // 2
        while connection.recv(1 << 20):
            pass
    assert made == PARTS


# Answers


def raising(error: BaseException) -> App:
    def app(_: Environ, __: StartResponse) -> list[bytes]:
        raise error

    return app


def fails_before_the_first_part(_: Environ, start: StartResponse) -> Iterator[bytes]:
    start("200 OK", [])
    raise LookupError("the reason")
    yield b""


def never_starts(_: Environ, __: StartResponse) -> list[bytes]:
    return [b"too soon"]


def starts_twice(_: Environ, start: StartResponse) -> list[bytes]:
    start("200 OK", [])
    start("200 OK", [])
    return []


@pytest.mark.parametrize(
    "app",
    [
        pytest.param(raising(LookupError("the reason")), id="raises"),
        pytest.param(fails_before_the_first_part, id="raises in a generator"),
        pytest.param(raising(StopIteration("the reason")), id="StopIteration"),
        pytest.param(raising(SystemExit("the reason")), id="SystemExit"),
        pytest.param(never_starts, id="no start"),
        pytest.param(starts_twice, id="two starts"),
        pytest.param(answering([], ("X-A", "a\r\nSet-Cookie: b")), id="line end in a value"),
        pytest.param(answering([], ("X-A\n", "a")), id="line end in a name"),
        pytest.param(answering([], ("X-Ä", "a")), id="name not ASCII"),
        pytest.param(answering([], ("X-A", "☃")), id="value not Latin-1"),
        pytest.param(answering([], status="fine"), id="no status"),
        pytest.param(answering([], status="999 No"), id="unknown status"),
    ],
)
def test_a_bug_of_the_app_is_logged_and_answered_as_an_error(
    serve: Serve, ask: Ask, app: App, caplog: pytest.LogCaptureFixture
) -> None:
    serve(app)
    for _ in range(2):  # the server still works
        answer = ask("GET", "/?token=secret")
        body = json.load(answer)
        assert (answer.status, answer.headers["Content-Type"]) == (500, "application/json")
        assert body.keys() == {"error", "error_description", "hint", "problems"}
        assert body["error"] == "internal_error"
        assert "reason" not in str(body)

    assert "Traceback" in caplog.text
    assert "secret" not in caplog.text


def test_a_bug_in_the_middle_of_an_answer_breaks_it_off(
    serve: Serve, ask: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    def fails() -> Iterator[bytes]:
        yield b"one"
        raise LookupError("the reason")

    parts = Closable(fails())
    serve(answering(parts))
    with pytest.raises(http.client.IncompleteRead):
        ask("GET").read()

    assert parts.closed.wait(PATIENCE_S)
    assert "LookupError: the reason" in caplog.text
