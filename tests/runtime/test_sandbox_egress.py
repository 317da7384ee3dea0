"""Egress proxy of a sandbox: only granted hosts can be reached."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from covalt_git.runtime.egress import Egress
from tests.runtime.conftest import Workshop
from tests.runtime.in_sandbox import Yard, needs_full, needs_landlock, yard

__all__ = ["yard"]


class Upstream(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.answer(f"{self.path} for {self.headers['Host']} {self.headers['Connection']}")

    def do_POST(self) -> None:
        self.answer(self.rfile.read(int(self.headers["Content-Length"])).decode())

    def answer(self, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def upstream() -> Iterator[int]:
    """A server on this machine; its port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Upstream) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


Opened = Callable[..., tuple[str, int]]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Open ways out, as a room's process would, and return the proxy's address."""
    kept: list[Egress] = []
    listeners: list[socket.socket] = []

    def open_(*hosts: str, addresses: Sequence[str] = ("127.0.0.1",)) -> tuple[str, int]:
        egress = Egress(hosts, resolve=lambda _host, _port: addresses)
        listener = socket.create_server(("127.0.0.1", 0))
        with socket.socket(fileno=os.dup(egress.descriptor)) as end:
            egress.hand_over()
            socket.send_fds(end, [b"1"], [listener.fileno()])
        kept.append(egress)
        listeners.append(listener)
        name: tuple[str, int] = listener.getsockname()
        return name

    yield open_

    for egress in kept:
        egress.close()
    for listener in listeners:
        listener.close()


def said(proxy: tuple[str, int], request: str) -> str:
    """Return all that a proxy answers to a request."""
    with socket.create_connection(proxy, timeout=10) as end:
        end.sendall(request.encode())
        found = b""
        while chunk := end.recv(65536):
            found += chunk
        return found.decode()


def test_request_in_absolute_form_goes_to_the_host_that_it_names(
    opened: Opened, upstream: int
) -> None:
    proxy = opened(f"http://127.0.0.1:{upstream}")

    answer = said(
        proxy,
        f"GET http://127.0.0.1:{upstream}/a?b=c#d HTTP/1.1\r\nHost: elsewhere.example\r\n"
        "Proxy-Connection: keep-alive\r\n\r\n",
    )

    assert answer.startswith("HTTP/1.0 200 OK\r\n")
    assert answer.endswith(f"/a?b=c for 127.0.0.1:{upstream} close")


def test_body_goes_along(opened: Opened, upstream: int) -> None:
    proxy = opened(f"http://127.0.0.1:{upstream}")
    connection = HTTPConnection(*proxy, timeout=10)

    connection.request("POST", f"http://127.0.0.1:{upstream}/", body="x" * 200_000)

    assert connection.getresponse().read() == b"x" * 200_000
    connection.close()


def test_tunnel_carries_what_both_sides_say(opened: Opened, upstream: int) -> None:
    proxy = opened(f"127.0.0.1:{upstream}")
    connection = HTTPConnection(*proxy, timeout=10)
    connection.set_tunnel("127.0.0.1", upstream)

    connection.request("GET", "/through")

    assert connection.getresponse().read().startswith(b"/through for 127.0.0.1")
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
    proxy = opened("good.example", addresses=("10.0.0.1",))

    answer = said(proxy, f"{request_}\r\n\r\n")

    assert answer.startswith(f"HTTP/1.1 {status} ")
    assert why in answer


def test_name_is_refused_when_one_of_its_addresses_is_kept(opened: Opened) -> None:
    proxy = opened("good.example", addresses=("1.1.1.1", "127.0.0.1"))

    answer = said(proxy, "CONNECT good.example:443 HTTP/1.1\r\n\r\n")

    assert "good.example resolves to 127.0.0.1, which is this machine" in answer


def test_head_without_end_is_cut(opened: Opened) -> None:
    answer = said(opened("good.example"), "GET http://good.example/ HTTP/1.1\r\nA: " + "x" * 70_000)

    assert answer.startswith("HTTP/1.1 400 ")


def test_closed_proxy_ends_its_connections(upstream: int) -> None:
    egress = Egress([f"127.0.0.1:{upstream}"])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with socket.socket(fileno=os.dup(egress.descriptor)) as end:
            egress.hand_over()
            socket.send_fds(end, [b"1"], [listener.fileno()])
        with socket.create_connection(listener.getsockname(), timeout=10) as connection:
            connection.sendall(f"CONNECT 127.0.0.1:{upstream} HTTP/1.1\r\n\r\n".encode())
            assert connection.recv(12) == b"HTTP/1.1 200"

            egress.close()

            while connection.recv(4096):
                pass


OPEN = """
from covalt_git.runtime.egress import Egress
egress = Egress({hosts!r})
policy = policy._replace(hosts=tuple({hosts!r}), egress=egress.descriptor)
"""
ASK = """
import urllib.request, urllib.error
for url in {urls!r}:
    try:
        print(urllib.request.urlopen(url, timeout=10).read().decode())
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode().strip())
    except urllib.error.URLError as error:
        print(type(error.reason).__name__)
"""


@needs_full
def test_tool_reaches_what_was_granted_and_nothing_else(yard: Yard, upstream: int) -> None:
    granted, other = f"http://127.0.0.1:{upstream}", "http://127.0.0.1:1"
    done = yard.run(
        "full",
        ASK.format(urls=[f"{granted}/hello", f"{other}/"])
        + "import socket\n"
        + f"try:\n    socket.create_connection(('127.0.0.1', {upstream}), timeout=2)\n"
        + "except OSError as error:\n    print('directly:', error.strerror)\n",
        before=OPEN.format(hosts=[granted]),
        meanwhile="egress.hand_over()",
    )

    assert done.output.splitlines() == [
        f"/hello for 127.0.0.1:{upstream} close",
        f"403 covalt-git: {other} was not granted to this toolset",
        "directly: Connection refused",
    ], done.errors


@needs_full
@pytest.mark.parametrize("warm", [False, True])
def test_a_call_reaches_the_hosts_that_were_granted_for_it(
    workshop: Workshop, upstream: int, *, warm: bool
) -> None:
    url = f"http://127.0.0.1:{upstream}"
    body = f"""
        import urllib.error, urllib.request

        def run() -> str:
            try:
                return urllib.request.urlopen("{url}/", timeout=20).read().decode()
            except urllib.error.URLError:
                return "refused"
    """
    hosts: list[tuple[str, ...]] = [(url,), ("http://127.0.0.1:1",), ()]
    found = [workshop.run(body, hosts=one, warm=warm, level="full").result for one in hosts]

    assert found == [f"/ for 127.0.0.1:{upstream} close", "refused", "refused"]


@needs_landlock
def test_tool_at_landlock_has_no_network_whatever_was_granted(yard: Yard, upstream: int) -> None:
    granted = f"http://127.0.0.1:{upstream}"
    done = yard.run(
        "landlock",
        ASK.format(urls=[f"{granted}/hello"]),
        before=OPEN.format(hosts=[granted]),
        meanwhile="egress.hand_over()",
    )

    assert done.output == "PermissionError\n"
