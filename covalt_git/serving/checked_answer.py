"""Answer of the endpoint ``/mcp``, each message of which leaves only while a new request with its token would be accepted.

A token may be revoked, its role may be narrowed, and a toolset may be disabled, while a call runs or a stream is open for hours.  Progress, logs,
elicitation requests, notifications and results all pass here, with each version of the protocol.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from anyio.to_thread import run_sync

from covalt_git.errors import CovaltError
from covalt_git.gateway.protocol import ACCESS, CHECKED, RECHECK
from covalt_git.serving.error_answer import send_error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio import CapacityLimiter
    from starlette.types import Message, Scope, Send

CHECK_AGAIN_S = 1.0
"""Seconds between two checks that cannot be made: an issuer's keys cannot be fetched, or ``covalt.yaml`` has errors."""

_UNAVAILABLE = 503
_STREAM = b"text/event-stream"


class CheckedAnswer:
    """The ``send`` of one request.

    ``is_continued`` returns whether the holder of a token that has ended still has another one.
    """

    def __init__(
        self,
        scope: Scope,
        send: Send,
        is_continued: Callable[[], Awaitable[bool]],
        threads: CapacityLimiter,
    ) -> None:
        self._scope = scope
        self._send = send
        self._is_continued = is_continued
        self._threads = threads
        self._checks: list[Callable[[], None]] = []
        scope[ACCESS] = self._checks
        self._is_stream = False
        self._has_ended = False

    async def send(self, message: Message) -> None:
        """Send a message of the app; if the token is not valid any more, end the answer instead."""
        if self._has_ended:
            return
        starts = message["type"] == "http.response.start"
        if starts:
            self._is_stream = any(
                name == b"content-type" and value.startswith(_STREAM)
                for name, value in message["headers"]
            )
        # The body of an answer that is no stream follows its start at once.
        if starts or (self._is_stream and message.get("body")):
            refusal = await self._refusal_of_calls() or await self._refusal()
            if refusal is not None:
                await self._end(refusal, starts=starts)
                return
        await self._send(message)

    async def _end(self, refusal: CovaltError, *, starts: bool) -> None:
        self._has_ended = True
        if starts:
            await send_error(self._send, refusal)
        else:
            # For the app, the client has left: that cancels its call, as if the client had left.
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _refusal_of_calls(self) -> CovaltError | None:
        """Return why the principal may not make the calls of the request any more; None if it may."""
        while True:
            try:
                for check in [*self._checks]:
                    # In threads of their own: those of all others may wait for an answer to this message.
                    await run_sync(check, limiter=self._threads)
            except CovaltError as error:
                if error.http_status != _UNAVAILABLE:
                    return error
                await asyncio.sleep(CHECK_AGAIN_S)
            else:
                return None

    async def _refusal(self) -> CovaltError | None:
        """Return why a new request with the token would be refused now; None if it would not."""
        while True:
            try:
                if await self._scope[RECHECK]() == self._scope[CHECKED]:
                    return None
            except CovaltError as error:
                if error.http_status != _UNAVAILABLE:
                    return None if await self._is_continued() else error
                await asyncio.sleep(CHECK_AGAIN_S)
            else:
                # Its role may have changed, and with it the principal of the stream.
                return CovaltError(
                    "the token of this request is not valid any more",
                    code="no_token",
                    http_status=401,
                )
