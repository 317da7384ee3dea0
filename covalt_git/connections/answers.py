"""Answers of a server as it sent them, before the SDK parses them.

The SDK rejects an answer for one wrong field, and the caller would not learn what a tool that has run answered.  So
it gets an empty result in place of each result of a tool, and answers that it cannot parse are repaired.  An answer
that belongs to no request is an error for the only request that waits: it has no other answer.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import mcp_types as types
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from pydantic import BaseModel, ValidationError

from covalt_git.json_values import storable
from covalt_git.json_values.levels import cut, cut_text, has_more_levels
from covalt_git.models.sources.tool_lock import MOST_LEVELS

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping

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
# A server that prints without end must not fill the memory of all chats.
_MOST_LINES = 10_000
_ENVELOPE = frozenset({"jsonrpc", "id", "result", "error"})
_NOT_FINAL = frozenset({"input_required", "task"})
DISCOVER = "server/discover"
_TASK = "tasks/get"
_LIST = "/list"
_MOST_LEVELS = 2 * MOST_LEVELS
"""The most lists and objects inside each other in an answer with a list: more than in a definition that is listed."""

_INITIALIZE = "initialize"
_CANCELLED = "notifications/cancelled"
_SUBSCRIPTION = "subscriptions/listen"


class ToolResults:
    """Requests to one process of a server, and the result of its running call as the server sent it.

    A connection makes one call at a time.  ``show`` masks and shortens a line of the server for messages, and
    ``on_stray`` is called with each line that is not a message.
    """

    def __init__(self, show: Callable[[str], str], on_stray: Callable[[str], None]) -> None:
        self._show = show
        self._on_stray = on_stray
        self._request: str | int | None = None
        self._result: JsonObject | None = None
        self._sent: set[str | int] = set()
        self._open: dict[str | int, str] = {}
        self._answered: set[str] = set()
        self._stray: list[str] = []
        self._first: int | None = None
        self.pages: dict[str, JsonObject] = {}
        """The last page of each list, by the method that requests it, as the server sent it."""

    @property
    def stray_lines(self) -> list[str]:
        """The lines since the last call of a tool that are not messages, for display."""
        return [self._show(line) for line in self._stray]

    def is_waiting(self, method: str) -> bool:
        """Return whether a request of a method has no answer yet."""
        return method in self._open.values()

    def has_answered(self, method: str) -> bool:
        """Return whether the server has answered a request of a method, before it was cancelled."""
        return method in self._answered

    def send(self, message: types.JSONRPCMessage) -> None:
        """Remember a request; a late answer to an earlier call is ignored."""
        if isinstance(message, types.JSONRPCRequest):
            self._sent.add(message.id)
            # A subscription has no answer while the connection lives, so it would always be a request that
            # waits.
            if message.method != _SUBSCRIPTION:
                self._open[message.id] = message.method
            if message.method == "tools/call":
                self._request, self._result = message.id, None
                self._stray, self._first = [], None
            elif message.method == _TASK:
                self._request, self._result = message.id, None
        elif isinstance(message, types.JSONRPCNotification) and message.method == _CANCELLED:
            self._open.pop((message.params or {}).get("requestId", ""), None)

    def receive(self, message: types.JSONRPCMessage) -> types.JSONRPCMessage | None:
        """Return a message for the SDK: in place of a tool's final result, an empty one that it accepts.

        It is None for an answer that cannot be assigned to a request.
        """
        if not isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            return message
        request = _request_id(message.id)
        if request not in self._sent:
            return self._unassigned(message.model_dump(exclude_unset=True))
        method = self._open.pop(request, "")
        self._answered.add(method)
        if method.endswith(_LIST) and isinstance(message, types.JSONRPCResponse):
            # One definition that the SDK cannot serialize would hide all others; cut, it is left out for its levels.
            if has_more_levels(message.result, _MOST_LEVELS):
                cut_result = cut(message.result, _MOST_LEVELS)
                message = message.model_copy(update={"result": cut_result})
            self.pages[method] = message.result
        if method == _TASK and isinstance(message, types.JSONRPCResponse):
            return self._without_result(message, request)
        # The SDK takes "4" for 4, so the result has to be looked up by the id as the SDK compares it.
        message = message.model_copy(update={"id": request})
        if not isinstance(message, types.JSONRPCResponse) or request != self._request:
            return message
        if message.result.get("resultType") in _NOT_FINAL:
            return message  # it requires input, with which the SDK repeats the request; or it is a task
        self._result = message.result
        # The SDK does not check structured content if isError is set; since 2026-07-28, it requires a resultType.
        empty = {"resultType": "complete", "content": [], "isError": True}
        return message.model_copy(update={"result": empty})

    def _without_result(
        self, message: types.JSONRPCResponse, request: str | int | None
    ) -> types.JSONRPCMessage:
        """Return the state of a task without the result of the call, which is stored."""
        state = {key: value for key, value in message.result.items() if key != "result"}
        result = message.result.get("result")
        # A late answer about another task must not become the result of this one.
        is_current = request == self._request
        if is_current and state.get("status") == "completed" and isinstance(result, dict):
            self._result = result
        return message.model_copy(update={"id": request, "result": state})

    def _unassigned(self, value: JsonObject) -> types.JSONRPCError | None:
        """Return an error for the only request that waits, because it may have no other answer."""
        line = _json(value)
        # With several requests, nothing says whose answer it is; a guess could end the wrong call.
        if len(self._open) != 1:
            self._add_stray(line)
            return None
        return _unusable(
            self._open.popitem()[0], f"its id is that of no request: {self._show(line)}"
        )

    def repaired(self, error: ValidationError) -> list[types.JSONRPCMessage]:
        """Return the messages of a line that the SDK rejected: none, if it is not an answer.

        If the answer cannot be repaired, the message is an error for its request, so that the caller gets the
        reason at once and does not wait until its time limit.
        """
        value = _message(error)
        line = value if isinstance(value, str) else _json(value)
        return self._messages(value) or (self._joined(line) if line.strip() else [])

    def _joined(self, line: str) -> list[types.JSONRPCMessage]:
        """Return the messages of several lines, such as an indented answer, at the last of them."""
        self._add_stray(line)
        if line.rstrip() in {"{", "["}:
            self._first = len(self._stray) - 1
        if line[:1] not in {"}", "]"} or self._first is None:
            return []
        first, self._first = self._first, None
        messages = self._messages("\n".join(self._stray[first:]))
        if messages:
            del self._stray[first:]
        return messages

    def _add_stray(self, line: str) -> None:
        self._on_stray(line)
        if len(self._stray) < _MOST_LINES:
            self._stray.append(line)

    def _messages(self, value: Any) -> list[types.JSONRPCMessage]:
        if isinstance(value, str):
            # A byte order mark, a batch or an answer over several lines left the call waiting until its time
            # limit.
            value = value.removeprefix("\ufeff")
            if not value.lstrip().startswith(("{", "[")):
                return []
            try:
                value = storable.loads(value)
            except ValueError as problem:
                id_match = _ID.search(value)
                request = _request_id(storable.loads(id_match[1])) if id_match else None
                if request not in self._sent or '"jsonrpc"' not in value:
                    return []
                listed = self._cut_list(request, value)
                if listed is None:
                    return [_unusable(request, f"it is not JSON: {problem}")]
                value = listed
        if isinstance(value, list):  # a batch of the MCP specification 2025-03-26
            return [
                answer for item in value if isinstance(item, dict) for answer in self._answers(item)
            ]
        return self._answers(value) if isinstance(value, dict) else []

    def _cut_list(self, request: str | int | None, text: str) -> Any:
        """Return the answer to a list request, without definitions that are nested too deeply; None for other answers."""
        if request is None or not self._open.get(request, "").endswith(_LIST):
            return None
        with suppress(ValueError):
            return storable.loads(cut_text(text, _MOST_LEVELS))
        return None

    def _answers(self, value: JsonObject) -> list[types.JSONRPCMessage]:
        """Return an object as a message; none, if it is not an answer, also with a wrong envelope."""
        with suppress(ValidationError):
            return [types.jsonrpc_message_adapter.validate_python(value)]
        if _request_id(value.get("id")) in self._sent:
            answer = _answer(value)
        else:
            # Other keys are those of a log.
            is_answer = value.keys() & {"result", "error"} and value.keys() <= _ENVELOPE
            answer = self._unassigned(value) if is_answer else None
        return [] if answer is None else [answer]

    def take(self) -> JsonObject:
        """Return the result of the call, once.

        Raises:
            MCPError: if the SDK took another message for it.
        """
        result, self._result = self._result, None
        if result is None:
            raise MCPError(types.PARSE_ERROR, f"{_UNREADABLE}it is not the result of a tool")
        return result


class _List(NamedTuple):
    """A list that servers have, as the protocol and the SDK name it."""

    method: str
    key: str
    attribute: str
    entry: type[BaseModel]
    page: type[types.PaginatedResult]


_LISTS = {
    "tool": _List("tools/list", "tools", "tools", types.Tool, types.ListToolsResult),
    "resource": _List(
        "resources/list", "resources", "resources", types.Resource, types.ListResourcesResult
    ),
    "template": _List(
        "resources/templates/list",
        *("resourceTemplates", "resource_templates"),
        types.ResourceTemplate,
        types.ListResourceTemplatesResult,
    ),
    "prompt": _List("prompts/list", "prompts", "prompts", types.Prompt, types.ListPromptsResult),
}


def sound_page(
    kind: str, pages: Mapping[str, JsonObject]
) -> tuple[types.PaginatedResult, list[str]]:
    """Return the last page of a list, which the SDK rejected, without its invalid entries, and why they are left out.

    A tool whose input schema is a wrong one is returned: its lock has it, and says so.

    Raises:
        ValidationError: if something else of the page is wrong.
    """
    form = _LISTS[kind]
    listing = pages.get(form.method, {})
    sound, left_out = [], []
    entries = listing.get(form.key)
    for entry in entries if isinstance(entries, list) else ():
        try:
            sound.append(form.entry.model_validate(entry, by_name=False))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            fields = entry if isinstance(entry, dict) else {"name": entry}
            name = fields.get("uri") or fields.get("uriTemplate") or fields.get("name")
            place = ".".join(map(str, first["loc"])) or "definition"
            left_out.append(
                f"the {kind} {_text(name)!r} is not listed, because its {place} is invalid: {first['msg'].lower()}"
            )
    rest = {key: value for key, value in listing.items() if key != form.key}
    listed = [] if isinstance(entries, list) else entries
    page = form.page.model_validate(rest | {form.key: listed}, by_name=False)
    return page.model_copy(update={form.attribute: sound}), left_out


def is_foreign_answer(method: str, content: bytes) -> bool:
    """Return whether the JSON that answers a request of a start over HTTP is no answer of the protocol.

    Servers of older protocols may answer ``server/discover`` with anything, except with the request itself.
    """
    try:
        answer = json.loads(content)
    except ValueError:
        return method == _INITIALIZE
    keys = answer.keys() if isinstance(answer, dict) else set[str]()
    has_result = bool(keys & {"result", "error"})
    if method == DISCOVER:
        return "method" in keys and not has_result
    return method == _INITIALIZE and not has_result


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
        self._repaired: list[types.JSONRPCMessage] = []

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message."""
        while True:
            if self._repaired:
                item: SessionMessage | Exception = SessionMessage(self._repaired.pop(0))
            else:
                item = await self._next()
            if isinstance(item, ValidationError):
                self._repaired = self._results.repaired(item)
                continue
            if not isinstance(item, SessionMessage):
                return item
            message = self._results.receive(item.message)
            if message is not None:
                item.message = self._marked(message)
                return item

    async def _next(self) -> SessionMessage | Exception:
        try:
            return await self._stream.receive()
        # The end is noticed here, and not at the next request, which would be lost with the closed connection.
        except BaseException:
            self._closed.set()
            raise

    def _marked(self, message: types.JSONRPCMessage) -> types.JSONRPCMessage:
        """Return a message; an error that the server itself sent has the data ``FROM_SERVER``."""
        if not isinstance(message, types.JSONRPCError) or message.error.code not in _SHARED_CODES:
            return message
        # Over HTTP, the SDK writes its own errors into the same stream, with a code that servers also use.
        if self._over_http and message.error.message.startswith(_MADE_OVER_HTTP):
            return message
        error = message.error.model_copy(update={"data": FROM_SERVER})
        return message.model_copy(update={"error": error})

    async def aclose(self) -> None:
        await self._stream.aclose()


class SendingStream(ObjectSendStream["SessionMessage"]):
    """Write stream of a transport, which remembers the requests that call tools."""

    def __init__(self, stream: WriteStream[SessionMessage], results: ToolResults) -> None:
        self._stream = stream
        self._results = results

    async def send(self, item: SessionMessage) -> None:
        self._results.send(item.message)
        await self._stream.send(item)

    async def send_eof(self) -> None:
        """Close the stream, because it has no other end."""
        await self.aclose()

    async def aclose(self) -> None:
        await self._stream.aclose()


def _message(error: ValidationError) -> Any:
    """Return the line that the SDK could not parse; if it is JSON, its value, which each kind of message lacks a part of."""
    errors = error.errors(include_url=False)
    missing = (
        part["input"]
        for part in errors
        if part["type"] == "missing" and len(part["loc"]) == 2  # noqa: PLR2004 - a kind of message, and its part
    )
    return next(missing, errors[0]["input"])


def _request_id(value: Any) -> str | int | None:
    """Return an id as the SDK compares it: ``"4"`` and ``4.0`` are 4."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return coerce_request_id(value) if type(value) in {int, str} else None


def _answer(value: JsonObject) -> types.JSONRPCMessage | None:
    """Return an answer to a request whose envelope differs from JSON-RPC; None if it is no answer."""
    request, has_result = _request_id(value.get("id")), value.get("result") is not None
    if request is None or "method" in value:
        return None
    if not has_result and "error" not in value:
        return None if "jsonrpc" not in value else _unusable(request, "it has no result")
    if not has_result:
        return types.JSONRPCError(jsonrpc="2.0", id=request, error=_error_data(value["error"]))
    if not isinstance(value["result"], dict):
        return _unusable(request, f"its result is invalid: {_text(value['result'])}")
    return types.JSONRPCResponse(jsonrpc="2.0", id=request, result=value["result"])


def _error_data(error: Any) -> types.ErrorData:
    """Return the error of an answer; if its form is not that of the protocol, all of it as the message."""
    error = storable.storable(error).value
    try:
        return types.ErrorData.model_validate(error)
    except ValidationError:
        return types.ErrorData(code=types.INTERNAL_ERROR, message=_text(error))


def _text(value: Any) -> str:
    """Return a value of the server in full: it is masked before it is shortened, so that no part of a secret is left."""
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return json.dumps(storable.storable(value).value, ensure_ascii=False)


def _unusable(request: Any, problem: str) -> types.JSONRPCError:
    message = f"{_UNREADABLE}{problem}"
    error = types.ErrorData(code=types.PARSE_ERROR, message=message)
    return types.JSONRPCError(jsonrpc="2.0", id=request, error=error)
