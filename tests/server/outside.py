"""Another server on this machine, which notes everything that ever reaches it."""

import http.server
import socket
import threading
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self


@dataclass
class Arrived:
    """One request: its method, the path with its query, and the headers that identify the client."""

    method: str
    path: str
    headers: dict[str, str]


@dataclass
class Outside:
    """A server of pages, and a second port for datagrams."""

    requests: list[Arrived] = field(default_factory=list)
    datagrams: int = 0
    pages: dict[str, tuple[dict[str, str], bytes]] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.outside = self
        self._datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._datagrams.bind(("127.0.0.1", 0))
        self._threads = [
            threading.Thread(target=work) for work in (self._server.serve_forever, self._receive)
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", self._datagrams.getsockname())
        for thread in self._threads:
            thread.join()
        self._datagrams.close()

    @property
    def port(self) -> int:
        return self._server.server_port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def stun(self) -> str:
        """A host and port where only datagrams are noted."""
        return f"127.0.0.1:{self._datagrams.getsockname()[1]}"

    def _receive(self) -> None:
        while self._datagrams.recv(2048):
            self.datagrams += 1


class _Server(http.server.ThreadingHTTPServer):
    outside: Outside

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes away in the middle is no news."""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        outside = self.server.outside
        arrived = Arrived(self.command, self.path, {**self.headers})
        path = self.path.partition("?")[0]
        headers, content = outside.pages.get(path, ({"Content-Type": "text/javascript"}, b""))
        unsigned = path.endswith(".sig") and path not in outside.pages
        self.send_response(404 if unsigned else 200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Access-Control-Allow-Origin", "*")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
        outside.requests.append(arrived)

    do_HEAD = do_POST = do_OPTIONS = do_GET  # noqa: N815 - the names that http.server calls

    def log_message(self, *_: Any) -> None:
        """Stay silent."""
