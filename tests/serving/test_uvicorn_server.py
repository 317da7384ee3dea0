"""The end of the server: running requests have their time, and nothing delays it further."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.errors import ClientGoneError
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


@pytest.mark.parametrize("does", ["reads", "writes", "waits for a thread"])
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


PROGRAM = """\
import sys, threading
from covalt_git.models.project_config import ServerConfig
from covalt_git.serving.listen_socket import listen
from covalt_git.serving.router import router
from covalt_git.serving.uvicorn_server import Server
from covalt_git.serving.wsgi_bridge import WSGIBridge

def stuck(environ, start):
    start("200 OK", [])(b"began")
    threading.Event().wait()

listener = listen(ServerConfig(), host=None, port=0)
with listener.socket:
    app = router(WSGIBridge(stuck), {})
    Server(app, lambda: print(listener.port, flush=True), grace_s=int(sys.argv[1])).run(
        [listener.socket]
    )
print("ended")
"""


@pytest.mark.parametrize(
    ("signals", "grace_s"),
    [([signal.SIGTERM], 0), ([signal.SIGINT, signal.SIGINT], 1000)],
    ids=["SIGTERM", "a second Ctrl-C does not wait"],
)
def test_a_process_with_a_stuck_request_ends(signals: list[signal.Signals], grace_s: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(grace_s)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        try:
            assert program.stdout is not None
            port = int(program.stdout.readline())
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
            connection.request("GET", "/")
            assert connection.getresponse().read(5) == b"began"
            for one in signals:
                program.send_signal(one)
                until(is_closed(port))
            printed = program.communicate(timeout=PATIENCE_S)
            connection.close()
        finally:
            program.kill()

    assert program.returncode == 0
    assert printed == ("ended\n", "")
