"""A small app on a real server: our uvicorn in a thread, listening on a port of its own."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covalt_git.models.project_config import ServerConfig
from covalt_git.serving.body_timeout import TIMEOUT_S, BodyTimeout
from covalt_git.serving.listen_socket import listen
from covalt_git.serving.router import router
from covalt_git.serving.uvicorn_server import Server
from covalt_git.serving.wsgi_bridge import THREADS, WSGIBridge

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication
    from starlette.types import ASGIApp

PATIENCE_S = 30
"""How long a test waits for what must happen before it fails."""


@dataclass(frozen=True)
class Running:
    """A server that answers."""

    port: int
    server: Server
    thread: threading.Thread

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)

    def socket(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def get(self, path: str = "/") -> bytes:
        connection = self.connect()
        try:
            connection.request("GET", path)
            return connection.getresponse().read()
        finally:
            connection.close()

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()


@contextmanager
def running(
    wsgi: WSGIApplication,
    *,
    threads: int = THREADS,
    places: Mapping[str, ASGIApp] | None = None,
    grace_s: int = 0,
    timeout_s: float = TIMEOUT_S,
) -> Iterator[Running]:
    """Serve a WSGI app until the block ends; requests that still run then are hung up on."""
    listener = listen(ServerConfig(), host=None, port=0)
    ready = threading.Event()
    faces = router(WSGIBridge(wsgi, threads=threads), places or {})
    app = BodyTimeout(faces, timeout_s=timeout_s)
    server = Server(app, ready.set, grace_s=grace_s, timeout_s=timeout_s)
    thread = threading.Thread(target=server.run, args=([listener.socket],))
    thread.start()
    try:
        assert ready.wait(PATIENCE_S)
        served = Running(listener.port, server, thread)
        yield served
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)
        listener.socket.close()
    assert not thread.is_alive()
