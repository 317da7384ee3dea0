"""The end of the server: running requests have their time, and nothing delays it further."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.errors import ClientGoneError
from tests.examples import rest
from tests.settling import until
from tests.uvicorn_server import PATIENCE_S, Running, running

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse

Environ = dict[str, Any]


def requested(server: Running) -> socket.socket:
    connection = server.socket()
    connection.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    return connection


def is_closed(port: int) -> Callable[[], bool]:
    """Return whether a server has stopped listening."""

    def closed() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            return True
        return False

    return closed


def test_a_running_request_is_answered_while_the_server_ends() -> None:
    began, go_on = threading.Event(), threading.Event()

    def app(_: Environ, start: StartResponse) -> list[bytes]:
        began.set()
        assert go_on.wait(PATIENCE_S)
        start("200 OK", [("Content-Length", "4")])
        return [b"done"]

    with running(app, grace_s=PATIENCE_S) as server:
        connection = server.connect()
        connection.request("GET", "/")
        assert began.wait(PATIENCE_S)
        server.server.should_exit = True
        until(is_closed(server.port))
        go_on.set()

        assert connection.getresponse().read() == b"done"
        connection.close()


@pytest.mark.parametrize("does", [rest("reads"), "writes", "waits for a thread"])
def test_an_app_that_is_stuck_does_not_delay_the_end(
    does: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its next read or write raises ClientGoneError."""
    began, come_back, raised = threading.Event(), threading.Event(), threading.Event()
    requests: list[str] = []

    def app(environ: Environ, start: StartResponse) -> Iterable[bytes]:
        requests.append(environ["PATH_INFO"])
        write = start("200 OK", [])
        began.set()
        try:
            if does == "reads":
                environ["wsgi.input"].read()
            come_back.wait(PATIENCE_S)
            write(b"too late")
        except ClientGoneError:
            raised.set()
            raise
        return []

    with running(app, threads=1) as server, server.socket() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n")
        assert began.wait(PATIENCE_S)
        if does == "waits for a thread":
            with requested(server):
                server.stop()
        else:
            server.stop()
        come_back.set()

        assert raised.wait(PATIENCE_S)
    assert requests == ["/"]
    assert caplog.text == ""
