"""State of a task, derived from its call, its approval, and the calls that run in this process."""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import mcp_types as types
from mcp import MCPError

from covalt_git import timestamps
from covalt_git.access.security import TokenRefusedError
from covalt_git.calls.background import MAX_STORED_S
from covalt_git.calls.outcomes import as_recorded
from covalt_git.calls.running import RUNNING
from covalt_git.calls.servers import left_tasks
from covalt_git.conversations import commit_names
from covalt_git.elicitation.requests import CannotAskError, Inquiry, refused_kind
from covalt_git.errors import CovaltError
from covalt_git.gateway import agent_hints, approvals, elicitation, results
from covalt_git.gateway.tasks import task
from covalt_git.gateway.tasks.task import ENDED, Task
from covalt_git.operations.calls import script_calls
from covalt_git.operations.context import Context
from covalt_git.scripts.script_run import paused_outcome
from covalt_git.scripts.stored_script import StoredScript
from covalt_git.workspaces.lock import ChatBusyError
from covalt_git.workspaces.script_claim import ScriptBusyError

if TYPE_CHECKING:
    from collections.abc import Container

    from covalt_git.calls.outcomes import CallOutcome
    from covalt_git.gateway.client_calls import ClientTask
    from covalt_git.gateway.large_results import Delivery
    from covalt_git.gateway.service import Gateway
    from covalt_git.gateway.tasks.task import Status
    from covalt_git.json_values import JsonObject
    from covalt_git.models.calls import Approval
    from covalt_git.project import Project
    from covalt_git.workspaces.chat import ChatStore

_logger = logging.getLogger(__name__)

WITHDRAWN = "its client cancelled the task"
"""The recorded reason of a call that was cancelled as a task."""

PAGE = approvals.KEY
"""Beginning of the keys of requests to open the page of an approval."""

_FAILURES = frozenset({"interrupted", "internal_error"})
"""Codes of recorded errors that are failures of covalt-git, not answers of the tool."""


class UnknownTaskError(CovaltError):
    """No task of the client has the id; the same error for tasks of others, so that it does not reveal them."""

    code = "unknown_task"
    http_status = 404

    def __init__(self) -> None:
        super().__init__(
            "no task of yours has this id",
            hint="a call that had not begun when the server stopped is no task any more, and has run nothing",
        )


class TaskQuery(NamedTuple):
    """A client's request about a task.

    Attributes:
        live: the task of that id in this process, which may be of another principal.
        opens_pages: whether the client can show its user the page of an approval.
        opened: the keys of the pages that the client has shown.
    """

    task_id: str
    delivery: Delivery
    live: ClientTask | None = None
    opens_pages: bool = False
    opened: Container[str] = frozenset()


def read(gateway: Gateway, query: TaskQuery) -> Task:
    """Return the state of a task.

    Raises:
        UnknownTaskError: if the client's principal made no such call, or may not see its tool any more.
    """
    project, live = gateway.project(), query.live
    ids = task.parsed(query.task_id)
    if ids is None:
        raise UnknownTaskError
    if live is not None:
        owner = (project.principal.id, project.principal.role)
        if live.place.owner != owner or not project.catalog.sees(live.place.tool_id):
            raise UnknownTaskError
        if not live.is_over():
            return _running(live)
    try:
        outcome = _stored(project, gateway, *ids)
    except (approvals.StillRunningError, ScriptBusyError):
        return Task(query.task_id, "working", timestamps.now())
    except _ScriptLeftError as error:
        return Task(query.task_id, "working", timestamps.now(), error.message)
    if outcome is not None:
        return of_outcome(gateway, project, outcome, query)
    if live is not None:
        return _refused(live, query.delivery)
    raise UnknownTaskError


def cancel(gateway: Gateway, query: TaskQuery) -> None:
    """Cancel the call of a task: end it if it runs in this process, withdraw it if it is pending.

    A call that has ended, or that another process runs, stays as it is.

    Raises:
        UnknownTaskError: as :func:`read`.
    """
    current = read(gateway, query)
    if current.status in ENDED:
        return
    if query.live is not None and not query.live.is_over():
        query.live.cancel.set_as(WITHDRAWN)
        return
    project = gateway.project()
    chat_id, call_id = task.parsed(query.task_id) or ("", "")
    with Context.of(project) as context:
        chat = context.chat(chat_id)
        call = chat.call(call_id)
        if call is None:
            # It was paused a moment ago; a script that runs elsewhere cannot be cancelled from here.
            with suppress(ScriptBusyError, commit_names.UnknownCommitError):
                script_calls.cancel_script(context, chat, call_id)
        elif call.status == "pending" and call.server_task is not None:
            # It is busy while a server of covalt-git records its answer.
            with suppress(ChatBusyError):
                left_tasks.cancel(project.engine(), chat, call, WITHDRAWN)
        elif call.status == "pending" and call.execution_id is not None:
            # A reviewer may decide at the same time: then the call has run, or will not.
            with suppress(CovaltError):
                project.approvals().withdraw(call.execution_id, WITHDRAWN)
        else:
            with suppress(CovaltError):  # it runs in another process
                RUNNING.cancel(call_id, WITHDRAWN)


def of_outcome(gateway: Gateway, project: Project, outcome: CallOutcome, query: TaskQuery) -> Task:
    """Return the task of a call that is pending or recorded."""
    call, task_id = outcome.call, query.task_id
    if outcome.approval is not None:
        return _pending(gateway, outcome.approval, query)
    updated_at = call.finished_at or call.started_at
    error = outcome.error
    if error is None:
        result = gateway.task_result(project, outcome, query.delivery)
        return Task(task_id, "completed", updated_at, result=result)
    if error.code == "cancelled":
        return Task(task_id, "cancelled", updated_at, error.message)
    kind = refused_kind(error.message) if error.code == CannotAskError.code else None
    if error.code in _FAILURES or kind is not None:
        facts: JsonObject = {"error": error.code, "error_description": error.message}
        code = types.INTERNAL_ERROR
        if kind is not None:
            code = types.MISSING_REQUIRED_CLIENT_CAPABILITY
            facts["requiredCapabilities"] = {elicitation.CAPABILITIES[kind]: {}}
        problem = {"code": code, "message": error.message, "data": facts}
        return Task(task_id, "failed", updated_at, error.message, error=problem)
    result = gateway.task_result(project, outcome, query.delivery)
    return Task(task_id, "completed", updated_at, error.message, result=result)


class _ScriptLeftError(CovaltError):
    """The process of a script has ended, and a user can continue the script."""


def _stored(project: Project, gateway: Gateway, chat_id: str, call_id: str) -> CallOutcome | None:
    """Return the pending or recorded call of the project's principal; None if it has no such call.

    Raises:
        StillRunningError: while another process runs it.
        ScriptBusyError: the same for a script.
        _ScriptLeftError: if it is a script whose process has ended.
    """
    if not project.chats.has(chat_id):
        return None
    owner = (project.principal.id, project.principal.role)
    sees = project.catalog.sees
    with project.chats.open(chat_id) as chat:
        call = _settled(project, chat, call_id)
        if call is not None:
            if (call.by, call.role) != owner or not sees(call.tool_id):
                return None
            approval = chat.approval(call.execution_id) if call.execution_id else None
            if approval is None or call.status == "running":
                raise approvals.StillRunningError("the call is still running")
            return approvals.current_outcome(project, approval)
        script = StoredScript.read(chat, call_id)
        if script is not None:
            facts = script.script
            if (facts.by, facts.role) != owner or not sees(facts.tool_id):
                return None
            state, approval = script_calls.state_of(chat, script)
            if approval is not None:
                return paused_outcome(script, approval, gateway.pages)
            if state == "running":
                raise ScriptBusyError(call_id)
            raise _ScriptLeftError(
                "the process that ran the script has ended; a user can continue it"
            )
        try:
            manifest = chat.manifest(commit_names.of_call(chat, call_id))
        except commit_names.UnknownCommitError:
            return None
        outcome, record = as_recorded(chat, manifest), manifest.record.call
        # Earlier versions stored the role in the approval only.
        decided = chat.approval(record.execution_id) if record and record.execution_id else None
        role = decided.role if decided is not None else record and record.role
        has_role = role == owner[1]
        is_own = (
            has_role
            and manifest.record.by == owner[0]
            and project.visibility.sees_call(outcome.call.tool_id, outcome.call.result)
        )
        return outcome if is_own else None


def _settled(project: Project, chat: ChatStore, call_id: str) -> Any:
    """Return the unfinished call of a chat, after the end of a call whose process has ended is recorded."""
    call = chat.call(call_id)
    if call is None or call.status != "running":
        return call
    # Its process may have been killed: then the chat is not locked, and a writer records the end.
    with suppress(ChatBusyError), project.engine().writing(chat, timeout_s=0):
        call = chat.call(call_id)
    return call


def _pending(gateway: Gateway, approval: Approval, query: TaskQuery) -> Task:
    question = approvals.question(approval, gateway.pages(approval.execution_id) or "")
    requests: dict[str, JsonObject] = {}
    message = f"{question.message}; a user approves or denies it, at a terminal or in the browser"
    key = page_key(approval)
    if query.opens_pages and key not in query.opened and question.params["url"]:
        requests = elicitation.request_objects(Inquiry({key: question}))
    state: Status = "input_required" if requests else "working"
    return Task(
        query.task_id,
        state,
        approval.created_at,
        message,
        task.lifetime_ms(query.task_id, approval.expires_at),
        requests,
    )


def page_key(approval: Approval) -> str:
    """Return the key of the request to open the page of an approval, which no other request of a task has."""
    return f"{PAGE}-{approval.execution_id}"


def _running(live: ClientTask) -> Task:
    place = live.place
    inquiry = live.asking()
    if inquiry is not None:
        # With the id of the inquiry: a tool may ask twice under one key, and keys of a task must differ.
        objects = elicitation.request_objects(inquiry)
        requests = {f"{inquiry.id}.{key}": request for key, request in objects.items()}
        if requests:
            return Task(place.task_id, "input_required", live.changed_at, requests=requests)
    return Task(place.task_id, "working", live.changed_at, live.message)


def _refused(live: ClientTask, delivery: Delivery) -> Task:
    """Return the task of a call that ended without a record, as this process has it."""
    end = datetime.now(UTC) + timedelta(seconds=MAX_STORED_S)
    place, error = live.place, live.outcome
    ttl_ms = task.lifetime_ms(place.task_id, timestamps.written(end))
    state = Task(place.task_id, "failed", live.changed_at, ttl_ms=ttl_ms)
    if isinstance(error, TokenRefusedError):
        return state._replace(message=error.message, error=_error_object(error))
    if isinstance(error, CovaltError) and live.cancel.is_set():
        return state._replace(status="cancelled", message=live.cancel.why)
    if isinstance(error, CovaltError):
        result = results.of_error(error, delivery._replace(schema={}))
        return state._replace(status="completed", message=error.message, result=result)
    if isinstance(error, types.CallToolResult):
        was_cancelled = live.cancel.is_set() and error.is_error
        if was_cancelled:
            return state._replace(status="cancelled", message=live.cancel.why)
        return state._replace(status="completed", result=error)
    if isinstance(error, MCPError):
        problem = error.error.model_dump(mode="json", by_alias=True, exclude_none=True)
        return state._replace(message=error.error.message, error=problem)
    _logger.error("the call of a task failed because of a bug in covalt-git", exc_info=error)
    message = "this is a bug in covalt-git; the details are on its stderr"
    return state._replace(message=message, error={"code": types.INTERNAL_ERROR, "message": message})


def _error_object(error: CovaltError) -> JsonObject:
    return {
        "code": types.INVALID_REQUEST,
        "message": error.message,
        "data": agent_hints.error_facts(error),
    }
