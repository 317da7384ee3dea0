"""Notifications of the state of tasks, on the stream of ``subscriptions/listen``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY

from covalt_git.gateway.tasks.task import ENDED, POLL_S
from covalt_git.gateway.tasks.task_requests import check_support, details

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext
    from mcp.server.subscriptions import ListenHandler

    from covalt_git.gateway.tasks.task_requests import TaskRequests
    from covalt_git.json_values import JsonObject

MOST_TASKS = 64
"""Number of tasks of which a stream notifies its client; the others are not acknowledged."""


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
            return await self._streams(ctx, params)
        check_support(ctx)
        states: dict[str, JsonObject] = {}
        for task_id in dict.fromkeys(task_id for task_id in named if isinstance(task_id, str)):
            if len(states) < MOST_TASKS:
                try:
                    states[task_id] = details(ctx, await self._requests.state(ctx, task_id))
                except MCPError:
                    continue
        session = _TaskSession(ctx, [*states])
        stream: Any = session
        refusal: MCPError | None = None

        async with anyio.create_task_group() as group:
            group.start_soon(self._notify, ctx, session, states)
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
        session: _TaskSession,
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


class _TaskSession:
    """The session of a stream, which acknowledges the tasks of the stream."""

    def __init__(self, ctx: ServerRequestContext[Any, Any], task_ids: list[str]) -> None:
        self._session: Any = ctx.session
        self._task_ids = task_ids
        self.acknowledged = anyio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def send_notification(self, notification: Any, **options: Any) -> None:
        """Send a notification."""
        is_first = isinstance(notification, types.SubscriptionsAcknowledgedNotification)
        if is_first:
            params = notification.params
            honored = params.notifications.model_copy(update={"taskIds": self._task_ids})
            changed = params.model_copy(update={"notifications": honored})
            notification = notification.model_copy(update={"params": changed})
        await self._session.send_notification(notification, **options)
        if is_first:
            self.acknowledged.set()
