"""Approval of a client's call: asks the client to open the approval page, and waits for the decision.

The client's answer approves nothing, because the agent may have answered.  Only the record of the approval
counts.  :func:`decide` writes it for a principal that may approve the call and did not request it.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from covalt_git.access import NamedTool, may_decide_over_mcp
from covalt_git.calls.approvals import MayNotApproveError, find_approval
from covalt_git.calls.outcomes import CallOutcome, as_recorded
from covalt_git.conversations import commit_names
from covalt_git.elicitation.requests import CannotAskError, NotAnsweredError, inquire
from covalt_git.errors import CovaltError
from covalt_git.models.elicitation import Question
from covalt_git.models.project_config import DEFAULT_ANSWER_S
from covalt_git.names import is_new_id
from covalt_git.operations.calls import script_calls
from covalt_git.operations.context import Context
from covalt_git.scripts.stored_script import StoredScript
from covalt_git.system import file_lock
from covalt_git.text import display
from covalt_git.workspaces import commits
from covalt_git.workspaces.lock import ChatBusyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.calls.running import Follower
    from covalt_git.models.calls import Approval
    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.project import Project
    from covalt_git.workspaces.chat import ChatStore


KEY = "approval"
"""Key of the elicitation request that asks a client to open the page."""

PATIENCE_S = 30.0
"""Time to wait for a decision after the user opened the page, in seconds."""

REASON = "through the MCP tool resume"
"""The recorded reason of a decision by an MCP client."""

MOST_TIMES = 2
"""Number of requests to open the page; clients of the SDK give up after ten."""


def request_approval(
    project: Project,
    outcome: CallOutcome,
    follower: Follower,
    *,
    pages: Callable[[str], str | None],
    ask_again: bool,
) -> CallOutcome:
    """Return the outcome of a pending call after its approval, or the pending call.

    The call stays pending if ``pages`` has no URL for it, if the client cannot or does not open the page, or
    if no reviewer decides within :data:`PATIENCE_S`.  With ``ask_again``, the client is then asked a second time.
    """
    # A client that never decides would be sent to the same page for minutes before its agent learns the
    # execution_id.
    for _ in range(MOST_TIMES if ask_again else 1):
        approval = outcome.approval
        if approval is None or follower.cancel.is_set():
            break
        page = pages(approval.execution_id)
        if page is None:
            break
        try:
            inquiry = inquire(follower.respondent, {KEY: question(approval, page)})
            patience_s = project.config.limits.answer_s or DEFAULT_ANSWER_S
            answer = inquiry.wait(patience_s, follower.cancel)[KEY]
        except (CannotAskError, NotAnsweredError):
            break
        # A user who declines once must not be asked again; the answer itself approves nothing
        # (test_no_answer_of_a_client_approves_a_call).
        if answer["action"] != "accept":
            break
        outcome = _wait_for_decision(project, outcome, approval, follower)
    return outcome


def question(approval: Approval, page: str) -> Question:
    """Return the request to a client to open the page of an approval."""
    reasons = display.in_line(", ".join(approval.reasons))
    message = f"{approval.tool_id} needs approval: {reasons}"
    params = {"mode": "url", "message": message, "url": page}
    return Question(method="elicitation/create", params=params)


def _wait_for_decision(
    project: Project, outcome: CallOutcome, approval: Approval, follower: Follower
) -> CallOutcome:
    """Return the call after a decision, or after :data:`PATIENCE_S`.

    The time does not count while the approved call runs, which has a time limit of its own.
    """
    # Polled, because another process writes the decision.
    end = time.monotonic() + PATIENCE_S
    while not follower.cancel.is_set():
        with suppress(StillRunningError):
            outcome = current_outcome(project, approval)
            if outcome.approval is None or time.monotonic() > end:
                break
        follower.cancel.wait(file_lock.POLL_S)
    return outcome


class StillRunningError(CovaltError):
    """The call is approved and still running."""

    code = "still_running"
    http_status = 409


def resume(project: Project, execution_id: str) -> CallOutcome:
    """Return the outcome of a call that needed approval, or the pending call.

    If the files changed, so that a newer approval replaced it, that one is returned.

    Raises:
        CovaltError: ``unknown_execution``, if this principal requested no such call under this role.
        StillRunningError: while the call runs.
    """
    return current_outcome(project, _find_approval(project, execution_id))


def decide(
    project: Project,
    execution_id: str,
    follower: Follower,
    *,
    approved: bool,
    pages: Callable[[str], str | None] = lambda _: None,
) -> CallOutcome:
    """Approve or deny a pending call and return its outcome; report it as :func:`resume` if the client may not.

    Raises:
        CovaltError: ``unknown_execution``, if the client neither requested the call nor may decide about it.
        CovaltError: if the call cannot run, or the files have changed, so that a new approval is pending.
    """
    # Of any principal: a reviewer decides about calls of others.
    approval = _approval(project, execution_id)

    def may_decide(config: ProjectConfig, approval: Approval) -> bool:
        tool, principal = NamedTool(approval.tool_id), project.principal
        return may_decide_over_mcp(config, principal, tool, requested_by=approval.by)

    if approval is None or not may_decide(project.config, approval):
        if approval is not None and approval.state == "pending":
            _record_refusal(project, approval)
        return resume(project, execution_id)
    if approval.state == "pending":
        approvals = project.approvals(follower=follower)._replace(may_also=may_decide)
        with Context.of(project, follower=follower, page=pages) as context:
            return script_calls.decide(
                context, execution_id, REASON, approved=approved, approvals=approvals
            )
    return current_outcome(project, approval)


def _record_refusal(project: Project, approval: Approval) -> None:
    """Record that a client tried to decide a call and may not, although its answer is the pending call."""
    engine = project.engine()
    refusal = MayNotApproveError(engine, NamedTool(approval.tool_id))
    about = {"chat_id": approval.chat_id, "execution_id": approval.execution_id}
    engine.decisions.refused(
        refusal, approval.tool_id, approval.args, call_id=approval.call_id, **about
    )


def of_its_script(
    project: Project, outcome: CallOutcome, pages: Callable[[str], str | None]
) -> CallOutcome:
    """Return the outcome of the script that made a call: its end, or the call for which it waits now.

    A reviewer may not see all that the script has called; then the outcome of the decided call is all that they get.

    Raises:
        CovaltError: while the script runs, or if its process has ended.
    """
    script_id = outcome.parent
    if script_id is None:
        return outcome
    visibility, principal = project.visibility, project.principal
    with project.chats.open(outcome.call.chat_id) as chat:
        stored = StoredScript.read(chat, script_id)
        if stored is not None:
            is_own = (stored.script.by, stored.script.role) == (principal.id, principal.role)
            if not is_own and not script_calls.is_visible(visibility, chat, stored):
                return outcome
            waits = script_calls.outcome_of(chat, script_id, pages)
            if waits is not None:
                return waits
        manifest = chat.manifest(commit_names.of_call(chat, script_id))
        ended = as_recorded(chat, manifest)
        if manifest.record.by == principal.id or visibility.sees_call(
            ended.call.tool_id, ended.call.result
        ):
            return ended
        return outcome


def current_outcome(project: Project, approval: Approval) -> CallOutcome:
    """Return the outcome of the call of an approval, or the pending call with its newest approval.

    Raises:
        StillRunningError: while the call runs.
    """
    with project.chats.open(approval.chat_id) as chat:
        if approval.state == "pending" and approval.expires_at < commits.now():
            with project.writing(chat):
                pass  # the first writer records expired approvals
        call = chat.call(approval.call_id)
        if call is not None and call.status == "running":
            # Its process may have been killed: then the chat is not locked, and a writer records the end.
            with suppress(ChatBusyError), project.engine().writing(chat, timeout_s=0):
                call = chat.call(approval.call_id)
        newest = _newest(chat, approval)
        if call is None:
            return as_recorded(chat, chat.manifest(commit_names.of_call(chat, approval.call_id)))
        if newest.state == "pending":
            return CallOutcome(call.tool_call, newest, parent=call.parent)
    raise StillRunningError(
        "the call is approved and still running", hint="call the tool `resume` again for its result"
    )


def _find_approval(project: Project, execution_id: str) -> Approval:
    """Return the approval with that id, of a call of this principal."""
    requester = (project.principal.id, project.principal.role)
    approval = _approval(project, execution_id)
    # One error for all cases: another one would reveal that a call of another principal exists.
    if (
        approval
        and (approval.by, approval.role) == requester
        and project.catalog.sees(approval.tool_id)
    ):
        return approval
    raise CovaltError(
        f"no call of yours has the execution id {execution_id!r}",
        hint="pass the execution_id that the call returned",
        code="unknown_execution",
        http_status=404,
    )


def _approval(project: Project, execution_id: str) -> Approval | None:
    """Return the approval with that id, which any principal may have requested."""
    return find_approval(project.chats, execution_id) if is_new_id(execution_id) else None


def _newest(chat: ChatStore, approval: Approval) -> Approval:
    """Return the newest approval of the same call, as it is stored now."""
    current = chat.approval(approval.execution_id)
    while current is not None and current.superseded_by is not None:
        approval, current = current, chat.approval(current.superseded_by)
    return current or approval
