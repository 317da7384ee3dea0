"""Operations on approvals: list, show, approve and deny them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from covalt_git.access import NamedTool
from covalt_git.errors import CovaltError
from covalt_git.json_values import JsonObject
from covalt_git.manifests.toolset_files import MANIFEST
from covalt_git.models.calls import Approval, ApprovalState
from covalt_git.models.elicitation import Question
from covalt_git.models.scripts import MOST_ALLOWED
from covalt_git.models.tool_properties import Annotations
from covalt_git.names import REGISTRY_NAMESPACE
from covalt_git.operations.calls import script_calls
from covalt_git.operations.calls.calls import CallAnswer, answer
from covalt_git.operations.calls.script_calls import AllowedNext
from covalt_git.operations.context import Context
from covalt_git.operations.registry import Request, Result, operation
from covalt_git.operations.results import Change, DamagedChat
from covalt_git.scripts.earlier_calls import earlier_calls
from covalt_git.scripts.stored_script import StoredScript

if TYPE_CHECKING:
    from covalt_git.catalog.catalog import Found
    from covalt_git.models.calls import PendingCall
    from covalt_git.models.chats import FileChange
    from covalt_git.workspaces.chat import ChatStore


class ListApprovals(Request):
    """Request: which approvals to list."""

    state: ApprovalState | Literal["all"] = "pending"


class GetApproval(Request):
    """Request: the approval to return."""

    execution_id: str = Field(max_length=200)


class DenyCall(GetApproval):
    """Request: the approval to deny, and the reason."""

    reason: str | None = Field(
        None, min_length=1, max_length=1000, description="Recorded with the decision."
    )


class ApproveCall(DenyCall):
    """Request: the approval to grant, the reason, and what else of the same script is allowed."""

    next_calls: int | None = Field(
        None,
        ge=1,
        le=MOST_ALLOWED,
        description="Number of further calls of this tool in the same script that need no approval.",
    )
    same: tuple[str, ...] = Field(
        (), max_length=100, description="Arguments that must be the same in these further calls."
    )
    answers: dict[str, JsonObject] | None = Field(
        None,
        description="The answers to the questions of the approval by their keys, as results of their MCP methods.",
    )


class ApprovalRow(Result):
    """A request for approval of one call."""

    execution_id: str
    call_id: str
    chat_id: str
    branch: str
    base: str | None = Field(description="The commit at the time of the request.")
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
    superseded_by: str | None = Field(description="The approval that replaces it.")
    may_settle: bool = Field(description="Whether the role may approve and deny it.")


class ApprovedCode(Result):
    """The place in a toolset of the code that a call runs: a Python function, or its manifest."""

    toolset_id: str
    path: str
    line: int | None


class CallMessage(Result):
    """The message that led to a call."""

    id: str
    role: str
    text: str | None = Field(description="null: only the application has it.")
    ref: str | None = Field(description="The application's own id.")


class ReplacedApproval(Result):
    """The approval that this one replaced, because the files or the tool had changed."""

    execution_id: str
    changes: tuple[Change, ...] = Field(description="The files that had changed since it.")


class ComparedArgument(Result):
    """An argument of the calls of one tool in a script."""

    name: str
    same: bool = Field(description="Whether all earlier calls had the same value.")


class ComparedCalls(Result):
    """The calls that a script made before the one that waits."""

    total: int | None = Field(
        description="Number of its calls that have ended; null if the role may not see the script."
    )
    of_tool: int = Field(description="Number of those of the same tool.")
    arguments: tuple[ComparedArgument, ...] = Field(
        description="Compared with the calls of the same tool; empty without such a call."
    )


class ApprovalDetail(ApprovalRow):
    """An approval with its tool; while it is pending, also with the changes since the request.

    If something has changed, approving the call runs nothing, but requests another approval.
    """

    alias_of: str | None = Field(
        description="The tool to which this one forwards the call; null if it is removed or hidden."
    )
    description: str = Field(description="The tool's; empty if the tool is removed or hidden.")
    annotations: Annotations = Field(
        description="The effects that the tool declares; none if the tool is removed or hidden."
    )
    code: ApprovedCode | None = Field(
        description="What runs; null if it has changed, or if some of the toolset is hidden."
    )
    commits: dict[str, str] = Field(
        description="The commits that arguments named at the time of the request, by argument."
    )
    decision_reason: str | None = Field(description="Why it was approved or denied.")
    questions: dict[str, Question] = Field(
        description="What the call asks; it was stopped there, and runs again when a user approves and answers it."
    )
    message_id: str | None
    message: CallMessage | None = Field(
        description="The message that led to the call; null if the call names none that the chat has."
    )
    args_digest: str
    definition_digest: str
    unstored: str | None = Field(description="The digest of the files that are in no commit.")
    changes: tuple[Change, ...] = Field(
        description="The files that have changed since the request."
    )
    tool_changed: bool = Field(
        description="Whether the tool or its toolset has changed since the request."
    )
    script_id: str | None = Field(description="The script that made the call, while it waits.")
    script_line: int | None = Field(description="The line of the script.")
    earlier_calls: ComparedCalls | None = Field(
        description="The calls that the script made before; null without a script."
    )
    may_allow: bool = Field(
        description="Whether the role may also allow the next calls of the tool in the script."
    )
    active_branch: str = Field(
        description="The chat's. A call runs only while its own branch is active."
    )
    replaces: ReplacedApproval | None


class ApprovalList(Result):
    """Approvals, oldest first."""

    approvals: tuple[ApprovalRow, ...]
    damaged: tuple[DamagedChat, ...]


@operation()
def list_approvals(context: Context, request: ListApprovals) -> ApprovalList:
    """List the approvals of calls that the role may see, approve or deny."""
    damaged = context.chat_index().sync_chats()
    return ApprovalList(
        approvals=indexed_approvals(context, None if request.state == "all" else request.state),
        damaged=DamagedChat.each(damage for damage in damaged if context.chat_exists(damage[0])),
    )


def indexed_approvals(context: Context, state: ApprovalState | None) -> tuple[ApprovalRow, ...]:
    """Return the approvals of the index that exist for the role, oldest first, without a synchronization."""
    approvals = context.approvals()
    return tuple(
        ApprovalRow(
            **{name: row[name] for name in row.keys() & ApprovalRow.model_fields.keys()},
            by=row["requested_by"],
            may_settle=_may_settle(context, row["tool_id"]),
        )
        for row in context.chat_index().approvals(state)
        # An approval has the arguments of its call, which a role that may not see the tool must not learn.
        if approvals.exists(row["tool_id"]) and context.chat_exists(row["chat_id"])
    )


@operation(errors=(404,))
def get_approval(context: Context, request: GetApproval) -> ApprovalDetail:
    """Return one approval: the exact call, and the changes since its request."""
    return approval_detail(context, context.approvals().find(request.execution_id))


def approval_detail(context: Context, approval: Approval) -> ApprovalDetail:
    """Return an approval with its tool and the changes since its request."""
    chat = context.chat(approval.chat_id)
    waits = approval.state == "pending"
    call = chat.call(approval.call_id) if waits else None
    tool_ids = _tool_ids(context, approval.tool_id)
    # Of an alias, both tools have to be visible: a hidden target does not exist for the role
    # (tests/security/test_hidden_targets.py).
    hidden = not all(map(context.visibility.sees, tool_ids))
    entry = None if hidden else _entry(context, approval.tool_id)
    same = entry is not None and entry.definition_digest == approval.definition_digest
    may_settle = all(_may_settle(context, tool_id) for tool_id in tool_ids)
    return ApprovalDetail.of(
        approval,
        alias_of=entry.tool.tool_id if entry is not None and entry.alias is not None else None,
        description=entry.tool.description if entry else "",
        annotations=entry.tool.annotations if entry else Annotations(),
        # The request was for another definition, so approving it does not run the current code.
        code=_code(context, entry) if entry and same else None,
        may_settle=may_settle,
        message=_message(context, chat, approval.message_id),
        changes=_changes_since(chat, approval) if waits else (),
        # Whether a hidden tool has changed would confirm that it exists.
        tool_changed=waits and not hidden and not same,
        script_id=call and call.parent,
        script_line=call and call.line,
        # A role that may only approve the tool has the arguments of its calls to decide about.
        earlier_calls=_earlier_calls(context, chat, call, approval)
        if call is not None and (may_settle or not hidden)
        else None,
        may_allow=may_settle and call is not None and script_calls.may_allow(context, chat, call),
        active_branch=chat.active_branch(),
        replaces=_replaced(chat, approval),
    )


@operation(changes=True, errors=(404, 409, 501))
def approve_call(context: Context, request: ApproveCall) -> CallAnswer:
    """Approve a call and run it, at once and once.

    If the files or the tool have changed since the request, nothing runs: the answer is 409
    ``asked_again``, and its hint names the new approval.  A call that asks questions needs ``answers``.
    """
    allow = None
    if request.next_calls is not None:
        allow = AllowedNext(request.next_calls, request.same)
    return _decided(context, request, approved=True, allow=allow, answers=request.answers)


@operation(changes=True, errors=(404, 409))
def deny_call(context: Context, request: DenyCall) -> CallAnswer:
    """Deny a call; it never runs."""
    return _decided(context, request, approved=False)


def _decided(
    context: Context,
    request: DenyCall,
    *,
    approved: bool,
    allow: AllowedNext | None = None,
    answers: dict[str, JsonObject] | None = None,
) -> CallAnswer:
    approvals = context.approvals()
    approval = approvals.find(request.execution_id)
    chat = context.chat(approval.chat_id)
    if answers is not None:
        approvals = approvals.answering(approval, answers)
    try:
        outcome = script_calls.decide(
            context,
            request.execution_id,
            request.reason,
            approved=approved,
            approvals=approvals,
            allow=allow,
        )
    finally:
        # An error may also have closed the approval, for example because it had expired.
        context.update_index(chat)
    return answer(chat, outcome.call)


def _earlier_calls(
    context: Context, chat: ChatStore, call: PendingCall, approval: Approval
) -> ComparedCalls | None:
    stored = None if call.parent is None else StoredScript.read(chat, call.parent)
    if stored is None:
        return None
    earlier = earlier_calls(stored, approval)
    is_visible = script_calls.is_visible(context.visibility, chat, stored)
    compared = earlier.is_same.items() if earlier.calls else ()
    return ComparedCalls(
        total=len(stored.calls) if is_visible else None,
        of_tool=earlier.calls,
        arguments=tuple(ComparedArgument(name=name, same=is_same) for name, is_same in compared),
    )


def _message(context: Context, chat: ChatStore, message_id: str | None) -> CallMessage | None:
    if message_id is None:
        return None
    context.chat_index().sync_chat(chat)
    oid = context.chat_index().manifest_of_record(chat.id, message_id)
    record = None if oid is None else chat.manifest(oid).record
    if record is None or record.message is None:
        return None
    return CallMessage.of(record.message, id=record.id)


def _may_settle(context: Context, tool_id: str) -> bool:
    return context.visibility.may_approve(NamedTool(tool_id)).allowed


def _replaced(chat: ChatStore, approval: Approval) -> ReplacedApproval | None:
    """Return the approval that this one replaced, and the files that had changed."""
    older = next(
        (
            candidate
            for candidate in chat.approvals()
            if candidate.superseded_by == approval.execution_id
        ),
        None,
    )
    if older is None:
        return None
    return ReplacedApproval.of(older, changes=chat.changes(older.base, approval.base))


def _changes_since(chat: ChatStore, approval: Approval) -> list[FileChange]:
    """Return the changes from the files at the time of the request to the current ones."""
    old_tree = chat.state(approval.base).tree
    # The workspace has the files of the active branch; of another branch, only the last commit is known.
    if chat.active_branch() != approval.branch:
        new_tree = chat.state(chat.branch(approval.branch).manifest_id).tree
        return chat.tree_changes(old_tree, new_tree)
    with chat.scan_in_memory() as scan:
        return chat.tree_changes(old_tree, scan.tree)


def _entry(context: Context, tool_id: str) -> Found | None:
    """Return a tool that the role may see; None if it is removed or its toolset has errors."""
    try:
        return context.catalog.find_called(tool_id)
    except CovaltError:
        return None


def _tool_ids(context: Context, tool_id: str) -> list[str]:
    """Return the id of a tool and, if it is an alias, of the tool that it calls."""
    try:
        alias_of = context.catalog.find(tool_id).tool.alias_of
    except CovaltError:
        alias_of = None
    return [tool_id] if alias_of is None else [tool_id, alias_of]


def _code(context: Context, entry: Found) -> ApprovedCode | None:
    tool, toolset = entry.tool, entry.toolset
    is_hidden = not context.visibility.sees_all_of(toolset.id, toolset.tool_ids)
    # The place is a link to the toolset's files, which contain its hidden tools too.
    if is_hidden or tool.kind == "builtin" or toolset.id == REGISTRY_NAMESPACE:
        return None
    source = toolset.sources.get(tool.id.name)
    if source is None or tool.entrypoint is None:
        return ApprovedCode(toolset_id=toolset.id, path=MANIFEST, line=None)
    module = tool.entrypoint.partition(":")[0]
    path = toolset.files.module_path(module)
    return ApprovedCode(
        toolset_id=toolset.id, path=path or MANIFEST, line=source.line if path else None
    )
