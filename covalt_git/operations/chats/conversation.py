"""Operation that reads a conversation: its messages, the calls for each message, and the state of each call.

It reads the index and the texts of the messages on one page, never the whole history.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from pydantic import Field

from covalt_git.access import NamedTool
from covalt_git.conversations.commit_names import NAMES
from covalt_git.errors import UnknownNameError
from covalt_git.json_values import JsonObject
from covalt_git.models.calls import main_argument, run_start
from covalt_git.operations.calls.approvals import ApprovalDetail, approval_detail
from covalt_git.operations.chats.manifests import ManifestRow, manifest_row
from covalt_git.operations.context import Context
from covalt_git.operations.registry import ChatRequest, InvalidRequestError, Result, operation
from covalt_git.operations.results import CallLine, MessageFacts

if TYPE_CHECKING:
    from covalt_git.index.history import HistoryRow
    from covalt_git.models.calls import PendingCall
    from covalt_git.workspaces.chat import ChatStore

PAGE = 60
"""Commits of a page, unless a request names another limit."""


class ReadConversation(ChatRequest):
    """A page of the conversation on a branch, or one message of a chat."""

    branch: str | None = Field(None, max_length=200, description="null: the active branch.")
    without: str | None = Field(
        None, max_length=200, description="Only what this other branch does not have."
    )
    message: str | None = Field(
        None, max_length=200, description="Only the message with this id, and the calls for it."
    )
    before: str | None = Field(
        None,
        max_length=200,
        description=f"Only what is older than this commit, such as `before` of a page. {NAMES}",
    )
    limit: int = Field(PAGE, ge=1, le=500, description="Number of commits.")


class TurnMessage(MessageFacts):
    """A message, and its siblings: the other messages after the same one."""

    older: str | None = Field(description="The sibling before it.")
    newer: str | None = Field(description="The sibling after it.")


class Turn(Result):
    """A message with the calls for it, and other changes where they happened; or the commits before the first one."""

    id: str = Field(description="Its first commit, which stays the same.")
    newest: str = Field(description="Its last commit, which changes when a call is added.")
    message: TurnMessage | None
    rows: tuple[ManifestRow, ...] = Field(description="Calls and changes of files, oldest first.")


class UnfinishedCall(CallLine):
    """A call that is pending or running."""

    message_id: str | None
    args: JsonObject
    execution_id: str | None = Field(description="Its approval, if it needs one.")
    reasons: tuple[str, ...] = Field(description="Why it needs approval.")
    expires_at: str | None = Field(description="When the approval expires.")
    may_settle: bool = Field(description="Whether the role may approve and deny it.")
    approval: ApprovalDetail | None = Field(description="While it is pending: what would run.")


class ConversationPage(Result):
    """A part of a conversation, oldest first."""

    chat_id: str
    branch: str
    manifest_id: str | None = Field(description="The last commit of the branch.")
    turns: tuple[Turn, ...]
    unfinished: tuple[UnfinishedCall, ...] = Field(description="Calls on the branch, oldest first.")
    more: bool = Field(description="Whether the branch has older commits.")
    before: str | None = Field(description="The `before` of the page with older commits.")


@operation(errors=(404,))
def read_conversation(context: Context, request: ReadConversation) -> ConversationPage:
    """Read the conversation of a branch: its messages, the calls for each, and changes of files.

    Without ``before`` it is the newest page.  Merged branches are left out.
    """
    if request.message is not None and (request.branch or request.before or request.without):
        raise InvalidRequestError("use either a message, or a branch with its pages")
    chat = context.chat(request.chat_id)
    branch = chat.branch(request.branch or chat.active_branch())
    context.chat_index().sync_chat(chat)
    if request.message is None:
        rows, more = _rows(context, chat, request, branch.manifest_id)
        waiting = [call for call in chat.calls() if call.branch == branch.name]
    else:
        rows, more = _message_rows(context, chat, request.message), False
        waiting = [call for call in chat.calls() if call.message_id == request.message]
    return ConversationPage(
        chat_id=chat.id,
        branch=branch.name,
        manifest_id=branch.manifest_id,
        turns=tuple(_turns(context, chat, rows)),
        unfinished=tuple(
            _unfinished(context, chat, call)
            # An unfinished call has no commit, so its place is after the newest one: older pages have none.
            for call in (() if request.before else waiting)
            if context.visibility.sees(call.tool_id) and not _is_committed(context, chat, call)
        ),
        more=more,
        before=rows[0].id if rows and more else None,
    )


def _rows(
    context: Context, chat: ChatStore, request: ReadConversation, head: str | None
) -> tuple[list[HistoryRow], bool]:
    """Return the commits of a page, oldest first, and whether older ones follow."""
    index = context.chat_index()
    if request.before is not None:
        head = chat.outline(index.resolve(chat, request.before)).parent_id
    if head is None:
        return [], False
    page = index.manifests(chat.id, head=head, limit=request.limit, first_parents=True)
    if request.without is None:
        return list(reversed(page.rows)), page.more
    other_commits = index.first_parents(chat.id, chat.branch(request.without).manifest_id)
    # Both branches have the same history from their first common commit on, so the rest of the page is shared.
    rows = list(takewhile(lambda row: row.id not in other_commits, page.rows))
    return list(reversed(rows)), page.more and len(rows) == len(page.rows)


def _message_rows(context: Context, chat: ChatStore, message_id: str) -> list[HistoryRow]:
    rows = context.chat_index().message_rows(chat.id, message_id)
    if not any(row.source == "message" for row in rows):
        list_with = f"covalt-git chat message list {chat.id}"
        raise UnknownNameError("message", message_id, (), list_with=list_with)
    return rows


def _turns(context: Context, chat: ChatStore, rows: list[HistoryRow]) -> list[Turn]:
    """Group commits by their messages; the others are among those of the message before them."""
    groups: list[tuple[TurnMessage | None, list[HistoryRow]]] = []
    of_message: dict[str, list[HistoryRow]] = {}
    for row in rows:
        message = _message(context, chat, row) if row.source == "message" else None
        if message is not None:
            groups.append((message, of_message.setdefault(message.id, [row])))
        elif row.message_id in of_message:
            # A call may run after other messages were added. If its own message is on another page, it stays where it
            # happened (test_calls_are_below_their_message_and_others_where_they_happened).
            of_message[row.message_id].append(row)
        elif groups:
            # Such as an upload between two calls for a message: after the second one, it would not be where it happened.
            groups[-1][1].append(row)
        else:
            groups.append((None, [row]))
    return [
        Turn(
            id=group[0].id,
            newest=group[-1].id,
            message=message,
            rows=tuple(manifest_row(context, row) for row in group[message is not None :]),
        )
        for message, group in groups
    ]


def _message(context: Context, chat: ChatStore, row: HistoryRow) -> TurnMessage | None:
    """Return the message of a commit; None if git made the commit, with the trailers of a message."""
    words = chat.manifest(row.id).record.message
    if words is None:
        return None
    message_id = str(row.source_ref)
    ids = context.chat_index().following_messages(chat.id, row.previous_message_id)
    at = ids.index(message_id)
    return TurnMessage.of(
        row,
        id=message_id,
        ref=words.ref,
        role=words.role,
        text=words.text,
        own_manifest_id=row.id,
        parent_id=row.previous_message_id,
        number=at + 1,
        siblings=len(ids),
        older=ids[at - 1] if at else None,
        newer=ids[at + 1] if at + 1 < len(ids) else None,
    )


def _is_committed(context: Context, chat: ChatStore, call: PendingCall) -> bool:
    """Return whether the call ended, but its process has not yet removed it from the unfinished calls."""
    indexed_call = context.chat_index().call(chat.id, call.id)
    return indexed_call is not None and indexed_call.post_manifest_id is not None


def _unfinished(context: Context, chat: ChatStore, call: PendingCall) -> UnfinishedCall:
    approval = chat.approval(call.execution_id) if call.execution_id else None
    waits = approval is not None and approval.state == "pending"
    return UnfinishedCall.of(
        call,
        object=main_argument(call.tool_id, call.args),
        error=None,
        run_started_at=run_start(
            call.status, None, call.started_at, approval.ran_at if approval else None
        ),
        finished_at=None,
        renderer=None,
        reasons=approval.reasons if approval and waits else (),
        expires_at=approval.expires_at if approval and waits else None,
        may_settle=waits and context.visibility.may_approve(NamedTool(call.tool_id)).allowed,
        approval=approval_detail(context, approval) if approval and waits else None,
    )
