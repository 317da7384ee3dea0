"""Another server on this machine, which notes everything that ever reaches it."""

import socket
import threading
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from werkzeug.datastructures import EnvironHeaders, Headers

from tests.wsgi_server import listening


class Arrived(NamedTuple):
    """One request: its path with the query, and its headers."""

    path: str
    headers: Headers


@dataclass
class Outside:
    """A server of pages, and a second port for datagrams."""

    requests: list[Arrived] = field(default_factory=list)
    datagrams: int = 0
    pages: dict[str, tuple[dict[str, str], bytes]] = field(default_factory=dict)

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            self.port = opened.enter_context(listening(self._answer))
            self._datagrams = opened.enter_context(socket.socket(type=socket.SOCK_DGRAM))
            self._datagrams.bind(("127.0.0.1", 0))
            thread = threading.Thread(target=self._receive)
            thread.start()
            opened.callback(thread.join)
            opened.callback(self._datagrams.sendto, b"", self._datagrams.getsockname())
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._opened.close()

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

    def _answer(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        target = environ["REQUEST_URI"]
        path = target.partition("?")[0]
        headers, content = self.pages.get(path, ({"Content-Type": "text/javascript"}, b""))
        unsigned = path.endswith(".sig") and path not in self.pages
        sent = headers | {"Access-Control-Allow-Origin": "*", "Content-Length": str(len(content))}
        start("404 Not Found" if unsigned else "200 OK", [*sent.items()])
        self.requests.append(Arrived(target, Headers(EnvironHeaders(environ))))
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [content]
