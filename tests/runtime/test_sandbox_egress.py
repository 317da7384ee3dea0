"""Egress proxy of a sandbox: only granted hosts can be reached."""

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from http.client import HTTPConnection
from typing import Any

import pytest

from covalt_git.runtime.egress import Egress
from tests.http_tools.upstream import Upstream, there
from tests.runtime.conftest import Workshop
from tests.runtime.in_sandbox import needs_full, needs_landlock

__all__ = ["there"]


Opened = Callable[..., tuple[Egress, tuple[str, int]]]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Open a proxy as a sandbox would; return it and its address."""
    with ExitStack() as stack:

        def open_(*hosts: str, addresses: Sequence[str] = ("127.0.0.1",)) -> Any:
            egress = Egress(hosts, resolve=lambda _host, _port: addresses)
            stack.callback(egress.close)
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            with socket.socket(fileno=os.dup(egress.descriptor)) as end:
                egress.hand_over()
                socket.send_fds(end, [b"1"], [listener.fileno()])
            return egress, listener.getsockname()

        yield open_


def said(proxy: tuple[str, int], request: str) -> str:
    """Return all that a proxy answers to a request."""
    with socket.create_connection(proxy, timeout=10) as end:
        end.sendall(request.encode())
        found = b""
        while chunk := end.recv(65536):
            found += chunk
        return found.decode()


def test_request_in_absolute_form_goes_to_the_host_that_it_names(
    opened: Opened, there: Upstream
) -> None:
    _, proxy = opened(there.url)

    said(
        proxy,
        f"GET {there.url}/echo/a?b=c#d HTTP/1.1\r\nHost: elsewhere.example\r\n"
        "Proxy-Connection: keep-alive\r\n\r\n",
    )

    assert there.last["raw"] == "/echo/a?b=c"
    assert there.last["headers"] == {"host": there.address, "connection": "close"}


@pytest.mark.parametrize("is_tunnel", [False, True])
def test_body_goes_along(opened: Opened, there: Upstream, *, is_tunnel: bool) -> None:
    _, proxy = opened(there.address if is_tunnel else there.url)
    connection = HTTPConnection(*proxy, timeout=10)
    if is_tunnel:
        connection.set_tunnel("127.0.0.1", there.port)

    connection.request("POST", f"{'' if is_tunnel else there.url}/echo", body="x" * 200_000)

    assert connection.getresponse().status == 200
    assert there.last["body"] == b"x" * 200_000
    connection.close()


@pytest.mark.parametrize(
    ("request_", "status", "why"),
    [
        ("CONNECT other.example:443 HTTP/1.1", 403, "https://other.example was not granted"),
        ("CONNECT good.example:8443 HTTP/1.1", 403, "https://good.example:8443 was not granted"),
        ("CONNECT evil.good.example:443 HTTP/1.1", 403, "was not granted"),
        ("GET http://good.example/ HTTP/1.1", 403, "http://good.example was not granted"),
        ("CONNECT good.example:443 HTTP/1.1", 403, "good.example resolves to 10.0.0.1"),
        ("CONNECT 169.254.169.254:80 HTTP/1.1", 403, "was not granted"),
        ("CONNECT good.example HTTP/1.1", 400, "a tunnel goes to HOST:PORT"),
        ("CONNECT good.example:0 HTTP/1.1", 400, "a tunnel goes to HOST:PORT"),
        ("CONNECT a@good.example:443 HTTP/1.1", 400, "a tunnel goes to HOST:PORT"),
        ("CONNECT 0x7f.1:443 HTTP/1.1", 400, "ambiguous form of an IPv4 address"),
        ("GET / HTTP/1.1", 400, "is not an http or https URL"),
        ("GET https://good.example/ HTTP/1.1", 400, "https goes through a tunnel"),
        ("GET http://good.example\\@other.example/ HTTP/1.1", 400, "is not an http or https"),
        ("what", 400, "this is no request to a proxy"),
    ],
)
def test_what_was_not_granted_is_refused_with_the_reason(
    opened: Opened, request_: str, status: int, why: str
) -> None:
    _, proxy = opened("good.example", addresses=("10.0.0.1",))

    answer = said(proxy, f"{request_}\r\n\r\n")

    assert answer.startswith(f"HTTP/1.1 {status} ")
    assert why in answer


def test_name_is_refused_when_one_of_its_addresses_is_kept(opened: Opened) -> None:
    _, proxy = opened("good.example", addresses=("1.1.1.1", "127.0.0.1"))

    answer = said(proxy, "CONNECT good.example:443 HTTP/1.1\r\n\r\n")

    assert "good.example resolves to 127.0.0.1, which is this machine" in answer


def test_head_without_end_is_cut(opened: Opened) -> None:
    _, proxy = opened("good.example")
    answer = said(proxy, "GET http://good.example/ HTTP/1.1\r\nA: " + "x" * 70_000)

    assert answer.startswith("HTTP/1.1 400 ")


def test_closed_proxy_ends_its_connections(opened: Opened, there: Upstream) -> None:
    egress, proxy = opened(there.address)
    with socket.create_connection(proxy, timeout=10) as connection:
        connection.sendall(f"CONNECT {there.address} HTTP/1.1\r\n\r\n".encode())
        assert connection.recv(12) == b"HTTP/1.1 200"

        egress.close()

        while connection.recv(4096):
            pass


ASK = """
import json, socket, urllib.error, urllib.request

def run(url: str, port: int) -> list[str]:
    found = []
    try:
        found.append(json.load(urllib.request.urlopen(url, timeout=20))["headers"]["host"])
    except urllib.error.HTTPError as error:
        found.append(f"{error.code} {error.read().decode().strip()}")
    except urllib.error.URLError as error:
        found.append(type(error.reason).__name__)
    try:
        socket.create_connection(("127.0.0.1", port), timeout=2)
    except OSError as error:
        found.append(error.strerror)
    return found
"""


@needs_full
def test_tool_reaches_what_was_granted_and_nothing_else(
    workshop: Workshop, there: Upstream
) -> None:
    args = {"url": f"{there.url}/echo", "port": there.port}
    expected: dict[tuple[str, ...], str] = {
        (there.url,): there.address,
        ("http://127.0.0.1:1",): f"403 covalt-git: {there.url} was not granted to this toolset",
        (): "ConnectionRefusedError",
    }

    for hosts, answer in expected.items():
        outcome = workshop.run(ASK, hosts=hosts, args=args, warm=True, level="full")
        assert outcome.result == [answer, "Connection refused"]


@needs_landlock
def test_tool_at_landlock_has_no_network_whatever_was_granted(
    workshop: Workshop, there: Upstream
) -> None:
    args = {"url": f"{there.url}/echo", "port": there.port}
    outcome = workshop.run(ASK, hosts=(there.url,), args=args, level="landlock")

    assert outcome.result == ["PermissionError", "Operation not permitted"]
