"""A client of the Python SDK that holds calls as tasks; the SDK knows no tasks, so the test defines them as SEP-2663 does."""

from typing import Any, Literal, TypeVar

import anyio
import mcp_types as types
from mcp import Client
from mcp.client.extension import ClientExtension, ResultClaim
from pydantic import ConfigDict

EXTENSION = "io.modelcontextprotocol/tasks"
MISSING_CAPABILITY = -32021

Result = TypeVar("Result")


class Created(types.Result):
    """The result of ``tools/call`` that is a task."""

    result_type: Literal["task"]
    task_id: str
    status: str
    status_message: str | None = None
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    poll_interval_ms: int | None = None


class Anything(types.Result):
    """Any result, with its keys as they are in the protocol."""

    model_config = ConfigDict(extra="allow")

    @property
    def facts(self) -> dict[str, Any]:
        return self.model_extra or {}


class Params(types.RequestParams):
    """Parameters of a request about a task."""

    task_id: str
    input_responses: dict[str, Any] | None = None


class TaskRequest(types.Request[Params, str]):
    """A request about a task, whose header ``Mcp-Name`` is its id."""

    method: str
    name_param = "taskId"


class Tasks(ClientExtension):
    """Declares the extension; the test itself follows its tasks."""

    identifier = EXTENSION

    def claims(self) -> Any:
        """Return the kind of result that is a task."""
        return (ResultClaim(result_type="task", model=Created, resolve=self._never),)

    async def _never(self, *_: Any) -> Any:
        raise AssertionError("the test follows its tasks")


EXTENSIONS = [Tasks()]
ENDED = ("completed", "cancelled", "failed")


async def start(client: Client, name: str, args: dict[str, Any] | None = None) -> Any:
    """Call a tool, and return its result, a task, or the questions that it asks before it is one."""
    return await client.session.call_tool(
        name, args or {}, allow_claimed=True, allow_input_required=True
    )


async def ask(client: Client, method: str, task_id: str, **more: Any) -> dict[str, Any]:
    """Return the result of a request about a task."""
    request = TaskRequest(method=method, params=Params(task_id=task_id, **more))
    return (await client.session.send_request(request, Anything)).facts


async def get(client: Client, task_id: str) -> dict[str, Any]:
    """Return the state of a task."""
    return await ask(client, "tasks/get", task_id)


async def cancel(client: Client, task_id: str) -> dict[str, Any]:
    """Cancel a task."""
    return await ask(client, "tasks/cancel", task_id)


async def update(client: Client, task_id: str, **answers: Any) -> dict[str, Any]:
    """Answer questions of a task by their keys."""
    return await ask(client, "tasks/update", task_id, input_responses=answers)


async def until(client: Client, task_id: str, *statuses: str) -> dict[str, Any]:
    """Return the state of a task when it has one of the statuses, by default when it has ended."""
    with anyio.fail_after(30):
        while True:
            state = await get(client, task_id)
            if state["status"] in (statuses or ENDED):
                return state
