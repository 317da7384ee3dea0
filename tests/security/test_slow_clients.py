"""Clients that send or read too slowly: each holds a thread or a connection for a bounded time."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.project import Project
from tests.examples import rest
from tests.mcp_client import make_project
from tests.uvicorn_server import PATIENCE_S, TOKEN, Running, running, served

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse

Environ = dict[str, Any]
TIMEOUT_S = 0.3
PART = b"x" * 65536
LENGTH = b"Content-Length: 99\r\n\r\n{"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
POST = b"POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer %s\r\n"


def length(environ: Environ, start: StartResponse) -> list[bytes]:
    """Answer how long the body is."""
    found = sum(len(part) for part in iter(lambda: environ["wsgi.input"].read(4096), b""))
    start("200 OK", [("Connection", "close")])
    return [str(found).encode()]


def refused(_: Environ, start: StartResponse) -> list[bytes]:
    start("403 Forbidden", [("Content-Length", "2")])
    return [b"no"]


def answer_until_closed(connection: socket.socket) -> bytes:
    """Return what is answered until the server closes the connection."""
    answer = b""
    try:
        while part := connection.recv(65536):
            answer += part
    except ConnectionResetError:
        pass
    return answer


def body_of(answer: bytes) -> Any:
    return json.loads(answer.partition(b"\r\n\r\n")[2])


@pytest.fixture
def one_thread() -> Iterator[Running]:
    with running(length, threads=1, timeout_s=TIMEOUT_S) as found:
        yield found


@pytest.mark.parametrize(
    "head",
    [
        rest(b"Content-Length: 9\r\n\r\nhalf", id="length"),
        rest(b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n", id="chunked"),
        pytest.param(b"Content-Length: 9\r\nExpect: 100-continue\r\n\r\n", id="told-to-go-on"),
    ],
)
def test_unfinished_body_is_answered_408_and_its_thread_is_free(
    one_thread: Running, head: bytes
) -> None:
    """Hold the server's threads by requests whose bodies never end."""
    with one_thread.socket() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: h\r\n" + head)
        answer = answer_until_closed(connection).removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert set(body_of(answer)) == {"error", "error_description", "hint", "problems"}
    assert body_of(answer)["error"] == "request_timeout"
    assert one_thread.get() == b"0"


def test_a_byte_now_and_then_is_answered_408(one_thread: Running) -> None:
    """Keep a thread by one byte of the body shortly before each time limit."""
    with one_thread.socket() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 999\r\n\r\n")
        connection.settimeout(TIMEOUT_S / 5)
        answer = b""
        for _ in range(100):
            connection.sendall(b"x")
            try:
                answer = connection.recv(65536)
                break
            except TimeoutError:
                continue

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert one_thread.get() == b"0"


@pytest.mark.parametrize(
    "begun",
    [
        rest(b"", id="nothing"),
        rest(b"GET / HTTP/1.1\r\nHost: h\r\n", id="half-a-head"),
        pytest.param(
            b"GET / HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost:", id="half-a-second-head"
        ),
    ],
)
def test_connection_without_a_whole_request_is_closed(begun: bytes) -> None:
    """Use up the server's file descriptors by connections that never send a whole request."""
    with running(refused, timeout_s=TIMEOUT_S) as closing, closing.socket() as connection:
        connection.sendall(begun)

        assert answer_until_closed(connection).count(b"HTTP/1.1 403") == begun.count(b"\r\n\r\n")


def test_client_that_does_not_read_is_hung_up_on() -> None:
    """Hold a thread by an answer that the client asks for and does not read."""
    closed = threading.Event()

    def endless(_: Environ, start: StartResponse) -> Iterator[bytes]:
        start("200 OK", [])
        try:
            yield from repeat(PART)
        finally:
            closed.set()

    with (
        running(endless, threads=1, timeout_s=TIMEOUT_S) as hanging_up,
        hanging_up.socket() as connection,
    ):
        connection.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")

        assert closed.wait(PATIENCE_S)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    root: Path = make_project(tmp_path_factory.mktemp("slow") / "project")
    Project.open(root).chats.new("c1")
    with served(root, timeout_s=TIMEOUT_S) as port:
        yield port


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        (b"/mcp", LENGTH),
        (b"/api/create_chat", CHUNKED),
        (b"/git/c1/git-receive-pack", LENGTH),
        rest(b"/git/c1/git-upload-pack", CHUNKED),
    ],
)
def test_unfinished_body_of_each_face_is_answered_408(
    port: int, path: bytes, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Leave a body unfinished where agents, programs and git send theirs."""
    kind = b"application/json"
    if path.startswith(b"/git"):
        kind = b"application/x-%s-request" % path.rpartition(b"/")[2]
    head = POST % (path, port, TOKEN.encode()) + b"Content-Type: %s\r\n" % kind
    head += b"Accept: application/json, text/event-stream\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        connection.sendall(head + sent)
        answer = answer_until_closed(connection)

    assert answer.startswith(b"HTTP/1.1 408 ")
    assert body_of(answer)["error"] == "request_timeout"
    assert [one.getMessage() for one in caplog.records if one.levelname == "ERROR"] == []
