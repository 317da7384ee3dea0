"""Time limit for request bodies, so that a slow client cannot occupy a thread and memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from covalt_git.errors import CovaltError
from covalt_git.serving.error_answer import CLOSE, send_error

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

TIMEOUT_S = 30.0
"""Seconds that the server waits for a client that neither sends nor reads."""

MIN_BYTES_PER_S = 1000
"""Minimum rate of a body; the slowest network connections are faster."""


class RequestTimeoutError(CovaltError):
    """Request whose body did not arrive in time."""

    code = "request_timeout"
    http_status = 408


class BodyTimeout:
    """ASGI middleware that ends requests whose body stalls.

    A client has ``timeout_s`` seconds for the next part of a body.  Each :data:`MIN_BYTES_PER_S` bytes that
    it sends add a second, up to ``timeout_s`` again, so that single bytes do not prolong a request.  The size
    and total time of a body, and the time of ``app``, are not limited.

    On a timeout, ``app`` receives a disconnect, and the client a 408 if the response has not started.
    """

    def __init__(self, app: ASGIApp, *, timeout_s: float = TIMEOUT_S) -> None:
        self._app = app
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, or the lifespan."""
        if scope["type"] == "http":
            request = _Request(receive, send, self._timeout_s)
            receive, send = request.receive, request.send
        await self._app(scope, receive, send)


class _Request:
    """Wrapped ``receive`` and ``send`` of one request."""

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
                hint="send the request again, with its complete body",
            )
            await send_error(self._send, error, CLOSE)
