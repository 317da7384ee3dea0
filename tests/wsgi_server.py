"""A WSGI app on a port of this machine, in a thread."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from werkzeug.serving import WSGIRequestHandler, make_server

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

    from _typeshed.wsgi import WSGIApplication


class _Quiet(WSGIRequestHandler):
    def log(self, *_: Any, **__: Any) -> None:
        """Print nothing."""

    def make_environ(self) -> Any:
        """Add the headers as they were sent: WSGI drops those with ``_``."""
        return super().make_environ() | {"RAW_HEADERS": self.headers.items()}


@contextmanager
def listening(
    app: WSGIApplication, *, tls: ssl.SSLContext | None = None, port: int = 0
) -> Iterator[int]:
    """Serve an app until the block ends, and yield its port, which is a free one by default."""
    server = make_server(
        "127.0.0.1", port, app, threaded=True, request_handler=_Quiet, ssl_context=tls
    )
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
