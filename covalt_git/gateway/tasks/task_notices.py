"""Notifications of the state of tasks, on the stream of ``subscriptions/listen``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY

from covalt_git.errors import CovaltError
from covalt_git.gateway.protocol import CHECKED, RECHECK
from covalt_git.gateway.tasks.task import ENDED, POLL_S
from covalt_git.gateway.tasks.task_requests import check_support, details

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext
    from mcp.server.subscriptions import ListenHandler

    from covalt_git.gateway.tasks.task_requests import TaskRequests
    from covalt_git.json_values import JsonObject

MOST_TASKS = 64
"""Number of tasks of which a stream notifies its client; the others are not acknowledged."""

_UNAVAILABLE = 503
"""HTTP status of the error about a token that cannot be checked now."""


class TaskNotification(types.Notification[dict[str, Any], Literal["notifications/tasks"]]):
    """The state of a task, as ``tasks/get`` returns it."""

    method: Literal["notifications/tasks"] = "notifications/tasks"


class TaskListener:
    """Handler of ``subscriptions/listen`` that also notifies of the tasks which the client names."""

    def __init__(self, streams: ListenHandler, requests: TaskRequests) -> None:
        self._streams = streams
        self._requests = requests

    async def __call__(
        self,
        ctx: ServerRequestContext[Any, Any],
        params: types.SubscriptionsListenRequestParams,
    ) -> types.SubscriptionsListenResult:
        """Serve one stream; tasks that the client does not have are left out of its acknowledgement.

        Raises:
            MCPError: if the client names tasks without declaring the extension.
        """
        named = (params.notifications.model_extra or {}).get("taskIds")
        if not isinstance(named, list) or not named:
            stream: Any = _CheckedSession(ctx)
            return await self._streams(replace(ctx, session=stream), params)
        check_support(ctx)
        states: dict[str, JsonObject] = {}
        for task_id in dict.fromkeys(task_id for task_id in named if isinstance(task_id, str)):
            if len(states) < MOST_TASKS:
                try:
                    states[task_id] = details(ctx, await self._requests.state(ctx, task_id))
                except MCPError:
                    continue
        session = _CheckedSession(ctx, [*states])
        stream = session
        refusal: MCPError | None = None

        async def notify() -> None:
            nonlocal refusal
            try:
                await self._notify(ctx, session, states)
            except MCPError as error:
                refusal = error
                group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(notify)
            try:
                result = await self._streams(replace(ctx, session=stream), params)
            except (
                MCPError
            ) as error:  # from within the group, it would become an error of the server
                refusal = error
            group.cancel_scope.cancel()
        if refusal is not None:
            raise refusal
        return result

    async def _notify(
        self,
        ctx: ServerRequestContext[Any, Any],
        session: _CheckedSession,
        states: dict[str, JsonObject],
    ) -> None:
        """Send the states of tasks, and then each change of one until it has ended."""
        await session.acknowledged.wait()
        sent: dict[str, JsonObject] = {}
        while states:
            for task_id, state in states.items():
                # A task that another process runs has a new `lastUpdatedAt` each time.
                same = {key: value for key, value in state.items() if key != "lastUpdatedAt"}
                if sent.get(task_id) == same:
                    continue
                sent[task_id] = same
                meta = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
                notification: Any = TaskNotification(params={**state, "_meta": meta})
                await session.send_notification(notification, related_request_id=ctx.request_id)
            earlier = states
            going = [task_id for task_id, state in states.items() if state["status"] not in ENDED]
            # Polled, because another process may decide an approval.
            await anyio.sleep(POLL_S if going else 0)
            states = {}
            for task_id in going:
                try:
                    states[task_id] = details(ctx, await self._requests.state(ctx, task_id))
                except MCPError as error:
                    # Otherwise the tool is hidden from the client now. While `covalt.yaml` has an error, which its user
                    # is editing, the state is unknown.
                    if error.code != types.INVALID_PARAMS:
                        states[task_id] = earlier[task_id]


class _CheckedSession:
    """The session of a stream: it checks the token before each notification, and acknowledges the tasks of the stream.

    A token may be revoked while the stream is open, and the endpoint looks for this only from time to time.
    """

    def __init__(
        self, ctx: ServerRequestContext[Any, Any], task_ids: list[str] | None = None
    ) -> None:
        self._ctx = ctx
        self._session: Any = ctx.session
        self._task_ids = task_ids
        self.acknowledged = anyio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def send_notification(self, notification: Any, **options: Any) -> None:
        """Send a notification.

        Raises:
            MCPError: if a new request with the token would be refused, which ends the stream.
        """
        await self._check_token()
        is_first = isinstance(notification, types.SubscriptionsAcknowledgedNotification)
        if is_first and self._task_ids is not None:
            params = notification.params
            honored = params.notifications.model_copy(update={"taskIds": self._task_ids})
            changed = params.model_copy(update={"notifications": honored})
            notification = notification.model_copy(update={"params": changed})
        await self._session.send_notification(notification, **options)
        if is_first:
            self.acknowledged.set()

    async def _check_token(self) -> None:
        request = self._ctx.request
        recheck = None if request is None else request.scope.get(RECHECK)
        if request is None or recheck is None:  # as on stdio
            return
        while True:
            try:
                # Its role may have changed, and with it the principal of the stream.
                if await recheck() == request.scope[CHECKED]:
                    return
            except CovaltError as error:
                if error.http_status == _UNAVAILABLE:
                    await anyio.sleep(POLL_S)
                    continue
            raise MCPError(types.INVALID_REQUEST, "the token of this stream is not valid any more")
