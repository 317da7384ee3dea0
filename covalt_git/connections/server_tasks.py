"""Tasks of MCP servers: a server may answer a call with a task, whose result is fetched later (SEP-2663).

The SDK knows no task, so :class:`ServerTasks` claims this kind of result, and polls.  The result of the call is what the
server has sent (:mod:`.answers`), as for any other call.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.client.extension import ClientExtension, ResultClaim
from pydantic import Field

from covalt_git.errors import CovaltError
from covalt_git.models.outcomes import UNKNOWN_EFFECT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from mcp.client.extension import ClaimContext
    from mcp.client.session import ClientSession

    from covalt_git.json_values import JsonObject

EXTENSION = "io.modelcontextprotocol/tasks"

CANCEL_S = 2.0
"""Time for the cancellation of a task to reach its server, in seconds."""

MOST_ID = 1000
"""Most characters of the id of a task: each request about it has the id in a header."""

_SHORTEST_S, _LONGEST_S = 0.05, 60.0
"""Bounds of the time between two requests, which the server suggests."""

_DEFAULT_MS = 1000
_ENDED = frozenset({"completed", "failed", "cancelled"})


class TaskCancelledError(CovaltError):
    """The server, or another of its clients, cancelled the task of a call, with an optional reason.

    It has no code of its own: a call that is ``cancelled`` was cancelled by its own client, or by covalt-git.
    """

    code = "server_error"

    def __init__(self, why: str, effect: str = "") -> None:
        self.why = why
        super().__init__(f"the server cancelled the task{f': {why}' if why else ''}{effect}")


class UnknownServerTaskError(CovaltError):
    """The server does not know a task, or no tasks at all any more."""

    code = "server_error"


class TaskAnswerError(CovaltError):
    """The server says that a task is completed, and its result cannot be read; or the id of the task cannot be used."""

    code = "server_error"


class _UnansweredError(Exception):
    """A question of a task that has no user, or whose user's client cannot show it."""

    def __init__(self, error: types.ErrorData) -> None:
        super().__init__(error.message)
        self.error = error


class CreatedTask(types.Result):
    """Result of ``tools/call`` that is a task."""

    result_type: Literal["task"]
    task_id: str
    poll_interval_ms: float | None = None


class TaskState(types.Result):
    """Result of ``tasks/get``."""

    status: Literal["working", "input_required", "completed", "cancelled", "failed"]
    status_message: str | None = None
    poll_interval_ms: float | None = None
    requests: dict[str, types.InputRequest] = Field(default_factory=dict, alias="inputRequests")
    error: types.ErrorData | None = None


class _Params(types.RequestParams):
    task_id: str


class _Answers(_Params):
    input_responses: dict[str, Any]


class _Get(types.Request[_Params, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    name_param = "taskId"


class _Update(types.Request[_Answers, Literal["tasks/update"]]):
    method: Literal["tasks/update"] = "tasks/update"
    name_param = "taskId"


class _Cancel(types.Request[_Params, Literal["tasks/cancel"]]):
    method: Literal["tasks/cancel"] = "tasks/cancel"
    name_param = "taskId"


class ServerTasks(ClientExtension):
    """Client of the tasks of one server.

    Arguments:
        held: called with the id of each new task, before it is polled.
        ended: called when the server has said how the task ended.
        leaves: returns whether the server keeps running the task of a cancelled call.
        report: called with each new message about the state of a task.
        ask: answers a question of a task.
    """

    identifier = EXTENSION

    def __init__(
        self,
        held: Callable[[str], Awaitable[None]],
        ended: Callable[[], None],
        leaves: Callable[[], bool],
        report: Callable[[str], None],
        ask: Callable[[types.InputRequest], Awaitable[types.InputResponse | types.ErrorData]],
    ) -> None:
        self._held = held
        self._ended = ended
        self._leaves = leaves
        self._report = report
        self._ask = ask

    def claims(self) -> Sequence[ResultClaim[Any]]:
        """Return the kind of result that is a task."""
        return (ResultClaim(result_type="task", model=CreatedTask, resolve=self._resolve),)

    async def _resolve(self, task: CreatedTask, context: ClaimContext) -> types.CallToolResult:
        if len(task.task_id) > MOST_ID:
            raise TaskAnswerError(
                f"the server made a task of the call, and the id of the task has {len(task.task_id):,} characters, "
                f"more than {MOST_ID:,}{UNKNOWN_EFFECT}"
            )
        try:
            await self._held(task.task_id)
            return await self._follow(context.session, task.task_id, task.poll_interval_ms)
        except asyncio.CancelledError:
            if self._leaves():
                raise
            await self._cancel(context.session, task.task_id)
            raise
        except _UnansweredError as unanswered:
            await self._cancel(context.session, task.task_id)
            raise MCPError.from_error_data(unanswered.error) from None

    async def _cancel(self, session: ClientSession, task_id: str) -> None:
        """Cancel a task, so that the server does not finish work for which no caller waits."""
        with anyio.move_on_after(CANCEL_S, shield=True), suppress(Exception):
            await cancel(session, task_id)

    async def _follow(
        self, session: ClientSession, task_id: str, interval_ms: float | None
    ) -> types.CallToolResult:
        """Return an empty result when the task is completed.

        Raises:
            MCPError: if the task failed, or the server does not know it any more.
            TaskCancelledError: if it was cancelled.
        """
        answered: set[str] = set()
        message: str | None = None
        while True:
            await asyncio.sleep(interval_s(interval_ms))
            state = await self._read(session, task_id)
            if state.status in _ENDED:
                self._ended()
            interval_ms = state.poll_interval_ms
            if state.status_message and state.status_message != message:
                message = state.status_message
                self._report(message)
            match state.status:
                case "completed":
                    # Not checked against the output schema, because the SDK would reject it for one wrong field.
                    return types.CallToolResult(content=[], is_error=True)
                case "failed":
                    error = state.error or types.ErrorData(
                        code=types.INTERNAL_ERROR, message="the task failed"
                    )
                    raise MCPError.from_error_data(error)
                case "cancelled":
                    raise TaskCancelledError(state.status_message or "")
            requests = {
                key: request for key, request in state.requests.items() if key not in answered
            }
            if requests:
                await self._answer(session, task_id, requests)
                answered |= requests.keys()

    async def _read(self, session: ClientSession, task_id: str) -> TaskState:
        """Return the state of a task; if its call is left meanwhile, and the task has ended, also this state."""
        request = asyncio.ensure_future(read(session, task_id))
        try:
            return await asyncio.shield(request)
        except asyncio.CancelledError:
            try:
                # The server may forget an answer that it has sent, so that no later process gets it.
                if self._leaves() and (await asyncio.wait({request}, timeout=CANCEL_S))[0]:
                    with suppress(Exception):
                        state = request.result()
                        if state.status in _ENDED:
                            _uncancel()
                            return state
            finally:
                request.cancel()
            raise

    async def _answer(
        self, session: ClientSession, task_id: str, requests: dict[str, types.InputRequest]
    ) -> None:
        for key, request in requests.items():
            answer = await self._ask(request)
            if isinstance(answer, types.ErrorData):
                # Without a user here, a page may still be opened in another program, so the task is not ended for it.
                if not isinstance(request, types.ElicitRequest) or request.params.mode != "url":
                    raise _UnansweredError(answer)
                answer = types.ElicitResult(action="cancel")
            dumped: JsonObject = answer.model_dump(mode="json", by_alias=True, exclude_none=True)
            params = _Answers(task_id=task_id, input_responses={key: dumped})
            await session.send_request(_Update(params=params), types.EmptyResult)


def _uncancel() -> None:
    if (current := asyncio.current_task()) is not None:
        current.uncancel()


async def cancel(session: ClientSession, task_id: str) -> None:
    """Ask the server to cancel a task.

    Raises:
        MCPError: if the server does not know it.
    """
    await session.send_request(_Cancel(params=_Params(task_id=task_id)), types.EmptyResult)


async def read(session: ClientSession, task_id: str) -> TaskState:
    """Return the state of a task.

    Raises:
        MCPError: if the server does not know it.
    """
    return await session.send_request(_Get(params=_Params(task_id=task_id)), TaskState)


def interval_s(milliseconds: float | None) -> float:
    """Return the time to wait before the next request, for what the server suggests."""
    # The server may send NaN, for which each comparison is false.
    if milliseconds is None or math.isnan(milliseconds):
        milliseconds = _DEFAULT_MS
    return min(max(milliseconds / 1000, _SHORTEST_S), _LONGEST_S)
