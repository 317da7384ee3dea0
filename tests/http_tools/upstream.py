"""A third-party host: a Flask application in a thread, and a socket with configured answers."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from flask import Flask, Response, jsonify, redirect, request

from tests.wsgi_server import listening

PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452") + b"\0" * 64


@dataclass
class Upstream:
    """A running host: its port, the requests that came, and how often each path was asked for."""

    port: int = 0
    seen: list[dict[str, Any]] = field(default_factory=list)
    times: dict[str, int] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def forget(self) -> None:
        """Forget the requests of other tests."""
        self.seen.clear()
        self.times.clear()

    @property
    def last(self) -> dict[str, Any]:
        return self.seen[-1]


@contextlib.contextmanager
def upstream(tls: ssl.SSLContext | None = None) -> Iterator[Upstream]:
    """Serve until the block ends."""
    made = Upstream()
    with listening(_app(made), tls=tls) as made.port:
        yield made


@pytest.fixture(scope="module")
def there() -> Iterator[Upstream]:
    """A third-party host, for the tests of a module."""
    with upstream() as made:
        yield made


_TLS = b"\x16"
"""What a client that wants TLS says first, and waits; a server without it answers that as anything else."""


@contextlib.contextmanager
def answering(*answers: bytes, hold: bool = False, drip: bytes = b"") -> Iterator[int]:
    """Give each connection the next of the answers, byte for byte; ``hold`` leaves them open after it.

    An open connection is sent ``drip`` again and again, with pauses.  Yields the port.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.05)
    over = threading.Event()
    held: list[socket.socket] = []

    def serve() -> None:
        waiting = list(answers)
        while not over.is_set():
            with contextlib.suppress(TimeoutError):
                connection, _ = listener.accept()
                connection.settimeout(5)
                with contextlib.suppress(OSError):
                    told = b""
                    while not told.endswith(b"\r\n\r\n") and not told.startswith(_TLS):
                        told = connection.recv(65536)
                    connection.sendall(waiting.pop(0) if len(waiting) > 1 else waiting[0])
                if hold:
                    held.append(connection)
                else:
                    connection.close()
            for one in held:
                with contextlib.suppress(OSError):
                    one.sendall(drip)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        over.set()
        thread.join()
        for one in (listener, *held):
            one.close()


def _app(made: Upstream) -> Flask:
    app = Flask("upstream")

    @app.before_request
    def remember() -> None:
        made.times[request.path] = made.times.get(request.path, 0) + 1
        made.seen.append(
            {
                "method": request.method,
                "path": request.path,
                "raw": request.environ["RAW_URI"],
                "query": request.args.to_dict(flat=False),
                "headers": {key.lower(): value for key, value in request.headers.items()},
                "cookies": request.cookies.to_dict(),
                "body": request.get_data(),
                "form": request.form.to_dict(flat=False),
                "files": [
                    (key, one.filename, one.mimetype, one.read())
                    for key, one in request.files.items(multi=True)
                ],
            }
        )

    @app.route("/echo", defaults={"rest": ""}, methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
    @app.route("/echo/<path:rest>", methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
    def echo(**_: str) -> Response:
        one = made.last
        shown = {key: one[key] for key in ("method", "path", "query", "headers", "cookies")}
        return jsonify(shown | {"body": one["body"].decode("utf-8", "replace")})

    @app.get("/status/<int:code>")
    def status(code: int) -> Response:
        return Response("", code)

    @app.get("/json-error")
    def json_error() -> tuple[Response, int]:
        return jsonify(error={"code": 7, "message": "no such city"}), 404

    @app.get("/html-error")
    def html_error() -> tuple[str, int]:
        page = "<html><head><title>Oops</title><style>p{}</style></head><body><p>It &amp; broke</p>"
        return page, 500

    @app.get("/leak")
    def leak() -> tuple[Response, int]:
        return jsonify(message=f"bad key {request.headers.get('X-Key')}"), 403

    @app.get("/blob")
    def blob() -> Response:
        key = request.headers["X-Key"]
        named = {"Content-Disposition": f'attachment; filename="{key}.bin"'}
        return Response(b"\0" + key.encode() + b"\xff", content_type="a/b", headers=named)

    @app.get("/busy/<int:times>")
    def busy(times: int) -> Response | tuple[str, int, dict[str, str]]:
        if made.times[request.path] <= times:
            return "later", 429, {"Retry-After": request.args.get("after", "7")}
        return jsonify(times=made.times[request.path])

    @app.get("/big")
    def big() -> Response:
        return Response((b"x" * (1 << 16) for _ in range(1 << 12)), mimetype="text/plain")

    @app.get("/brotli")
    def brotli() -> Response:
        return Response(b"\x0b\x02", headers={"Content-Encoding": "br"}, mimetype="text/plain")

    @app.route("/to", methods=["GET", "POST", "PUT", "HEAD"])
    @app.route("/deep/to", methods=["GET"])
    def to() -> Response:
        found = redirect(request.args["url"], int(request.args.get("code", "302")))
        assert isinstance(found, Response)
        found.set_cookie("session", "abc")
        return found

    @app.get("/loop")
    def loop() -> Response:
        return Response("", 302, headers={"Location": "/loop"})

    @app.get("/files/<name>")
    def files(**_: str) -> Response:
        headers = {}
        if "as" in request.args:
            headers["Content-Disposition"] = request.args["as"]
        media_type = request.args.get("type", "image/png")
        return Response(PNG, content_type=media_type, headers=headers)

    @app.get("/typed")
    def typed() -> Response:
        return Response(
            bytes.fromhex(request.args["hex"]), content_type=request.args.get("type") or None
        )

    return app
