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


def with_body_timeout(app: ASGIApp, timeout_s: float = TIMEOUT_S) -> ASGIApp:
    """Return ``app`` with a time limit for request bodies that stall.

    A client has ``timeout_s`` seconds for the next part of a body.  Each :data:`MIN_BYTES_PER_S` bytes that
    it sends add a second, up to ``timeout_s`` again, so that single bytes do not prolong a request.  The size
    and total time of a body, and the time of ``app``, are not limited.

    On a timeout, ``app`` receives a disconnect, and the client a 408 if the response has not started.
    """

    async def limited_app(scope: Scope, receive: Receive, send: Send) -> None:
        left, more_body, has_answered, is_over = timeout_s, True, False, False
        loop = asyncio.get_running_loop()

        async def receive_in_time() -> Message:
            nonlocal left, more_body, is_over
            # After the body, an app waits here for the disconnect of its client, for as long as a call or
            # an event stream takes.
            if is_over or not more_body:
                return {"type": "http.disconnect"} if is_over else await receive()
            began = loop.time()
            try:
                async with asyncio.timeout(left):
                    message = await receive()
            except TimeoutError:
                is_over = True
                if not has_answered:
                    # The connection ends with this answer: the rest of the body would be read as the next
                    # request.
                    await send_error(send, _too_slow(timeout_s), CLOSE)
                return {"type": "http.disconnect"}
            more_body = message.get("more_body", False)
            # Used time comes back by the bytes that arrive, as in Apache's mod_reqtimeout. So one byte each
            # 29 s ends, while a slow uplink and a long push never do (tests/security/test_slow_clients.py).
            left += len(message.get("body", b"")) / MIN_BYTES_PER_S - (loop.time() - began)
            left = min(left, timeout_s)
            return message

        async def send_unless_over(message: Message) -> None:
            nonlocal has_answered
            # The app does not know of the 408. uvicorn raises if a second response starts.
            if not is_over:
                has_answered = True
                await send(message)

        if scope["type"] == "http":
            await app(scope, receive_in_time, send_unless_over)
        else:
            await app(scope, receive, send)

    return limited_app


def _too_slow(timeout_s: float) -> CovaltError:
    return CovaltError(
        f"the request's body did not arrive within {timeout_s:g} s, "
        f"or at less than {MIN_BYTES_PER_S} bytes a second",
        hint="send the request again, with its complete body",
        code="request_timeout",
        http_status=408,
    )
