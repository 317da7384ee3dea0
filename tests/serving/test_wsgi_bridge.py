"""WSGI apps on uvicorn, over real sockets: both bodies stream, and every end is told to both sides."""

from __future__ import annotations

import hashlib
import http.client
import json
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Any

import flask
import pytest

from covalt_git.errors import ClientGoneError
from covalt_git.serving.wsgi_bridge import BUFFERED
from tests.uvicorn_server import PATIENCE_S, Running, running

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse

Environ = dict[str, Any]
LARGE = 20 << 20
PART = b"x" * 65536


class Closable:
    """Parts of an answer that note when they are closed."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        self.parts = iter(parts)
        self.closed = threading.Event()

    def __iter__(self) -> Iterator[bytes]:
        return self.parts

    def close(self) -> None:
        self.closed.set()


def answering(
    parts: Iterable[bytes], *headers: tuple[str, str], status: str = "200 OK"
) -> Callable[[Environ, StartResponse], Iterable[bytes]]:
    def app(_: Environ, start: StartResponse) -> Iterable[bytes]:
        start(status, list(headers))
        return parts

    return app


def echo(environ: Environ, start: StartResponse) -> Iterator[bytes]:
    start("200 OK", [])
    while part := environ["wsgi.input"].read1(65536):
        yield part


def digest(environ: Environ, start: StartResponse) -> list[bytes]:
    """Answer what came as JSON: its length, its hash and what the headers said of it."""
    hashed, length = hashlib.sha256(), 0
    while part := environ["wsgi.input"].read(65536):
        hashed.update(part)
        length += len(part)
    start("200 OK", [("Content-Type", "application/json")])
    told = {
        "length": length,
        "sha256": hashed.hexdigest(),
        "said": environ.get("CONTENT_LENGTH"),
        "chunked": environ.get("HTTP_TRANSFER_ENCODING"),
        "terminated": environ["wsgi.input_terminated"],
    }
    return [json.dumps(told).encode()]


def reset(connection: socket.socket) -> None:
    """Close a connection as a client does that was killed."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def raw(served: Running, request: bytes) -> bytes:
    """Return all that is answered to a request until the server closes the connection."""
    answer = b""
    with served.socket() as connection:
        connection.sendall(request)
        while part := connection.recv(65536):
            answer += part
    return answer


def test_a_page_arrives_with_its_status_and_headers() -> None:
    app = answering([b"hello"], ("Content-Length", "5"), ("X-A", " ö "), status="418 Whatever")
    with running(app) as served:
        connection = served.connect()
        connection.request("GET", "/")
        answer = connection.getresponse()

        assert answer.status == 418
        assert answer.read() == b"hello"
        assert answer.headers["X-A"] == "ö"
        assert "uvicorn" not in str(answer.headers)
        connection.close()


def test_flask_reads_json_and_answers_json() -> None:
    app = flask.Flask("test")

    @app.post("/api/<name>")
    def greet(name: str) -> dict[str, Any]:
        return {"name": name, "asked": flask.request.get_json(), "query": flask.request.args["q"]}

    with running(app) as served:
        connection = served.connect()
        body = json.dumps({"ä": [1]}).encode()
        connection.request(
            "POST", "/api/b%C3%A4r?q=%26", body, {"Content-Type": "application/json"}
        )

        told = json.load(connection.getresponse())
        connection.close()

    assert told == {"name": "bär", "asked": {"ä": [1]}, "query": "&"}


def test_the_environment_holds_what_was_sent() -> None:
    seen: Environ = {}

    def app(environ: Environ, start: StartResponse) -> list[bytes]:
        seen.update(environ)
        start("204 No Content", [])
        return []

    request = (
        b"GET /a%2Fb/%ff%20%C3%A4?x=%ff&y HTTP/1.1\r\nHost: here:1\r\nConnection: close\r\n"
        b"Cookie: a=1\r\nCookie: b=2\r\nX-Many: 1\r\nX-Many: 2\r\n"
        b"X_Many: spoofed\r\nContent_Length: 99\r\nContent-Type: text/x\r\n\r\n"
    )
    with running(app) as served:
        raw(served, request)

        assert seen["SERVER_PORT"] == str(served.port)
    wanted = {
        "REQUEST_METHOD": "GET",
        "SCRIPT_NAME": "",
        "PATH_INFO": "/a/b/\xff \xc3\xa4",
        "QUERY_STRING": "x=%ff&y",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "127.0.0.1",
        "CONTENT_TYPE": "text/x",
        "HTTP_HOST": "here:1",
        "HTTP_COOKIE": "a=1; b=2",
        "HTTP_X_MANY": "1,2",
        "wsgi.url_scheme": "http",
        "wsgi.multithread": True,
    }
    assert {name: seen.get(name) for name in wanted} == wanted
    assert "CONTENT_LENGTH" not in seen


@pytest.mark.parametrize("chunked", [False, True], ids=["with-its-length", "chunked"])
def test_a_large_upload_arrives_whole(*, chunked: bool) -> None:
    content = bytes(range(256)) * (LARGE // 256)
    with running(digest) as served:
        connection = served.connect()
        parts = (content[at : at + 100_000] for at in range(0, LARGE, 100_000))
        connection.request("POST", "/", parts if chunked else content, encode_chunked=chunked)
        told = json.load(connection.getresponse())
        connection.close()

    assert told == {
        "length": LARGE,
        "sha256": hashlib.sha256(content).hexdigest(),
        "said": None if chunked else str(LARGE),
        "chunked": None,
        "terminated": True,
    }


def test_a_length_that_contradicts_the_chunks_is_not_believed() -> None:
    request = (
        b"POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 3\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    )
    with running(digest) as served:
        answer = raw(served, request)

    assert b'"length": 5' in answer
    assert b'"said": null' in answer


def test_the_body_reads_as_a_file() -> None:
    lines: list[bytes] = []

    def app(environ: Environ, start: StartResponse) -> list[bytes]:
        body = environ["wsgi.input"]
        lines.extend([body.readline(), body.readline(3), body.readline(), body.read(2)])
        lines.extend([*body, body.read(), body.readline(), b"".join(body.readlines())])
        start("204 No Content", [])
        return []

    with running(app) as served:
        connection = served.connect()
        connection.request("POST", "/", b"first\nsecond\nthird\n\nlast")
        connection.getresponse()
        connection.close()

    assert lines == [
        *(b"first\n", b"sec", b"ond\n", b"th"),
        *(b"ird\n", b"\n", b"last", b"", b"", b""),
    ]


def test_what_the_app_makes_arrives_before_it_makes_more() -> None:
    go_on = threading.Event()

    def app(_: Environ, start: StartResponse) -> Iterator[bytes]:
        start("200 OK", [])
        yield b"one"
        assert go_on.wait(PATIENCE_S)
        yield b""
        yield b"two"

    with running(app) as served:
        connection = served.connect()
        connection.request("GET", "/")
        answer = connection.getresponse()

        assert answer.read(3) == b"one"
        go_on.set()
        assert answer.read() == b"two"
        connection.close()


def test_an_app_that_answers_while_it_reads_can() -> None:
    with running(echo) as served, served.socket() as connection:
        connection.sendall(b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
        answer = connection.makefile("rb")
        connection.sendall(b"3\r\none\r\n")
        while answer.readline() != b"\r\n":
            pass
        assert answer.read(8) == b"3\r\none\r\n"
        connection.sendall(b"3\r\ntwo\r\n")
        assert answer.read(8) == b"3\r\ntwo\r\n"
        connection.sendall(b"0\r\n\r\n")
        assert answer.read(5) == b"0\r\n\r\n"
        answer.close()


@pytest.mark.parametrize("leave", [socket.socket.close, reset], ids=["closes", "is-killed"])
def test_an_endless_answer_is_closed_when_its_client_leaves(
    leave: Callable[[socket.socket], None],
) -> None:
    parts = Closable(repeat(PART))
    with running(answering(parts)) as served:
        connection = served.socket()
        connection.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
        connection.recv(100_000)
        leave(connection)

        assert parts.closed.wait(PATIENCE_S)


def test_a_client_that_leaves_is_noticed_although_its_whole_body_stands_unread() -> None:
    parts = Closable(repeat(PART))
    with running(answering(parts)) as served:
        with served.socket() as connection:
            length = BUFFERED + 1
            connection.sendall(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % length)
            connection.sendall(b"x" * length)
            connection.recv(100_000)

        assert parts.closed.wait(PATIENCE_S)


def test_an_answer_that_waits_is_closed_at_its_next_part() -> None:
    left = threading.Event()

    def events() -> Iterator[bytes]:
        yield b"data: 1\n\n"
        assert left.wait(PATIENCE_S)
        while True:
            yield b": still here\n\n"

    parts = Closable(events())
    with running(answering(parts)) as served:
        with served.socket() as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            connection.recv(100_000)
        left.set()

        assert parts.closed.wait(PATIENCE_S)


def test_a_silent_answer_finds_out_by_empty_parts_and_sends_nothing_by_them() -> None:
    left = threading.Event()

    def events() -> Iterator[bytes]:
        yield b"data: 1\n\n"
        yield b""
        yield b"data: 2\n\n"
        assert left.wait(PATIENCE_S)
        while True:
            left.wait(0.01)
            yield b""

    parts = Closable(events())
    with running(answering(parts)) as served:
        with served.socket() as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
            received = b""
            while b"data: 2" not in received:
                received += connection.recv(100_000)
        left.set()

        assert parts.closed.wait(PATIENCE_S)
    assert b"0\r\n\r\n" not in received  # which would be the answer's end


def test_half_an_upload_is_never_taken_for_a_whole_one() -> None:
    raised: list[BaseException] = []
    began, done = threading.Event(), threading.Event()

    def app(environ: Environ, _: StartResponse) -> list[bytes]:
        began.set()
        try:
            return [environ["wsgi.input"].read()]
        except OSError as error:
            raised.append(error)
            raise
        finally:
            done.set()

    with running(app) as served:
        connection = served.socket()
        connection.sendall(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nhalf")
        assert began.wait(PATIENCE_S)
        connection.close()

        assert done.wait(PATIENCE_S)
    assert [type(error) for error in raised] == [ClientGoneError]


def test_flask_takes_a_client_that_left_for_a_client_that_left(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = flask.Flask("test")
    app.config["MAX_CONTENT_LENGTH"] = 1000
    began, done = threading.Event(), threading.Event()

    @app.post("/")
    def take() -> str:
        began.set()
        flask.request.get_data()
        raise AssertionError("half a body was read")

    app.teardown_request(lambda _: done.set())
    with running(app) as served:
        connection = served.socket()
        connection.sendall(b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nhalf")
        assert began.wait(PATIENCE_S)
        connection.close()
        assert done.wait(PATIENCE_S)

    assert caplog.text == ""


def test_a_slow_reader_slows_the_app_down() -> None:
    made = 0

    def parts() -> Iterator[bytes]:
        nonlocal made
        for _ in range(512):
            made += len(PART)
            yield PART

    total = 512 * len(PART)
    with running(parts_or_page(parts)) as served, served.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        connection.sendall(b"GET /parts HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        connection.recv(1)
        for _ in range(100):  # all the while the server has time
            assert served.get("/page") == b"page"

        assert made < total // 2
        while connection.recv(1 << 20):
            pass
        assert made == total


def parts_or_page(
    parts: Callable[[], Iterator[bytes]],
) -> Callable[[Environ, StartResponse], Iterable[bytes]]:
    def app(environ: Environ, start: StartResponse) -> Iterable[bytes]:
        start("200 OK", [])
        return parts() if environ["PATH_INFO"] == "/parts" else [b"page"]

    return app


def test_an_app_that_does_not_read_slows_the_upload_down() -> None:
    read_on = threading.Event()
    sent = 0

    def app(environ: Environ, start: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/page":
            start("200 OK", [])
            return [b"page"]
        environ["wsgi.input"].read(1)
        assert read_on.wait(PATIENCE_S)
        return digest(environ, start)

    def parts() -> Iterator[bytes]:
        nonlocal sent
        for _ in range(512):
            yield PART
            sent += len(PART)

    def upload(connection: http.client.HTTPConnection) -> None:
        connection.request("POST", "/", parts(), encode_chunked=True)

    with running(app) as served:
        connection = served.connect()
        sending = threading.Thread(target=upload, args=(connection,))
        sending.start()
        for _ in range(100):  # all the while the client has time
            assert served.get("/page") == b"page"

        assert sent < 512 * len(PART) // 2
        read_on.set()
        sending.join(PATIENCE_S)
        assert json.load(connection.getresponse())["length"] == 512 * len(PART) - 1
        connection.close()


@pytest.mark.parametrize(
    ("method", "status"), [("HEAD", "200 OK"), ("GET", "204 No Content"), ("GET", "304 Same")]
)
def test_an_answer_without_a_body_has_none_whatever_the_app_makes(method: str, status: str) -> None:
    parts = Closable(repeat(PART))
    with running(answering(parts, ("ETag", "x"), status=status)) as served:
        connection = served.connect()
        for _ in range(2):  # the second would read what is left of the first
            connection.request(method, "/")
            answer = connection.getresponse()

            assert answer.read() == b""
            assert answer.headers["ETag"] == "x"
        assert parts.closed.wait(PATIENCE_S)
        connection.close()


def test_head_tells_the_length_of_get() -> None:
    with running(answering([b"hello"], ("Content-Length", "5"))) as served:
        connection = served.connect()
        connection.request("HEAD", "/")
        answer = connection.getresponse()

        assert (answer.headers["Content-Length"], answer.read()) == ("5", b"")
        connection.close()


def fails_at_once(_: Environ, __: StartResponse) -> list[bytes]:
    raise LookupError("the reason")


def fails_before_the_first_part(_: Environ, start: StartResponse) -> Iterator[bytes]:
    start("200 OK", [])
    raise LookupError("the reason")
    yield b""


def raises_stop_iteration(_: Environ, __: StartResponse) -> list[bytes]:
    raise StopIteration("the reason")


def exits(_: Environ, __: StartResponse) -> list[bytes]:
    raise SystemExit("the reason")


def never_starts(_: Environ, __: StartResponse) -> list[bytes]:
    return [b"too soon"]


def starts_twice(_: Environ, start: StartResponse) -> list[bytes]:
    start("200 OK", [])
    start("200 OK", [])
    return []


@pytest.mark.parametrize(
    ("app", "logged"),
    [
        pytest.param(fails_at_once, "LookupError: the reason", id="at-once"),
        pytest.param(fails_before_the_first_part, "LookupError: the reason", id="generator"),
        pytest.param(raises_stop_iteration, "StopIteration: the reason", id="stop-iteration"),
        pytest.param(exits, "SystemExit: the reason", id="exit"),
        pytest.param(never_starts, "without calling start_response", id="no-start"),
        pytest.param(starts_twice, "start_response was called twice", id="two-starts"),
        pytest.param(
            answering([], ("X-A", "a\r\nSet-Cookie: b")),
            "Illegal header value",
            id="line-end-in-a-value",
        ),
        pytest.param(
            answering([], ("X-A\n", "a")),
            "Illegal header name",
            id="line-end-in-a-name",
        ),
        pytest.param(answering([], ("X-Ä", "a")), "Illegal header name", id="name"),
        pytest.param(answering([], ("X-A", "☃")), "UnicodeEncodeError", id="not-latin-1"),
        pytest.param(
            answering([], status="fine"),
            "invalid literal for int() with base 10: 'fine'",
            id="no-status",
        ),
        pytest.param(answering([], status="999 No"), "999 is not a valid HTTPStatus", id="status"),
    ],
)
def test_a_mistake_of_the_app_is_answered_in_the_one_shape(
    app: Callable[[Environ, StartResponse], Iterable[bytes]],
    logged: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with running(app) as served:
        connection = served.connect()
        for _ in range(2):  # the server lives on
            connection.request("GET", "/?token=secret")
            answer = connection.getresponse()
            told = json.load(answer)

            assert answer.status == 500
            assert answer.headers["Content-Type"] == "application/json"
            assert set(told) == {"error", "error_description", "hint", "problems"}
            assert told["error"] == "internal_error"
            assert "reason" not in str(told)
        connection.close()

    assert logged in caplog.text
    assert "Traceback" in caplog.text
    assert "secret" not in caplog.text


def test_a_mistake_in_the_middle_breaks_the_answer_off(caplog: pytest.LogCaptureFixture) -> None:
    def parts() -> Iterator[bytes]:
        yield b"one"
        raise LookupError("the reason")

    made = Closable(parts())
    with running(answering(made)) as served:
        connection = served.connect()
        connection.request("GET", "/")
        answer = connection.getresponse()

        with pytest.raises(http.client.IncompleteRead):
            answer.read()
        assert made.closed.wait(PATIENCE_S)
        connection.close()
    assert "LookupError: the reason" in caplog.text


@pytest.mark.parametrize("length", ["4", "6"])
def test_a_length_that_is_not_the_bodys_breaks_the_answer_off(
    length: str, caplog: pytest.LogCaptureFixture
) -> None:
    parts = Closable([b"fi", b"ve!"])
    with running(answering(parts, ("Content-Length", length))) as served:
        answer = raw(served, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")

        assert parts.closed.wait(PATIENCE_S)
    assert answer.partition(b"\r\n\r\n")[2] in {b"fi", b"five!"}
    assert "declared Content-Length" in caplog.text


def test_an_app_may_change_its_answer_until_it_has_left() -> None:
    def app(environ: Environ, start: StartResponse) -> Iterator[bytes]:
        start("200 OK", [("X-A", "first")])
        yield b"gone" if environ["PATH_INFO"] == "/late" else b""
        try:
            raise LookupError("the reason")
        except LookupError:
            start("400 Bad Request", [], sys.exc_info())
        yield b"sorry"

    with running(app) as served:
        connection = served.connect()
        connection.request("GET", "/")
        answer = connection.getresponse()

        assert (answer.status, answer.headers["X-A"]) == (400, None)
        assert answer.read() == b"sorry"
        connection.request("GET", "/late")
        with pytest.raises(http.client.IncompleteRead):
            connection.getresponse().read()
        connection.close()


def test_an_app_may_write_before_it_returns() -> None:
    def app(_: Environ, start: StartResponse) -> list[bytes]:
        write = start("200 OK", [])
        write(b"one ")
        write(b"two ")
        return [b"three"]

    with running(app) as served:
        assert served.get() == b"one two three"


def test_a_connection_is_kept_after_a_body_that_nobody_read() -> None:
    with running(answering([b"no"], ("Content-Length", "2"), status="403 No")) as served:
        connection = served.connect()
        connection.connect()
        own_port = connection.sock.getsockname()[1]
        for _ in range(3):
            connection.request("POST", "/", b"x" * (8 * BUFFERED))
            assert connection.getresponse().read() == b"no"
        assert connection.sock.getsockname()[1] == own_port
        connection.close()


def test_a_client_that_asks_whether_to_send_is_told_by_the_first_reading() -> None:
    def app(environ: Environ, start: StartResponse) -> list[bytes]:
        if environ["PATH_INFO"] == "/take":
            return digest(environ, start)
        start("413 Too Large", [("Content-Length", "0")])
        return []

    request = b"POST %s HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
    with running(app) as served:
        with served.socket() as connection:
            connection.sendall(request % b"/take")
            assert connection.recv(1000).startswith(b"HTTP/1.1 100 ")
            connection.sendall(b"hello")
            assert connection.recv(1000).startswith(b"HTTP/1.1 200 ")
        with served.socket() as connection:
            connection.sendall(request % b"/refuse")
            assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")


def test_more_requests_than_threads_are_all_answered() -> None:
    most, meeting = 4, threading.Barrier(4, timeout=PATIENCE_S)
    lock, inside, seen = threading.Lock(), 0, 0

    def app(_: Environ, start: StartResponse) -> list[bytes]:
        nonlocal inside, seen
        with lock:
            inside += 1
            seen = max(seen, inside)
        meeting.wait()  # only four at a time get past
        with lock:
            inside -= 1
        start("200 OK", [])
        return [b"met"]

    answers: list[bytes] = []
    with running(app, threads=most) as served:
        asking = [
            threading.Thread(target=lambda: answers.append(served.get())) for _ in range(5 * most)
        ]
        for one in asking:
            one.start()
        for one in asking:
            one.join(PATIENCE_S)

    assert answers == [b"met"] * (5 * most)
    assert seen == most
