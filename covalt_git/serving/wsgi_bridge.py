"""Bridge that runs a WSGI app (PEP 3333), here Flask, on an ASGI server.

Each request runs in a thread, and both bodies are streamed with back pressure, so that neither a large upload
nor a slow reader fills the memory.  When the client disconnects, or the server stops, the app's next read or
write raises, and its response is closed, as PEP 3333 requires.  A response without output notices a
disconnect by yielding an empty part.  A disconnect is noticed late if more than ``BUFFERED`` bytes of the
request are unread.

The app limits the size of a request, and :mod:`.body_timeout` its time.
"""

from __future__ import annotations

import asyncio
import io
import sys
import threading
from concurrent.futures import CancelledError
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote_to_bytes

import h11

from covalt_git.errors import ClientGoneError, InternalError
from covalt_git.serving.error_answer import CLOSE, send_error
from covalt_git.system.daemon_thread import in_daemon_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from concurrent.futures import Future
    from types import TracebackType

    from _typeshed import WriteableBuffer
    from _typeshed.wsgi import WSGIApplication
    from starlette.types import Message, Receive, Scope, Send

    ExcInfo = tuple[type[BaseException], BaseException, TracebackType]
    OptExcInfo = ExcInfo | tuple[None, None, None]

_T = TypeVar("_T")

THREADS = 32
"""Maximum number of concurrent requests."""

BUFFERED = 256 * 1024
"""Bytes of a request's body that are read before the app requests them."""

_READ_BYTES = 64 * 1024
_BODILESS = {204, 304}


class WSGIBridge:
    """ASGI app that runs a WSGI app in at most ``threads`` threads; further requests wait."""

    def __init__(self, app: WSGIApplication, *, threads: int = THREADS) -> None:
        self._app = app
        self._slots = asyncio.Semaphore(threads)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request.

        An exception of the app is raised here, so that the server logs it and closes the connection.  If the
        response has not started, an error response is sent first.
        """
        exchange = _Exchange(receive, send)
        response = _Response(exchange, head=scope["method"] == "HEAD")
        try:
            async with self._slots:
                # An app that never returns must not keep the process alive after Ctrl-C, as a thread of an
                # executor would (test_an_app_that_is_stuck_does_not_delay_the_end).
                await in_daemon_thread(lambda: self._run(scope, exchange, response), "worker")
        except ClientGoneError:
            pass
        except BaseException as error:
            if not response.has_started and not isinstance(error, asyncio.CancelledError):
                await send_error(send, InternalError(), CLOSE)
            raise
        finally:
            exchange.end()

    def _run(self, scope: Scope, exchange: _Exchange, response: _Response) -> None:
        parts = self._app(_environ(scope, exchange), response.start)
        try:
            response.send(parts)
        finally:
            if close := getattr(parts, "close", None):
                close()


class _Exchange:
    """``receive`` and ``send`` of a request, for the app's thread.

    The thread calls ``read``, ``write`` and ``check``, one at a time; the loop calls all other methods.
    """

    def __init__(self, receive: Receive, send: Send) -> None:
        self._loop = asyncio.get_running_loop()
        self._receive = receive
        self._send = send
        self._unread = bytearray()
        self._complete = False
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._receiving: asyncio.Task[None] | None = None
        self._lock = threading.Lock()
        self._pending: Future[Any] | None = None
        self._over = False

    def read(self) -> bytes:
        """Wait for the next part of the request's body; an empty part is its end.

        Raises:
            ClientGoneError: if the client disconnected.
        """
        return self._wait(self._next_part())

    def write(self, *messages: Message) -> None:
        """Send messages, and wait until the server has accepted them.

        Raises:
            ClientGoneError: if the client disconnected.
        """
        self._wait(self._send_all(messages))

    def check(self) -> None:
        """Check that the client still waits for the response.

        Raises:
            ClientGoneError: if the client disconnected.
        """
        with self._lock:
            if self._over:
                raise ClientGoneError("the client has disconnected")

    def end(self) -> None:
        """End the wait of the thread; every further wait raises."""
        with self._lock:
            self._over = True
            pending = self._pending
        if pending is not None:
            pending.cancel()
        if self._receiving is not None:
            self._receiving.cancel()

    def _wait(self, step: Coroutine[Any, Any, _T]) -> _T:
        with self._lock:
            if self._over:
                # Python warns of a coroutine that is never awaited.
                step.close()
                raise ClientGoneError("the client has disconnected")
            # Under the lock, so that end() either finds this wait and cancels it, or has set `_over` before
            # it.
            pending = asyncio.run_coroutine_threadsafe(step, self._loop)
            self._pending = pending
        try:
            return pending.result()
        except CancelledError:
            raise ClientGoneError("the client has disconnected") from None

    async def _next_part(self) -> bytes:
        self._start_receiving()
        while not self._unread and not self._complete:
            self._arrived.clear()
            await self._arrived.wait()
        part = bytes(self._unread)
        self._unread.clear()
        self._room.set()
        return part

    async def _send_all(self, messages: Iterable[Message]) -> None:
        self._start_receiving()
        for message in messages:
            if not message.get("more_body", True) and self._receiving is not None:
                # A pending receive would report the end of the response as a disconnect.
                self._receiving.cancel()
            await self._send(message)

    def _start_receiving(self) -> None:
        # Not before the app reads or responds: the first receive sends "100 Continue" to a client that
        # waits for it (`Expect: 100-continue`).
        if self._receiving is None:
            self._receiving = asyncio.create_task(self._receive_all())
            self._receiving.add_done_callback(self._on_received)

    def _on_received(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self.end()

    async def _receive_all(self) -> None:
        """Receive the body while the buffer has room; return when the client has disconnected."""
        while (message := await self._receive())["type"] == "http.request":
            self._unread += message.get("body", b"")
            self._complete = not message.get("more_body", False)
            self._arrived.set()
            while not self._complete and len(self._unread) > BUFFERED:
                self._room.clear()
                await self._room.wait()


class _Body(io.RawIOBase):
    """Body of the request as a file."""

    def __init__(self, exchange: _Exchange) -> None:
        self._exchange = exchange
        self._part = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        if not self._part:
            self._part = memoryview(self._exchange.read())
        into = memoryview(buffer).cast("B")
        chunk = self._part[: len(into)]
        into[: len(chunk)] = chunk
        self._part = self._part[len(chunk) :]
        return len(chunk)


class _Response:
    """Response of the app; ``start`` and ``write`` are ``start_response`` and ``write`` of PEP 3333."""

    def __init__(self, exchange: _Exchange, *, head: bool) -> None:
        self._exchange = exchange
        self._start: Message | None = None
        self._bodiless = head
        self.has_started = False

    def start(
        self, status: str, headers: list[tuple[str, str]], exc_info: OptExcInfo | None = None, /
    ) -> Callable[[bytes], object]:
        """Set the status and headers, which are sent with the first part of the body.

        With ``exc_info`` they replace earlier ones; if those have been sent, the exception is raised.
        """
        if exc_info is None and self._start is not None:
            raise RuntimeError("start_response was called twice")
        if exc_info is not None and exc_info[1] is not None and self.has_started:
            raise exc_info[1]
        code = HTTPStatus(int(status.partition(" ")[0]))
        encoded = [
            (name.lower().encode(), value.strip(" \t").encode("latin-1")) for name, value in headers
        ]
        # Checked here: the server's own check fails too late for an error response.
        h11.Response(status_code=code, headers=encoded)
        self._bodiless = self._bodiless or code in _BODILESS
        self._start = {"type": "http.response.start", "status": code, "headers": encoded}
        return self.write

    def send(self, parts: Iterable[bytes]) -> None:
        """Send the response, each part when the app has yielded it."""
        iterator = iter(parts)
        while not self._bodiless and (part := next(iterator, None)) is not None:
            if part:
                self.write(part)
            else:
                self._exchange.check()
        self._send(b"", more=False)

    def write(self, part: bytes) -> None:
        """Send one part of the body."""
        self._send(b"" if self._bodiless else part, more=True)

    def _send(self, part: bytes, *, more: bool) -> None:
        if self._start is None:
            raise RuntimeError("the app answered without calling start_response")
        body = {"type": "http.response.body", "body": part, "more_body": more}
        if self.has_started:
            self._exchange.write(body)
        else:
            self.has_started = True
            self._exchange.write(self._start, body)


def _environ(scope: Scope, exchange: _Exchange) -> dict[str, Any]:
    """Return the environ of a request; its strings are bytes decoded as Latin-1 (PEP 3333)."""
    host, port = scope.get("server") or ("", None)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        # From the raw path, because ASGI's decoded path loses bytes that are not UTF-8.
        "PATH_INFO": unquote_to_bytes(scope["raw_path"]).decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": host,
        "SERVER_PORT": str(port or ""),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": scope["client"][0] if scope.get("client") else "",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.input": io.BufferedReader(_Body(exchange), _READ_BYTES),
        "wsgi.input_terminated": True,  # it ends with the body, whatever Content-Length is
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for raw_name, raw_value in scope["headers"]:
        name = raw_name.decode("latin-1").upper()
        if "_" in name:
            continue  # it would be mistaken for the same header with hyphens
        key = name.replace("-", "_")
        key = key if key in {"CONTENT_LENGTH", "CONTENT_TYPE"} else f"HTTP_{key}"
        value = raw_value.decode("latin-1")
        joint = "; " if key == "HTTP_COOKIE" else ","
        environ[key] = f"{environ[key]}{joint}{value}" if key in environ else value
    if environ.pop("HTTP_TRANSFER_ENCODING", None):
        # The server has decoded the body; a Content-Length sent with it does not count (RFC 9112, 6.3).
        environ.pop("CONTENT_LENGTH", None)
    return environ
