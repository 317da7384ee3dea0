"""A WSGI app (PEP 3333) under an ASGI server: how Flask's pages come to stand on uvicorn.

The app runs in a thread of its own for each request, and both bodies stream.  Each side waits for
the other, so neither a large upload nor a slow reader fills the memory.  When the client goes away,
the app's next read or write raises, and its answer is closed as PEP 3333 promises; an answer that has
nothing to say finds out by an empty part.  So it is at the server's end, for no wait of a thread
outlives its request.  One case is seen late: a client that goes away from an answer in progress
while more than ``BUFFERED`` bytes of its request stand unread.

Limits on the size of a request are the app's, those on its time are :mod:`.body_timeout`'s.
"""

from __future__ import annotations

import asyncio
import io
import sys
import threading
from concurrent.futures import CancelledError
from contextlib import suppress
from http import HTTPStatus
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote_to_bytes

import h11

from covalt_git.errors import ClientGoneError, CovaltError
from covalt_git.serving.error_answer import CLOSE, send_error

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
"""How many requests run at a time."""

BUFFERED = 256 * 1024
"""How much of a request's body is taken from the client before the app asks for it, in bytes."""

_READ_BYTES = 64 * 1024
_BODILESS = {204, 304}


class WSGIBridge:
    """An ASGI app that runs ``app`` in at most ``threads`` threads; further requests wait."""

    def __init__(self, app: WSGIApplication, *, threads: int = THREADS) -> None:
        self._app = app
        self._threads = _DaemonThreads(threads)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request.

        What the app raises is raised here, for the server to log and to break off the answer;
        where the answer had not begun, one that says so is sent before.
        """
        exchange = _Exchange(receive, send)
        answer = _Answer(exchange, head=scope["method"] == "HEAD")
        try:
            error = await self._threads.run(lambda: self._run(_environ(scope, exchange), answer))
        finally:
            exchange.end()
        if error is None or isinstance(error, ClientGoneError):
            return
        if not answer.begun:
            await send_error(send, _bug(), CLOSE)
        raise error

    def _run(self, environ: dict[str, Any], answer: _Answer) -> None:
        parts = self._app(environ, answer.start)
        try:
            answer.send(parts)
        finally:
            if close := getattr(parts, "close", None):
                close()


class _DaemonThreads:
    """At most ``most`` threads, started when they are needed and reused.

    The interpreter does not wait for them when it exits, as it does for those of ``concurrent.futures``.
    """

    def __init__(self, most: int) -> None:
        self._free = asyncio.Semaphore(most)
        self._idle = threading.Semaphore(0)
        self._jobs: SimpleQueue[tuple[Callable[[], None], Callable[[], None]]] = SimpleQueue()

    async def run(self, work: Callable[[], None]) -> BaseException | None:
        """Run ``work`` as soon as a thread is free, and return what it raised.

        Cancelling stops the wait, not the work.
        """
        loop = asyncio.get_running_loop()
        over = asyncio.Event()
        raised: list[BaseException] = []

        def guarded() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - whoever waits decides what it means
                raised.append(error)

        def tell() -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(over.set)

        async with self._free:
            self._jobs.put((guarded, tell))
            if not self._idle.acquire(blocking=False):
                threading.Thread(target=self._work, name="worker", daemon=True).start()
            await over.wait()
        return raised[0] if raised else None

    def _work(self) -> None:
        while True:
            job, tell = self._jobs.get()
            job()
            # Idle before anybody knows: whoever waited may have the next job at once.
            self._idle.release()
            tell()
            del job, tell  # what they hold is not to wait for the next ones


class _Exchange:
    """A request's two streams, between the app's thread and the event loop.

    The thread waits for one thing at a time: ``read`` and ``write`` are the thread's, all else
    is the loop's.
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
        self._waited_for: Future[Any] | None = None
        self._over = False

    def read(self) -> bytes:
        """Wait for more of the request's body; nothing is its end.

        Raises:
            ClientGoneError: when there will be no more of it.
        """
        return self._wait(self._next_part())

    def write(self, *messages: Message) -> None:
        """Wait until the server has taken the messages.

        Raises:
            ClientGoneError: when nobody reads them.
        """
        self._wait(self._send_all(messages))

    def check(self) -> None:
        """Make sure that somebody still waits for the answer.

        Raises:
            ClientGoneError: when nobody does.
        """
        with self._lock:
            if self._over:
                raise ClientGoneError("the client went away")

    def end(self) -> None:
        """Break the wait of the thread, and forbid every further one."""
        with self._lock:
            self._over = True
            waited_for = self._waited_for
        if waited_for is not None:
            waited_for.cancel()
        if self._receiving is not None:
            self._receiving.cancel()

    def _wait(self, step: Coroutine[Any, Any, _T]) -> _T:
        with self._lock:
            if self._over:
                step.close()
                raise ClientGoneError("the client went away")
            waited_for = asyncio.run_coroutine_threadsafe(step, self._loop)
            self._waited_for = waited_for
        try:
            return waited_for.result()
        except CancelledError:
            raise ClientGoneError("the client went away") from None

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
                # An answer's end looks like the client's going to whoever still receives.
                self._receiving.cancel()
            await self._send(message)

    def _start_receiving(self) -> None:
        # Not before the app reads or answers: a client that asks by `Expect: 100-continue` whether
        # it may send its body is told to go on by the first receiving.
        if self._receiving is None:
            self._receiving = asyncio.create_task(self._receive_all())
            self._receiving.add_done_callback(self._received)

    def _received(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self.end()

    async def _receive_all(self) -> None:
        """Take in the body as far as there is room, and return when the client has gone."""
        while (message := await self._receive())["type"] == "http.request":
            self._unread += message.get("body", b"")
            self._complete = not message.get("more_body", False)
            self._arrived.set()
            while not self._complete and len(self._unread) > BUFFERED:
                self._room.clear()
                await self._room.wait()


class _Body(io.RawIOBase):
    """The request's body as a file."""

    def __init__(self, exchange: _Exchange) -> None:
        self._exchange = exchange
        self._part = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        if not self._part:
            self._part = memoryview(self._exchange.read())
        into = memoryview(buffer).cast("B")
        taken = self._part[: len(into)]
        into[: len(taken)] = taken
        self._part = self._part[len(taken) :]
        return len(taken)


class _Answer:
    """What the app answers; its methods are the server's side of PEP 3333."""

    def __init__(self, exchange: _Exchange, *, head: bool) -> None:
        self._exchange = exchange
        self._start: Message | None = None
        self._bodiless = head
        self.begun = False

    def start(
        self, status: str, headers: list[tuple[str, str]], exc_info: OptExcInfo | None = None, /
    ) -> Callable[[bytes], object]:
        """Note status and headers, which leave with the first bytes of the body.

        With ``exc_info`` they take the place of earlier ones; once those have left, it is raised.
        """
        if exc_info is None and self._start is not None:
            raise RuntimeError("start_response was called twice")
        if exc_info is not None and exc_info[1] is not None and self.begun:
            raise exc_info[1]
        code = HTTPStatus(int(status.partition(" ")[0]))
        encoded = [
            (name.lower().encode(), value.strip(" \t").encode("latin-1")) for name, value in headers
        ]
        # Checked here, because an error of the server comes too late for an error response.
        h11.Response(status_code=code, headers=encoded)
        self._bodiless = self._bodiless or code in _BODILESS
        self._start = {"type": "http.response.start", "status": code, "headers": encoded}
        return self.write

    def send(self, parts: Iterable[bytes]) -> None:
        """Send the whole answer, each part when the app has made it."""
        ahead = iter(parts)
        while not self._bodiless and (part := next(ahead, None)) is not None:
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
        if self.begun:
            self._exchange.write(body)
        else:
            self.begun = True
            self._exchange.write(self._start, body)


def _environ(scope: Scope, exchange: _Exchange) -> dict[str, Any]:
    """Return what PEP 3333 tells the app about a request; texts hold bytes, as it wants them."""
    host, port = scope.get("server") or ("", None)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": scope["method"],
        "SCRIPT_NAME": "",
        # From the path as it was sent: ASGI's own has lost the bytes that are not UTF-8.
        "PATH_INFO": unquote_to_bytes(scope["raw_path"]).decode("latin-1"),
        "QUERY_STRING": scope["query_string"].decode("latin-1"),
        "SERVER_NAME": host,
        "SERVER_PORT": str(port or ""),
        "SERVER_PROTOCOL": f"HTTP/{scope['http_version']}",
        "REMOTE_ADDR": scope["client"][0] if scope.get("client") else "",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": scope["scheme"],
        "wsgi.input": io.BufferedReader(_Body(exchange), _READ_BYTES),
        "wsgi.input_terminated": True,  # it ends where the body does, whatever its length says
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": True,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
    }
    for raw_name, raw_value in scope["headers"]:
        name = raw_name.decode("latin-1").upper()
        if "_" in name:
            continue  # it would pass for the header with hyphens in its place
        key = name.replace("-", "_")
        key = key if key in {"CONTENT_LENGTH", "CONTENT_TYPE"} else f"HTTP_{key}"
        value = raw_value.decode("latin-1")
        joint = "; " if key == "HTTP_COOKIE" else ","
        environ[key] = f"{environ[key]}{joint}{value}" if key in environ else value
    if environ.pop("HTTP_TRANSFER_ENCODING", None):
        # The server has undone it, and where both were sent the length was not the body's.
        environ.pop("CONTENT_LENGTH", None)
    return environ


def _bug() -> CovaltError:
    found = CovaltError(
        "covalt-git made a mistake of its own", hint="the terminal it runs in shows where"
    )
    found.code, found.http_status = "internal_error", 500
    return found
