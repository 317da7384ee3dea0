"""Task of a client: its id, its place, and its form in the protocol."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, NamedTuple

from covalt_git import timestamps
from covalt_git.names import is_new_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    import mcp_types as types

    from covalt_git.json_values import JsonObject

EXTENSION = "io.modelcontextprotocol/tasks"
"""Id of the extension, in the capabilities of servers and clients."""

POLL_S = 1.0
"""Time between two requests of a client, and between two checks for a notification, in seconds."""

Status = Literal["working", "input_required", "completed", "cancelled", "failed"]

ENDED: frozenset[Status] = frozenset({"completed", "cancelled", "failed"})
"""The statuses that never change."""


class TaskPlace(NamedTuple):
    """The call that a task is, and the principal that made it: its id and its role.

    A task that is held ``at_once`` is not waited for.
    """

    chat_id: str
    call_id: str
    tool_id: str
    owner: tuple[str, str | None]
    at_once: bool = False

    @property
    def task_id(self) -> str:
        return f"{self.chat_id}.{self.call_id}"


class Task(NamedTuple):
    """The state of a task.

    Attributes:
        message: what a user may read about the state.
        ttl_ms: the time from its creation until it may be forgotten; None without a limit.
        requests: the questions that the client has to answer, in the form of the protocol, by their keys.
        result: the result of the call, if it is completed.
        error: the JSON-RPC error, if it failed.
    """

    task_id: str
    status: Status
    updated_at: str
    message: str = ""
    ttl_ms: int | None = None
    requests: Mapping[str, JsonObject] = MappingProxyType({})
    result: types.CallToolResult | None = None
    error: JsonObject | None = None

    def facts(self) -> JsonObject:
        """Return the ``Task`` of the protocol, without what depends on its status."""
        facts: JsonObject = {
            "taskId": self.task_id,
            "status": self.status,
            "createdAt": created_at(self.task_id),
            "lastUpdatedAt": self.updated_at,
            "ttlMs": self.ttl_ms,
        }
        if self.status not in ENDED:
            facts["pollIntervalMs"] = int(POLL_S * 1000)
        if self.message:
            facts["statusMessage"] = self.message
        return facts


def parsed(task_id: str) -> tuple[str, str] | None:
    """Return the ids of the chat and the call of a task; None if it is not the id of a task."""
    chat_id, _, call_id = task_id.rpartition(".")
    return (chat_id, call_id) if chat_id and is_new_id(call_id) else None


def created_at(task_id: str) -> str:
    """Return when a task was created: the time in the id of its call, which is the same after a restart."""
    milliseconds = int(task_id.rpartition(".")[2].replace("-", "")[:12], 16)
    return timestamps.written(datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds))


def lifetime_ms(task_id: str, end: str) -> int:
    """Return the time from the creation of a task until ``end``, a timestamp, in milliseconds."""
    passed = datetime.fromisoformat(end) - datetime.fromisoformat(created_at(task_id))
    return max(1, round(passed.total_seconds() * 1000))
