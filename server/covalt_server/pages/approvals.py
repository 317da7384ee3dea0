"""Pages of approvals: the exact call that would run, and buttons to approve or deny it."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, get_args

from flask import Blueprint, flash, render_template, request

from covalt_git.calls.approvals import ApprovalRenewedError
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.models.calls import ApprovalState, main_argument
from covalt_git.operations import scripts
from covalt_git.operations.calls import approvals
from covalt_git.operations.calls.script_calls import AllowedNext
from covalt_git.operations.chats import branches, conversation
from covalt_git.operations.results import CallLine
from covalt_server.api import streams
from covalt_server.pages import elicitation, layout
from covalt_server.pages.scripts import source_lines
from covalt_server.request_context import ask, context

if TYPE_CHECKING:
    from collections.abc import Iterable

    from werkzeug.wrappers import Response

    from covalt_git.operations.chats.conversation import TurnMessage

pages = Blueprint("approvals", __name__)

MOST_COMPARED = 12
"""Number of approvals of a list whose files are compared with those of the request."""

_LONGEST_REASON = 1000

STATES: tuple[str, ...] = get_args(ApprovalState)


@pages.get("/approvals")
def approval_list() -> str:
    """List the pending approvals, or those in another state, oldest first, as the start page and the CLI do."""
    state = request.args.get("state", "pending")
    approval_rows = ask(approvals.list_approvals, state=state).approvals
    return render_template(
        "approval_list.html",
        approvals=approval_rows,
        state=state,
        states=STATES,
        lines={row.execution_id: _line(row) for row in approval_rows},
        stale=stale_approvals(row.execution_id for row in approval_rows if row.state == "pending"),
    )


def stale_approvals(execution_ids: Iterable[str]) -> dict[str, str]:
    """Return why pending approvals cannot be approved any more, by their ids, and what to do.

    Only the first ones are compared: each needs a scan of a workspace.
    """
    stale = {}
    for execution_id in islice(execution_ids, MOST_COMPARED):
        with suppress(CovaltError):
            detail = ask(approvals.get_approval, execution_id=execution_id)
            if detail.may_settle and (detail.changes or detail.tool_changed):
                changed = "files have" if detail.changes else "toolset has"
                stale[execution_id] = (
                    f"It cannot be approved any more, because its {changed} changed since the request."
                    " Request a new approval, or deny it."
                )
    return stale


@pages.get("/approvals/<execution_id>")
def approval(execution_id: str) -> str:
    """Show an approval, with the script that made the call, if one did."""
    detail = ask(approvals.get_approval, execution_id=execution_id)
    script = None
    if detail.script_id is not None:
        # A role that may decide about the call need not see all other tools of the script.
        with suppress(UnknownNameError):
            script = ask(scripts.get_script, script_id=detail.script_id)
    return render_template(
        "approval.html",
        approval=detail,
        line=_line(detail),
        earlier=None if detail.message else _message_before(detail),
        script=script,
        waiting_line=detail.script_line,
        lines=[] if script is None else source_lines(script),
    )


def _line(approval: approvals.ApprovalRow) -> CallLine:
    return CallLine(
        id=approval.call_id,
        tool_id=approval.tool_id,
        object=main_argument(approval.tool_id, approval.args),
        status="pending",
        error=None,
        started_at=approval.created_at,
        run_started_at=None,
        finished_at=None,
        renderer=None,
    )


def _message_before(detail: approvals.ApprovalDetail) -> TurnMessage | None:
    """Return the last message before the call on its branch: clients of MCP do not name the one that led to it."""
    with suppress(CovaltError):
        page = ask(conversation.read_conversation, chat_id=detail.chat_id, branch=detail.branch)
        return next(
            (
                turn.message
                for turn in reversed(page.turns)
                if turn.message
                and turn.message.text
                and turn.message.created_at <= detail.created_at
            ),
            None,
        )
    return None


@pages.post("/approvals/<execution_id>/approve")
def approve(execution_id: str) -> Response:
    """Approve and run a call, and show its result or its elicitation request.

    With ``switch``, the call's branch is checked out first.  If the files or the tool changed since the request,
    nothing runs; the page of a new approval is shown, with the changes.
    """
    if "switch" in request.form:
        _switch(execution_id, request.form["switch"])
    next_calls = request.form.get("next_calls")
    allow = None
    if next_calls:
        # The form has a number; another value is refused as by the operation.
        most = int(next_calls) if next_calls.isascii() and next_calls.isdigit() else 0
        allow = AllowedNext(most, tuple(request.form.getlist("same")))
    stream = streams.approved(
        context(), execution_id, can_ask=elicitation.KINDS, reason=_reason(), allow=allow
    )
    try:
        return elicitation.redirect_when_ready(stream, approved=True)
    except ApprovalRenewedError as again:
        flash(
            "The call did not run, because its files or its tool have changed. This is the new"
            " approval.",
            "warn",
        )
        if request.form.get("to") == "chat":
            return layout.back("conversation.chat", chat_id=stream.call.chat_id)
        return layout.back("approvals.approval", execution_id=again.execution_id)


def _switch(execution_id: str, branch: str) -> None:
    """Check out the branch of a call that the user may approve.

    The approval is checked first, so that a call that cannot run changes no files.
    """
    detail = ask(approvals.get_approval, execution_id=execution_id)
    # The branch of the form must be that of the call: a form must not check out any other one.
    if detail.state == "pending" and detail.may_settle and detail.branch == branch:
        ask(branches.switch_branch, chat_id=detail.chat_id, branch=branch)


def _reason() -> str | None:
    # The browser limits the length too; a longer text of another client must not reach the record.
    return " ".join(request.form.get("reason", "").split())[:_LONGEST_REASON] or None


@pages.post("/approvals/<execution_id>/deny")
def deny(execution_id: str) -> Response:
    """Deny a call: it never runs."""
    call = ask(approvals.deny_call, execution_id=execution_id, reason=_reason())
    message = "Denied. The call did not run."
    if request.form.get("to") == "chat":
        return layout.back(
            "conversation.chat", message, chat_id=call.chat_id, _anchor=f"c-{call.id}"
        )
    return layout.back("calls.call", message, next_need=True, chat_id=call.chat_id, call_id=call.id)
