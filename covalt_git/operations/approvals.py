"""The API's approvals: the calls that wait for a person, and settling them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from covalt_git.catalog.catalog import named_tool
from covalt_git.errors import CovaltError
from covalt_git.json_values import JsonObject
from covalt_git.models.calls import Approval, ApprovalState
from covalt_git.operations.calls import CallAnswer, answer
from covalt_git.operations.context import Context
from covalt_git.operations.registry import Request, Result, operation
from covalt_git.operations.results import Change, DamagedChat

if TYPE_CHECKING:
    from covalt_git.models.chats import FileChange


class ListApprovals(Request):
    """Which approvals."""

    state: ApprovalState | Literal["all"] = "pending"


class GetApproval(Request):
    """Which approval."""

    execution_id: str = Field(max_length=200)


class ApproveCall(Request):
    """Which approval."""

    execution_id: str = Field(max_length=200)


class DenyCall(Request):
    """Which approval."""

    execution_id: str = Field(max_length=200)


class ApprovalRow(Result):
    """A question to a person whether one call may run."""

    execution_id: str
    call_id: str
    chat_id: str
    branch: str
    base: str | None = Field(description="The manifest that it was asked on.")
    tool_id: str
    args: JsonObject
    reasons: tuple[str, ...]
    state: ApprovalState
    by: str = Field(description="Who made the call.")
    role: str | None
    created_at: str
    expires_at: str
    decided_by: str | None
    decided_at: str | None
    superseded_by: str | None = Field(description="The approval that was asked for in its place.")
    may_settle: bool = Field(description="Whether the role may approve and deny it.")


class ApprovalDetail(ApprovalRow):
    """An approval with what is otherwise than when it was asked; while it waits only.

    Where anything is, approving asks again.
    """

    message_id: str | None
    args_digest: str
    definition_digest: str
    unstored: str | None = Field(description="The digest of the files that no commit has.")
    changes: tuple[Change, ...] = Field(description="The files that are not as they were.")
    tool_changed: bool = Field(description="Whether the toolset is not as it was.")


class ApprovalList(Result):
    """Approvals, oldest first."""

    approvals: tuple[ApprovalRow, ...]
    damaged: tuple[DamagedChat, ...]


@operation()
def list_approvals(context: Context, request: ListApprovals) -> ApprovalList:
    """List the approvals of calls that the role may see or settle."""
    index, approvals = context.index(), context.approvals()
    damaged = index.sync_chats()
    rows = index.approvals(None if request.state == "all" else request.state)
    return ApprovalList(
        approvals=tuple(
            ApprovalRow(
                **{name: row[name] for name in row.keys() & ApprovalRow.model_fields.keys()},
                by=row["requested_by"],
                may_settle=_may_settle(context, row["tool_id"]),
            )
            for row in rows
            if approvals.exists(row["tool_id"])
        ),
        damaged=DamagedChat.each(damaged),
    )


@operation(errors=(404,))
def get_approval(context: Context, request: GetApproval) -> ApprovalDetail:
    """Tell exactly what would run, and what has changed since it was requested."""
    approval = context.approvals().find(request.execution_id)
    waits = approval.state == "pending"
    return ApprovalDetail.of(
        approval,
        may_settle=_may_settle(context, approval.tool_id),
        changes=_changes_since(context, approval) if waits else (),
        tool_changed=waits and _tool_changed(context, approval),
    )


@operation(changes=True, errors=(404, 409, 501))
def approve_call(context: Context, request: ApproveCall) -> CallAnswer:
    """Approve a call and run it, at once and once.

    Where the files or the tool are not what was asked about, nothing runs: the answer is 409
    ``asked_again``, whose hint names the approval that waits in its place.
    """
    approvals = context.approvals()
    chat = context.chat(approvals.find(request.execution_id).chat_id)
    try:
        outcome = approvals.approve(request.execution_id)
    finally:
        context.update_index(chat)  # a refusal may have settled it, too
    return answer(chat, outcome.call)


@operation(changes=True, errors=(404, 409))
def deny_call(context: Context, request: DenyCall) -> CallAnswer:
    """Deny a call; it never runs."""
    approvals = context.approvals()
    chat = context.chat(approvals.find(request.execution_id).chat_id)
    try:
        outcome = approvals.deny(request.execution_id)
    finally:
        context.update_index(chat)
    return answer(chat, outcome.call)


def _may_settle(context: Context, tool_id: str) -> bool:
    return context.catalog.may_approve(named_tool(tool_id)).allowed


def _changes_since(context: Context, approval: Approval) -> list[FileChange]:
    """Return what differs between the files asked about and those that the call would meet."""
    chat = context.chat(approval.chat_id)
    before = chat.state(approval.base).tree
    if chat.active_branch() != approval.branch:
        now = chat.state(chat.branch(approval.branch).manifest_id).tree
        return chat.tree_changes(before, now)
    with chat.scan_in_memory() as seen:
        return chat.tree_changes(before, seen.tree)


def _tool_changed(context: Context, approval: Approval) -> bool:
    """Tell whether the tool is another, or gone; one that is hidden is not looked at."""
    if not context.catalog.sees(approval.tool_id):
        return False
    try:
        found = context.catalog.find(approval.tool_id)
    except CovaltError:
        return True
    return found.tool.definition_digest != approval.definition_digest
