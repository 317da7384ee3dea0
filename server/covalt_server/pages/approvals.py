"""Pages of approvals: the exact call that would run, and buttons to approve or deny it."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from flask import Blueprint, flash, render_template, request

from covalt_git.calls.approvals import ApprovalRenewedError
from covalt_git.json_values import canonical_json
from covalt_git.models.calls import ApprovalState
from covalt_git.operations import approvals
from covalt_server.api import streams
from covalt_server.pages import elicitation, layout
from covalt_server.render.results import as_code
from covalt_server.request_context import ask, context

if TYPE_CHECKING:
    from werkzeug.wrappers import Response

pages = Blueprint("approvals", __name__)

STATES: tuple[str, ...] = get_args(ApprovalState)


@pages.get("/approvals")
def approval_list() -> str:
    """List the pending approvals, or those in another state, newest first."""
    state = request.args.get("state", "pending")
    found = ask(approvals.list_approvals, state=state).approvals
    # Not with Jinja's filter, which escapes <, >, & and ': the user has to read the arguments.
    arguments = [canonical_json.dumps(one.args).decode() for one in found]
    return render_template(
        "approval_list.html",
        approvals=[*zip(found, arguments, strict=True)][::-1],
        state=state,
        states=STATES,
    )


@pages.get("/approvals/<execution_id>")
def approval(execution_id: str) -> str:
    """Show one approval."""
    shown = ask(approvals.get_approval, execution_id=execution_id)
    return render_template(
        "approval.html", approval=shown, arguments=as_code(shown.args, exact=True)
    )


@pages.post("/approvals/<execution_id>/approve")
def approve(execution_id: str) -> Response:
    """Approve and run a call, and show its result or its elicitation request.

    If the files or the tool changed since the request, nothing runs; the page of a new approval is shown.
    """
    made = streams.approved(context(), execution_id, can_ask=elicitation.KINDS)
    try:
        return elicitation.redirect_when_ready(made)
    except ApprovalRenewedError as again:
        flash(
            "The call did not run, because its files or its tool have changed. This is the new"
            " approval.",
            "warn",
        )
        if request.form.get("to") == "chat":
            return layout.back("conversation.chat", chat_id=made.call.chat_id, _anchor="end")
        return layout.back("approvals.approval", execution_id=again.execution_id)


@pages.post("/approvals/<execution_id>/deny")
def deny(execution_id: str) -> Response:
    """Deny a call: it never runs."""
    done = ask(approvals.deny_call, execution_id=execution_id)
    message = "Denied. The call did not run."
    if request.form.get("to") == "chat":
        return layout.back(
            "conversation.chat", message, chat_id=done.chat_id, _anchor=f"c-{done.id}"
        )
    return layout.back("calls.call", message, chat_id=done.chat_id, call_id=done.id)
