"""Calls by workers: what a server puts in the queue, and how a worker makes it."""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from covalt_git.access import Principal
from covalt_git.calls.approvals import ApprovalRenewedError
from covalt_git.calls.engine import CallRequest
from covalt_git.calls.preconditions import is_read_only
from covalt_git.errors import CovaltError
from covalt_git.models.queued_call import (
    Caller,
    QueuedAllowance,
    QueuedCall,
    QueuedDecision,
    QueuedEnd,
    RemoteError,
)
from covalt_git.names import ToolId, new_id
from covalt_git.operations.calls import calls, script_calls
from covalt_git.operations.context import Context
from covalt_git.operations.project_updates import root_of_call
from covalt_git.project import Project
from covalt_git.system.node_folder import commit_of
from covalt_git.toolsets.builtin_tools import RUN_SCRIPT, is_recorded
from covalt_git.workspaces.node_copy import reported
from covalt_git.workspaces.registry import OneChat
from covalt_git.workspaces.writing import has_unpushed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from covalt_git.calls.outcomes import CallOutcome
    from covalt_git.calls.running import Follower
    from covalt_git.catalog.catalog import Found
    from covalt_git.models.calls import Approval
    from covalt_git.workspaces.chat import ChatStore

_PLACE = "{execution_id}"
MOST_REPEATS = 3
"""Number of times that a call of an idempotent tool is repeated after its worker has died."""


def prepare_call(
    context: Context, chat: ChatStore, request: CallRequest, entry: Found | None
) -> QueuedCall | CallOutcome | None:
    """Check a call, and return it for the queue; its outcome, if it was made before; None if no worker is needed.

    A worker makes the calls of code that is not ours, and scripts.  The other built-in tools end before a message would
    reach a worker.

    Raises:
        CovaltError: as :func:`.calls.make_call`.
    """
    name = request.tool_id.replace(".", ":", 1)
    if request.script is not None or not (is_recorded(name) or name == RUN_SCRIPT):
        return None
    engine = context.engine()
    # Before the check, and in all chats: a call that was made does not run again, whatever is allowed now.
    repeated = engine.earlier_outcome(chat, request)
    if repeated is not None and not chat.is_followed:
        # The copy may show a call as pending that has ended at another node since.
        context.project.chats.follow(chat)
        repeated = engine.earlier_outcome(chat, request)
    if repeated is not None and not _repeats(context, repeated):
        return repeated
    entry = entry or engine.check(request)
    if entry.tool.kind == "builtin" and entry.tool.tool_id != RUN_SCRIPT:
        return None
    return _described(
        context,
        context.follower,
        call_id=request.call_id or new_id(),
        chat_id=chat.id,
        tool_id=request.tool_id,
        args=request.args,
        message_id=request.message_id,
        tag=tag_of(context, request.tool_id, entry.tool.tool_id),
        # Read-only calls run on copies, and a script takes the lock for each of its calls.
        is_serial=not (is_read_only(entry.tool) or entry.tool.tool_id == RUN_SCRIPT),
        reported=reported(chat.store.path),
    )


def _repeats(context: Context, outcome: CallOutcome) -> bool:
    """Return whether a worker repeats a call that was made before, or has repeated it.

    Then the answer is the result of the repetition, whether its client has followed the call or requests it again.
    """
    if not _was_interrupted(outcome):
        return False
    with suppress(CovaltError):  # its tool is gone
        return _is_idempotent(context, outcome.call.tool_id)
    return False


def described_decision(
    context: Context, approval: Approval, decision: QueuedDecision, follower: Follower
) -> QueuedCall:
    """Return the approval of a call, which runs it, for the queue; ``follower`` is that of the call."""
    return _described(
        context,
        follower,
        call_id=approval.call_id,
        chat_id=approval.chat_id,
        tool_id=approval.tool_id,
        args=approval.args,
        decision=decision,
        tag=tag_of(context, approval.tool_id),
    )


def tag_of(context: Context, *tool_ids: str) -> str:
    """Return the tag of the workers that make the calls of a tool; of an alias and its tool, the first that has one."""
    workers = context.project.config.workers
    tags = (workers.tag_of(ToolId.parse(tool_id).path) for tool_id in tool_ids)
    return next(filter(None, tags), "")


def _described(context: Context, follower: Follower, **fields: Any) -> QueuedCall:
    project = context.project
    principal, only, respondent = project.principal, project.only_chat, follower.respondent
    call = QueuedCall(
        caller=Caller(
            id=principal.id,
            role=principal.role,
            protocol=principal.protocol,
            token=principal.token,
        ),
        only_chat=None if only is None else tuple(only),
        can_ask=tuple(sorted(respondent.kinds)),
        pages=context.page(_PLACE),
        project=commit_of(project.root),
        queued_at=time.time(),
        **fields,
    )
    if call.decision is None or respondent.answers is None:
        return call
    decision = call.decision.model_copy(update={"answers": dict(respondent.answers)})
    return call.model_copy(update={"decision": decision})


def perform(
    root: Path,
    call: QueuedCall,
    follower: Follower,
    waiting: Callable[[str], None],
) -> QueuedEnd:
    """Make a call of the queue, or decide it and make it, and return its end.

    ``root`` is the folder of the worker.  A call that names a commit of the project runs that one, whatever commit the
    worker is at.  A call that an earlier worker began is not repeated, unless its tool is idempotent.  Access, rules and grants are
    decided again, as those of this machine are now.

    Raises:
        CovaltError: if it is refused; see :func:`refused`.
    """
    principal = Principal(call.caller.id, call.caller.role, call.caller.protocol, call.caller.token)
    only = None if call.only_chat is None else OneChat(*call.only_chat)
    root = root_of_call(root, call.project)
    project = replace(Project.cached(root, None), principal=principal, only_chat=only)
    pages = call.pages

    def page(execution_id: str) -> str | None:
        return None if pages is None else pages.replace(_PLACE, execution_id)

    with Context.of(project, waiting=waiting, follower=follower, page=page) as context:
        # The push of a call that runs decides whether these are the newest refs.
        chat = context.chat(call.chat_id, None if call.decision else call.reported)
        try:
            outcome = _decide(context, call) if call.decision else _make(context, chat, call)
        finally:  # a refused call may have closed an approval
            context.update_index(chat)
        end = _end_of(outcome)
        return end.model_copy(update={"reported": reported(chat.store.path)})


def _make(context: Context, chat: ChatStore, call: QueuedCall) -> CallOutcome:
    call_id = call.call_id
    for number in range(1, MOST_REPEATS + 1):
        # The server has searched the other chats for an id that its client chose.
        request = CallRequest(call.tool_id, call.args, call.message_id, call_id, only_in_chat=True)
        outcome = _make_followed(context, chat, request)
        is_old = outcome.repeated and _was_interrupted(outcome)
        if not (is_old and _is_idempotent(context, call.tool_id)):
            return outcome
        call_id = repeated_id(call.call_id, number)
    return outcome


def _make_followed(context: Context, chat: ChatStore, request: CallRequest) -> CallOutcome:
    """Make a call in a chat whose copy may be older than the git server, which was not asked.

    The first push of the call finds that out, before the tool runs.  What ends the call before that may be wrong.
    """
    follow = context.project.chats.follow
    try:
        outcome = calls.make_call(context, chat, request)
    except CovaltError:
        if chat.is_followed:
            raise
        follow(chat)
        return calls.make_call(context, chat, request)
    if outcome.repeated and (not chat.is_followed or has_unpushed(chat)):
        follow(chat)
        # The record of this node may be one that the server has not accepted.
        if has_unpushed(chat):
            with context.writing(chat):
                pass
        return calls.make_call(context, chat, request)
    return outcome


def _was_interrupted(outcome: CallOutcome) -> bool:
    return outcome.error is not None and outcome.error.code == "interrupted"


def repeated_id(call_id: str, number: int) -> str:
    """Return the id of a repetition of an interrupted call: the same for each worker that repeats it."""
    digest = hashlib.sha256(f"{call_id} {number}".encode()).hexdigest()
    # The time of a UUID of version 7 stays, and its random part is replaced.
    return f"{call_id[:15]}{digest[:3]}-{call_id[19]}{digest[3:6]}-{digest[6:18]}"


def _is_idempotent(context: Context, tool_id: str) -> bool:
    target = context.catalog.find_callable(tool_id)
    return all(tool.annotations.idempotent is True for tool in target.tools)


def _decide(context: Context, call: QueuedCall) -> CallOutcome:
    decision = call.decision
    assert decision is not None
    approvals = context.approvals()
    if decision.answers is not None:
        approvals = approvals.answering(approvals.find(decision.execution_id), decision.answers)
    allow = decision.allow
    return script_calls.decide(
        context,
        decision.execution_id,
        decision.reason,
        approved=True,
        approvals=approvals,
        allow=None if allow is None else script_calls.AllowedNext(allow.calls, allow.same),
        later=decision.later,
    )


def decision_of(
    execution_id: str,
    reason: str | None,
    allow: script_calls.AllowedNext | None,
    *,
    later: bool,
) -> QueuedDecision:
    """Return the approval of a call as a worker receives it."""
    allowed = None if allow is None else QueuedAllowance(calls=allow.calls, same=allow.same)
    return QueuedDecision(execution_id=execution_id, reason=reason, allow=allowed, later=later)


def _end_of(outcome: CallOutcome) -> QueuedEnd:
    call = outcome.call
    if call.post_manifest_id is not None:
        return QueuedEnd(manifest_id=call.post_manifest_id, repeated=outcome.repeated)
    row = call.model_dump(mode="json") | {"links": call.links, "fields": call.fields}
    approval = outcome.approval
    return QueuedEnd(
        call=row,
        repeated=outcome.repeated,
        execution_id=None if approval is None else approval.execution_id,
    )


def refused(error: CovaltError) -> QueuedEnd:
    """Return the end of a call that was refused."""
    return QueuedEnd(
        error=RemoteError(
            message=error.message,
            hint=error.hint,
            code=error.code,
            http_status=error.http_status,
            exit_code=error.exit_code,
            body=error.as_json(),
            renewed=error.execution_id if isinstance(error, ApprovalRenewedError) else None,
        )
    )
