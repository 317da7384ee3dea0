"""Hosts that answer an HTTP tool too slowly or too much: the call ends, and its chat keeps working."""

import gzip
import socket
import tracemalloc
from collections.abc import Iterator

import pytest

from covalt_git.http_client import ClientRequest as HttpRequest
from tests.calls.conftest import World, make_world
from tests.calls.test_http_calls import call, check
from tests.examples import rest
from tests.http_client.test_client import client, failure, get
from tests.http_tools.upstream import Upstream, answering

HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n"
DRIPS = [
    pytest.param(HEAD, b"X-A: b\r\n", id="headers"),
    rest(HEAD + b"Content-Length: 999999\r\n\r\n", b"x", id="body"),
    rest(HEAD + b"\r\n", b"x", id="body-without-a-length"),
    pytest.param(CHUNKED + b"\r\n", b"1\r\nx\r\n", id="chunks"),
    rest(CHUNKED + b"\r\n1;", b"x", id="extension-of-a-chunk"),
    rest(CHUNKED + b"\r\n0\r\n", b"X-A: b\r\n", id="trailers"),
    rest(b"", b"HTTP/1.1 102 Processing\r\n\r\n", id="interim-answers"),
    pytest.param(
        CHUNKED + b"Content-Encoding: gzip\r\n\r\n4\r\n\x1f\x8b\x08\x08\r\n6\r\n\0\0\0\0\0\0\r\n",
        b"1\r\nx\r\n",
        id="packed-and-nothing-in-it",
    ),
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, served: Upstream) -> Iterator[World]:
    """A world of the module; after all tests its chat still works."""
    made = make_world(tmp_path_factory.mktemp("slow") / "project")
    yield made
    check(made, served)


@pytest.mark.parametrize(("answer", "drip"), DRIPS)
def test_answer_that_never_ends_ends_with_the_time_limit(
    shared: World, answer: bytes, drip: bytes
) -> None:
    """Hold a chat's lock by a host that sends one more piece before each wait ends."""
    with answering(answer, hold=True, drip=drip) as port:
        url = f"http://127.0.0.1:{port}/"
        made = call(
            shared, f"url: {url}\nretries: 3", f"127.0.0.1:{port}", limits="{timeout_s: 0.4}"
        )

    assert made.error.partition(":")[0] == "limit_time"


def test_upload_that_is_not_read_ends_with_the_time_limit() -> None:
    """Delay a call by a host that accepts the connection and never reads the request."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = f"127.0.0.1:{deaf.getsockname()[1]}"
        request = HttpRequest("POST", f"http://{address}/", content=b"x" * (32 << 20))
        error = failure(client(address), request, seconds=0.3)

    assert error.code == "timed_out"


@pytest.mark.parametrize("times", [1, 2])
def test_packed_answer_takes_no_more_memory_than_its_limit(times: int) -> None:
    """Fill the memory by an answer of a few bytes that unpack to 24 MiB, also packed twice."""
    packed, encodings = b"\0" * (24 << 20), ", ".join(["gzip"] * times)
    for _ in range(times):
        packed = gzip.compress(packed)
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {encodings}\r\nContent-Length: {len(packed)}\r\n"
    with answering(head.encode() + b"\r\n" + packed) as port:
        tracemalloc.start()
        try:
            error = failure(
                client(f"127.0.0.1:{port}", most=1 << 20), get(f"http://127.0.0.1:{port}/")
            )
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert error.code == "output_too_large"
    assert peak < 16 << 20
