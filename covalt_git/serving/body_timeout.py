"""A time limit for request bodies, so that an unfinished one holds no thread and no memory for long."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.serving.error_answer import CLOSE, send_error

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

TIMEOUT_S = 30.0
"""How long the server waits for a client that sends or reads nothing, in seconds."""

MIN_BYTES_PER_S = 1000
"""The slowest body that is read to its end: less than the slowest of lines sends."""


class RequestTimeoutError(CovaltError):
    """A request whose body did not arrive in time."""

    code = "request_timeout"
    http_status = 408


class BodyTimeout:
    """An ASGI app whose clients have to go on sending the bodies of their requests.

    A client has ``timeout_s`` seconds for the next part of a body.  The time that it uses up comes
    back by what it sends, a second for each :data:`MIN_BYTES_PER_S` bytes, so that a byte now and then
    does not help.  No body is too long or takes too long otherwise, and the app may take its time.

    After that the client is answered 408 if the app has not begun its answer, and ``app`` is told
    that the client has gone.
    """

    def __init__(self, app: ASGIApp, *, timeout_s: float = TIMEOUT_S) -> None:
        self._app = app
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or live through the server's life."""
        if scope["type"] == "http":
            request = _Request(receive, send, self._timeout_s)
            receive, send = request.receive, request.send
        await self._app(scope, receive, send)


class _Request:
    """A request's two streams as the app sees them."""

    def __init__(self, receive: Receive, send: Send, timeout_s: float) -> None:
        self._receive = receive
        self._send = send
        self._timeout_s = timeout_s
        self._left = timeout_s
        self._more_body = True
        self._answered = False
        self._over = False

    async def receive(self) -> Message:
        if self._over:
            return {"type": "http.disconnect"}
        if not self._more_body:
            return await self._receive()
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(self._left):
                message = await self._receive()
        except TimeoutError:
            await self._time_out()
            return {"type": "http.disconnect"}
        self._more_body = message.get("more_body", False)
        self._left += len(message.get("body", b"")) / MIN_BYTES_PER_S - (loop.time() - began)
        self._left = min(self._left, self._timeout_s)
        return message

    async def send(self, message: Message) -> None:
        if not self._over:
            self._answered = True
            await self._send(message)

    async def _time_out(self) -> None:
        self._over = True
        if not self._answered:
            error = RequestTimeoutError(
                f"the request's body did not arrive within {self._timeout_s:g} s, "
                f"or at less than {MIN_BYTES_PER_S} bytes a second",
                hint="send the request again, and its whole body with it",
            )
            await send_error(self._send, error, CLOSE)
