"""Requests about tasks: ``tasks/get``, ``tasks/update`` and ``tasks/cancel``, and results of ``tools/call`` that are tasks."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types.methods import serialize_server_result

from covalt_git.gateway import elicitation
from covalt_git.gateway.protocol import is_modern
from covalt_git.gateway.tasks import task_state
from covalt_git.gateway.tasks.task import EXTENSION
from covalt_git.gateway.tasks.task_state import TaskQuery

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from mcp.server import ServerRequestContext
    from mcp.server.context import CallNext, HandlerResult
    from mcp.server.lowlevel import Server

    from covalt_git.gateway.client_calls import Calls
    from covalt_git.gateway.large_results import Delivery
    from covalt_git.gateway.service import Gateway
    from covalt_git.gateway.tasks.task import Task
    from covalt_git.json_values import JsonObject

    Context = ServerRequestContext[Any, Any]
    ReadProject = Callable[[Callable[[], Any]], Awaitable[Any]]

METHODS = ("tasks/get", "tasks/update", "tasks/cancel")

_MOST_OPENED = 4096
"""Number of pages that clients have shown and that are remembered."""


class TaskParams(types.RequestParams):
    """Parameters of a request about a task."""

    task_id: str


class UpdateParams(TaskParams):
    """Parameters of ``tasks/update``: the answers to questions, by their keys."""

    input_responses: dict[str, Any]


def supports_tasks(ctx: Context) -> bool:
    """Return whether a request declares the extension, which each request does for itself."""
    capabilities = ctx.session.client_capabilities
    extensions = None if capabilities is None else capabilities.extensions
    # A result with another `resultType` cannot be sent in older versions of the protocol.
    return is_modern(ctx) and extensions is not None and EXTENSION in extensions


def check_support(ctx: Context) -> None:
    """Check that a request declares the extension.

    Raises:
        MCPError: MISSING_REQUIRED_CLIENT_CAPABILITY, if it does not.
    """
    if not supports_tasks(ctx):
        raise MCPError(
            types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            f"the client did not declare the extension {EXTENSION}",
            {"requiredCapabilities": {"extensions": {EXTENSION: {}}}},
        )


class TaskRequests:
    """Handlers of requests about the tasks of one endpoint.

    Arguments:
        calls: the calls of the endpoint.
        gateway_of: returns the gateway of a request.
        delivery_of: returns what the client of a request can receive.
        read_project: runs a function in a thread, and raises its errors as those of the protocol.
    """

    def __init__(
        self,
        calls: Calls,
        gateway_of: Callable[[Context], Gateway],
        delivery_of: Callable[[Context], Delivery],
        read_project: ReadProject,
    ) -> None:
        self._calls = calls
        self._gateway_of = gateway_of
        self._delivery_of = delivery_of
        self._read_project = read_project
        self._opened: OrderedDict[str, None] = OrderedDict()

    def add_to(self, server: Server[Any]) -> None:
        """Declare the extension, and register the handlers."""
        server.extensions[EXTENSION] = {}
        server.middleware.append(_check_name)
        server.add_request_handler(METHODS[0], TaskParams, self._get)
        server.add_request_handler(METHODS[1], UpdateParams, self._update)
        server.add_request_handler(METHODS[2], TaskParams, self._cancel)

    async def state(self, ctx: Context, task_id: str) -> Task:
        """Return the state of a task of the client.

        Raises:
            MCPError: INVALID_PARAMS, if the client has no such task.
        """
        read = partial(task_state.read, self._gateway_of(ctx), self._query(ctx, task_id))
        state: Task = await self._read_project(read)
        return state

    async def created(self, ctx: Context, task_id: str) -> HandlerResult:
        """Return the result of ``tools/call`` for a call that has become a task."""
        state = await self.state(ctx, task_id)
        return {"resultType": "task", **state.facts()}

    async def _get(self, ctx: Context, params: TaskParams) -> HandlerResult:
        check_support(ctx)
        return details(ctx, await self.state(ctx, params.task_id))

    async def _update(self, ctx: Context, params: UpdateParams) -> HandlerResult:
        check_support(ctx)
        state = await self.state(ctx, params.task_id)
        # The others are unknown, answered or withdrawn, and the specification says to ignore them.
        answers = {
            key: params.input_responses[key]
            for key in state.requests.keys() & params.input_responses
        }
        live = self._calls.task(params.task_id)
        inquiry = None if live is None else live.asking()
        for key in answers:
            if key.startswith(f"{task_state.PAGE}-"):
                # The answer approves nothing: it only says that the user was shown the page.
                self._opened[key] = None
        while len(self._opened) > _MOST_OPENED:
            self._opened.popitem(last=False)
        if inquiry is not None:
            prefix = f"{inquiry.id}."
            own = {
                key.removeprefix(prefix): answer
                for key, answer in answers.items()
                if key.startswith(prefix)
            }
            elicitation.deliver(inquiry, own)
        return {}

    async def _cancel(self, ctx: Context, params: TaskParams) -> HandlerResult:
        check_support(ctx)
        cancel = partial(task_state.cancel, self._gateway_of(ctx), self._query(ctx, params.task_id))
        await self._read_project(cancel)
        return {}

    def _query(self, ctx: Context, task_id: str) -> TaskQuery:
        opens_pages = "url" in elicitation.kinds_of(ctx)
        live = self._calls.task(task_id)
        return TaskQuery(task_id, self._delivery_of(ctx), live, opens_pages, self._opened)


def details(ctx: Context, state: Task) -> JsonObject:
    """Return the ``DetailedTask`` of the protocol."""
    facts = state.facts()
    if state.status == "input_required":
        facts["inputRequests"] = dict(state.requests)
    if state.error is not None:
        facts["error"] = state.error
    if state.result is not None:
        dumped = state.result.model_dump(mode="json", by_alias=True, exclude_none=True)
        facts["result"] = serialize_server_result("tools/call", ctx.protocol_version, dumped)
    return facts


async def _check_name(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Check the header ``Mcp-Name`` of a request about a task, which the SDK does for methods of the protocol only.

    Raises:
        MCPError: HEADER_MISMATCH, if it is not the id of the task.
    """
    if ctx.method in METHODS and ctx.request is not None and is_modern(ctx):
        params: Mapping[str, Any] = ctx.params or {}
        named = decode_header_value(ctx.request.headers.get(MCP_NAME_HEADER))
        if params.get("taskId") is not None and named != params["taskId"]:
            message = (
                f"{MCP_NAME_HEADER} header does not match the request body's 'taskId' parameter"
            )
            raise MCPError(types.HEADER_MISMATCH, message)
    return await call_next(ctx)
