"""The server's end: running requests have their time, and nothing keeps it longer."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import repeat
from typing import TYPE_CHECKING, Any

import pytest

from covalt_git.errors import ClientGoneError
from tests.uvicorn_server import PATIENCE_S, Running, running

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse

Environ = dict[str, Any]


def asked(served: Running) -> socket.socket:
    connection = served.socket()
    connection.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    return connection


def test_a_request_that_runs_at_the_end_is_answered() -> None:
    began, go_on = threading.Event(), threading.Event()

    def app(_: Environ, start: StartResponse) -> list[bytes]:
        began.set()
        assert go_on.wait(PATIENCE_S)
        start("200 OK", [("Content-Length", "4")])
        return [b"done"]

    with running(app, grace_s=PATIENCE_S) as served:
        connection = served.connect()
        connection.request("GET", "/")
        assert began.wait(PATIENCE_S)
        served.server.should_exit = True
        wait_until_closed(served.port)
        go_on.set()

        assert connection.getresponse().read() == b"done"
        connection.close()


def wait_until_closed(port: int) -> None:
    with suppress(OSError):
        while True:
            socket.create_connection(("127.0.0.1", port)).close()
            time.sleep(0.01)


@pytest.mark.parametrize("reads", [True, False], ids=["read", "not-read"])
def test_an_endless_answer_is_closed_at_the_end(
    *, reads: bool, caplog: pytest.LogCaptureFixture
) -> None:
    closed = threading.Event()

    def app(_: Environ, start: StartResponse) -> Iterator[bytes]:
        start("200 OK", [])
        try:
            yield from repeat(b"x" * 65536)
        finally:
            closed.set()

    with running(app) as served, asked(served) as connection:
        assert connection.recv(1)
        reading = threading.Thread(target=read_on, args=(connection,))
        if reads:
            reading.start()
        served.stop()

        assert closed.wait(PATIENCE_S)
        if reads:
            reading.join(PATIENCE_S)
    assert caplog.text == ""


def read_on(connection: socket.socket) -> None:
    try:
        while connection.recv(65536):
            pass
    except ConnectionError:
        pass  # hung up on


def test_a_reading_app_is_told_of_the_end(caplog: pytest.LogCaptureFixture) -> None:
    raised: list[BaseException] = []
    began, ended = threading.Event(), threading.Event()

    def app(environ: Environ, _: StartResponse) -> list[bytes]:
        began.set()
        try:
            return [environ["wsgi.input"].read()]
        except OSError as error:
            raised.append(error)
            raise
        finally:
            ended.set()

    with running(app) as served, served.socket() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n")
        assert began.wait(PATIENCE_S)
        served.stop()

        assert ended.wait(PATIENCE_S)
    assert [type(error) for error in raised] == [ClientGoneError]
    assert caplog.text == ""


def test_an_app_that_never_comes_back_does_not_hold_the_end_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    began, come_back, raised = threading.Event(), threading.Event(), threading.Event()

    def app(_: Environ, start: StartResponse) -> Iterable[bytes]:
        write = start("200 OK", [])
        began.set()
        come_back.wait(PATIENCE_S)
        try:
            write(b"too late")
        except ClientGoneError:
            raised.set()
        return []

    with running(app) as served, asked(served):
        assert began.wait(PATIENCE_S)
        served.stop()
        come_back.set()

        assert raised.wait(PATIENCE_S)
    assert caplog.text == ""


def test_a_request_that_waits_for_a_thread_does_not_hold_the_end_up() -> None:
    began, come_back = threading.Event(), threading.Event()
    asked_for: list[str] = []

    def app(environ: Environ, start: StartResponse) -> Iterable[bytes]:
        asked_for.append(environ["PATH_INFO"])
        began.set()
        come_back.wait(PATIENCE_S)
        start("200 OK", [])
        return []

    with running(app, threads=1) as served, asked(served):
        assert began.wait(PATIENCE_S)
        with asked(served):
            served.stop()
        come_back.set()

    assert asked_for == ["/"]


def test_a_mounted_app_is_hung_up_on_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while (await receive())["type"] != "never":
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
            await receive()

    def nothing(_: Environ, __: StartResponse) -> list[bytes]:
        raise AssertionError

    with running(nothing, places={"": app}) as served, asked(served) as connection:
        assert connection.recv(1)
        served.stop()

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
    [
        pytest.param([signal.SIGINT], 0, id="ctrl-c"),
        pytest.param([signal.SIGTERM], 0, id="term"),
        pytest.param([signal.SIGINT, signal.SIGINT], 1000, id="second-ctrl-c-does-not-wait"),
    ],
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
                wait_until_closed(port)
            said = program.communicate(timeout=PATIENCE_S)
            connection.close()
        finally:
            program.kill()

    assert program.returncode == 0
    assert said == ("ended\n", "")
