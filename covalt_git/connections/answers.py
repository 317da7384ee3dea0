"""Answers of a server as it sent them, before the SDK parses them.

The SDK rejects an answer for one wrong field, and the caller would not learn what a tool that has run answered.  So
it gets an empty result in place of each result of a tool, and answers that it cannot parse are repaired.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import mcp_types as types
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from covalt_git.json_values import storable

if TYPE_CHECKING:
    import asyncio

    from mcp.client._transport import ReadStream, WriteStream

    from covalt_git.json_values import JsonObject

FROM_SERVER = object()
"""Data of an error that the server sent with a code of which the SDK makes errors too.

The SDK reports the end of a connection with -32000, the usual code of any server's error.
"""

_SHARED_CODES = frozenset({types.CONNECTION_CLOSED, types.INVALID_REQUEST})
_MADE_OVER_HTTP = ("SSE stream ", "Session terminated")
"""Beginnings of the messages of errors that the SDK puts into the stream of an HTTP connection that ended."""

_UNREADABLE = "its answer cannot be read: "
_ID = re.compile(r'"id"\s*:\s*(\d{1,15}|"[^"\\]{1,100}")')
_MOST_SHOWN = 200


class ToolResults:
    """Result of the running call of a connection as the server sent it; a connection makes one call at a time."""

    def __init__(self) -> None:
        self._request: str | int | None = None
        self._result: JsonObject | None = None

    def request(self, message: types.JSONRPCMessage) -> None:
        """Remember a request, if it calls a tool; a late answer to an earlier one is ignored."""
        if isinstance(message, types.JSONRPCRequest) and message.method == "tools/call":
            self._request, self._result = message.id, None

    def receive(self, message: types.JSONRPCMessage) -> types.JSONRPCMessage:
        """Return a message for the SDK: in place of a tool's final result, an empty one that it accepts."""
        if not isinstance(message, types.JSONRPCResponse) or (
            coerce_request_id(message.id) != self._request  # as the SDK compares it
        ):
            return message
        if message.result.get("resultType") == "input_required":
            return message  # it requires input, and the SDK repeats the request with it
        self._result = message.result
        # The SDK does not check structured content if isError is set; since 2026-07-28, it requires a resultType.
        empty = {"resultType": "complete", "content": [], "isError": True}
        return message.model_copy(update={"result": empty})

    def take(self) -> JsonObject:
        """Return the result of the call, once.

        Raises:
            MCPError: if the SDK took another message for it.
        """
        result, self._result = self._result, None
        if result is None:
            raise MCPError(types.PARSE_ERROR, f"{_UNREADABLE}it is not the result of a tool")
        return result


class ReceivingStream(ObjectReceiveStream["SessionMessage | Exception"]):
    """Read stream of a transport; it sets ``closed`` at its end, and stores results of tools."""

    def __init__(
        self,
        stream: ReadStream[SessionMessage | Exception],
        closed: asyncio.Event,
        results: ToolResults,
        *,
        over_http: bool = False,
    ) -> None:
        self._stream = stream
        self._closed = closed
        self._results = results
        self._over_http = over_http

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message."""
        try:
            item = await self._stream.receive()
        except BaseException:
            self._closed.set()
            raise
        if isinstance(item, ValidationError):
            item = repaired(item) or item
        if isinstance(item, SessionMessage):
            item.message = self._marked(self._results.receive(item.message))
        return item

    def _marked(self, message: types.JSONRPCMessage) -> types.JSONRPCMessage:
        """Return a message; an error that the server itself sent has the data ``FROM_SERVER``."""
        if not isinstance(message, types.JSONRPCError) or message.error.code not in _SHARED_CODES:
            return message
        if self._over_http and message.error.message.startswith(_MADE_OVER_HTTP):
            return message
        error = message.error.model_copy(update={"data": FROM_SERVER})
        return message.model_copy(update={"error": error})

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()


class SendingStream(ObjectSendStream["SessionMessage"]):
    """Write stream of a transport, which remembers the requests that call tools."""

    def __init__(self, stream: WriteStream[SessionMessage], results: ToolResults) -> None:
        self._stream = stream
        self._results = results

    async def send(self, item: SessionMessage) -> None:
        """Send a message."""
        self._results.request(item.message)
        await self._stream.send(item)

    async def send_eof(self) -> None:
        """Close the stream, because it has no other end."""
        await self.aclose()

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()


def repaired(error: ValidationError) -> SessionMessage | None:
    """Return the message of a line that the SDK rejected; None if the line is not an answer.

    If the answer cannot be repaired, the message is an error for its request, so that the caller gets the reason at
    once and does not wait until its time limit.
    """
    value = _message(error)
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = storable.loads(value)
        except ValueError as problem:
            found = _ID.search(value)
            if found is None or '"jsonrpc"' not in value:
                return None
            return _unusable(storable.loads(found[1]), f"it is not JSON: {problem}")
    return _answer(storable.storable(value).value) if isinstance(value, dict) else None


def _message(error: ValidationError) -> Any:
    """Return the line that the SDK could not parse; if it is JSON, its value, which each kind of message lacks a part of."""
    errors = error.errors(include_url=False)
    missing = (one["input"] for one in errors if one["type"] == "missing" and len(one["loc"]) == 2)  # noqa: PLR2004
    return next(missing, errors[0]["input"])


def _answer(value: JsonObject) -> SessionMessage | None:
    """Return an answer whose envelope differs from JSON-RPC; None if it is no answer."""
    request, has_result = value.get("id"), value.get("result") is not None
    if type(request) not in {int, str} or "method" in value:
        return None
    if not has_result and "error" not in value:
        return None if "jsonrpc" not in value else _unusable(request, "it has no result")
    if not has_result:
        return _failed(request, _error_data(value["error"]))
    if not isinstance(value["result"], dict):
        return _unusable(request, f"its result is invalid: {_text(value['result'])}")
    response = types.JSONRPCResponse(jsonrpc="2.0", id=request, result=value["result"])
    return SessionMessage(response)


def _error_data(error: Any) -> types.ErrorData:
    """Return the error of an answer; if its form is not that of the protocol, all of it as the message."""
    try:
        return types.ErrorData.model_validate(error)
    except ValidationError:
        return types.ErrorData(code=types.INTERNAL_ERROR, message=_text(error))


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text[:_MOST_SHOWN]


def _unusable(request: Any, problem: str) -> SessionMessage:
    message = f"{_UNREADABLE}{problem}"[:_MOST_SHOWN]
    return _failed(request, types.ErrorData(code=types.PARSE_ERROR, message=message))


def _failed(request: Any, error: types.ErrorData) -> SessionMessage:
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=request, error=error))
