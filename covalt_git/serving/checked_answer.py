"""Answer of the endpoint ``/mcp``, each message of which leaves only while a new request with its token would be accepted.

A token may be revoked, its role may be narrowed, and a toolset may be disabled, while a call runs or a stream is open for hours.  Progress, logs,
elicitation requests, notifications and results all pass here, with each version of the protocol.  A stream without
messages is checked too, so that a call does not run on for a client that gets no result.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from anyio.to_thread import run_sync

from covalt_git.errors import CovaltError
from covalt_git.gateway.protocol import CHECKED, OPEN_CALLS, RECHECK
from covalt_git.serving.error_answer import send_error

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from anyio import CapacityLimiter
    from starlette.types import Message, Scope, Send

    from covalt_git.gateway.call_access import OpenCall

CHECK_S = 1.0
"""Seconds between two checks of a stream without messages, and of an answer that cannot be checked now."""

UNKNOWN_S = 30.0
"""Seconds after which an answer ends that cannot be checked: an issuer's keys cannot be fetched, or ``covalt.yaml`` has errors."""

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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._scope = scope
        self._send = send
        self._is_continued = is_continued
        self._threads = threads
        self._clock = clock
        self._calls: list[OpenCall] = []
        scope[OPEN_CALLS] = self._calls
        self._is_stream = self._has_started = self._has_ended = False
        self._unknown_since: float | None = None
        # An answer must not end between the parts of a message.
        self._sending = asyncio.Lock()

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Check the calls of the request once a second until the block ends.

        Streams without calls end with their token (``CLEANUP_S`` of :mod:`.mcp_endpoint`).
        """
        watch = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watch.cancel()

    async def _watch(self) -> None:
        while not self._has_ended:
            await asyncio.sleep(CHECK_S)
            async with self._sending:
                if self._calls and not self._has_ended:
                    await self._end_if_refused()

    async def send(self, message: Message) -> None:
        """Send a message of the app; if the token is not valid any more, end the answer instead."""
        async with self._sending:
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
                await self._end_if_refused()
                if self._has_ended:
                    return
            self._has_started = True
            self._has_ended = not starts and not message.get("more_body", False)
            await self._send(message)

    async def _end_if_refused(self) -> None:
        """End the answer if a new request would be refused."""
        refusal = await self._refusal()
        if refusal is None:
            return
        self._has_ended = True
        if not self._has_started:
            await send_error(self._send, refusal)
            return
        # Many clients wait for a response after the end of a stream.
        body = b"".join(call.error_event(refusal) for call in self._calls)
        # After the last part, the server reports to the app that the client has left. This cancels the call.
        await self._send({"type": "http.response.body", "body": body, "more_body": False})

    async def _refusal(self) -> CovaltError | None:
        """Return why a new request would be refused now, or why that is unknown for too long; None otherwise."""
        while True:
            try:
                for call in [*self._calls]:
                    # Not in the threads of other requests: all of these may wait for an answer to this message.
                    await run_sync(call.check, limiter=self._threads)
                refusal = await self._token_refusal()
            except CovaltError as error:
                if error.http_status != _UNAVAILABLE or self._is_unknown_for_long():
                    return error
                await asyncio.sleep(CHECK_S)
            else:
                self._unknown_since = None
                return refusal

    async def _token_refusal(self) -> CovaltError | None:
        """Return why the token is refused now; None if it is not.

        Raises:
            CovaltError: with the status 503, if that is unknown.
        """
        try:
            if await self._scope[RECHECK]() == self._scope[CHECKED]:
                return None
        except CovaltError as error:
            if error.http_status == _UNAVAILABLE:
                raise
            return None if await self._is_continued() else error
        # Its role may have changed, and with it the principal of the stream.
        return CovaltError(
            "the token of this request is not valid any more", code="no_token", http_status=401
        )

    def _is_unknown_for_long(self) -> bool:
        if self._unknown_since is None:
            self._unknown_since = self._clock()
        return self._clock() - self._unknown_since >= UNKNOWN_S
