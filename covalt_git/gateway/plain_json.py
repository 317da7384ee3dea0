"""Answers to POST requests as plain JSON, unless something was streamed before them.

Before 2026-07-28, the SDK answers each request with an event stream, also if its only event is the answer.  Clients limit the
size of an event: the Python SDK 2 to 1 MiB, after which its session is unusable.  Plain JSON has no such limit.  An
answer that must be an event, because progress was streamed before it, is made smaller.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from covalt_git.gateway.event_size import MOST_EVENT_BYTES, for_event

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

ANSWER = "covalt_git.answer"
"""Key of an ASGI scope with the :class:`HeldAnswer` to its request."""

_EVENT = re.compile(
    rb'event: message\r\ndata: (\{"jsonrpc":"2\.0","id":(?:-?\d+|"[^"\\]*"),"(?:result|error)":[^\r\n]*)\r\n\r\n'
)
_STREAM = b"text/event-stream"
_OF_STREAMS = frozenset({b"content-type", b"content-length", b"x-accel-buffering"})


class HeldAnswer:
    """The ``send`` of one request, which holds the beginning of an event stream until its first event.

    ``silent`` leaves out comments, which keep a connection open, until the answer is sent.
    """

    def __init__(self, send: Send) -> None:
        self.silent = False
        self._send = send
        self._held: Message | None = None
        self._is_streaming = False
        self._is_complete = False

    async def send(self, message: Message) -> None:
        """Send a message of the app; an answer that is the first event is sent as plain JSON."""
        # The SDK ends its stream after the answer, which has already ended this one.
        if self._is_complete:
            return
        if message["type"] == "http.response.start" and _is_stream(message):
            self._held = message
            return
        body = message.get("body", b"")
        if self._held is None:
            if self._is_streaming and len(body) > MOST_EVENT_BYTES:
                message = {**message, "body": _smaller(body)}
            await self._send(message)
            return
        # Only the answer: a request or a notification of the server before it needs a stream.
        if (answer := _EVENT.fullmatch(body)) is not None:
            self._is_complete = True
            await self._send_json(self._held, answer[1])
            return
        # A comment only keeps a connection open, and would make the answer an event of a stream.
        if message.get("more_body", False) and (not body or (self.silent and body[:1] == b":")):
            return
        held, self._held, self._is_streaming = self._held, None, True
        await self._send(held)
        await self._send(message)

    async def _send_json(self, start: Message, body: bytes) -> None:
        headers = [(name, value) for name, value in start["headers"] if name not in _OF_STREAMS]
        headers += [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ]
        await self._send({**start, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})


class PlainJson:
    """ASGI app that sends the answers of ``app`` to POST requests as plain JSON if it can."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The stream of a GET has no answer at its end.
        if scope["type"] == "http" and scope["method"] == "POST":
            scope[ANSWER] = answer = HeldAnswer(send)
            send = answer.send
        await self._app(scope, receive, send)


def _is_stream(start: Message) -> bool:
    return any(
        name == b"content-type" and value.startswith(_STREAM) for name, value in start["headers"]
    )


def _smaller(event: bytes) -> bytes:
    """Return the event of a tool's result, with links in place of its largest parts; another event is unchanged."""
    answer = _EVENT.fullmatch(event)
    if answer is None:
        return event
    return b"event: message\r\ndata: " + for_event(answer[1]) + b"\r\n\r\n"
