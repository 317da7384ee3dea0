"""Operation that exports a conversation: its messages, calls, approvals and results, without files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from covalt_git.conversations.conversation import Conversation
from covalt_git.formats.cjson_conversations import LoggedCall, conversation
from covalt_git.json_values import JsonObject
from covalt_git.operations.context import Context
from covalt_git.operations.registry import ChatRequest, Result, operation

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from covalt_git.models.calls import PendingCall
    from covalt_git.models.commit_record import CallRecord
    from covalt_git.workspaces.chat import ChatStore


class ExportConversation(ChatRequest):
    """The conversation of a chat, or of one of its branches."""

    branch: str | None = Field(
        None, max_length=200, description="Only this branch; null: all, with alternatives."
    )


class ConversationExported(Result):
    """A conversation without its files, in the format of CJSON conversations, which is experimental."""

    conversation: JsonObject
    messages: int
    calls: int


@operation(errors=(404,))
def export_conversation(context: Context, request: ExportConversation) -> ConversationExported:
    """Export the messages, calls, approvals and results of a chat as a CJSON conversation.

    Calls of tools that the role may not see are left out.
    """
    chat = context.chat(request.chat_id)
    of_branch = request.branch is not None
    if request.branch is None:
        commits: Collection[str] = chat.reachable()
    else:
        commits = list(_first_parents(chat, chat.branch(request.branch).manifest_id))
    tree = Conversation(chat)
    messages = [message for oid, message in tree.messages.items() if oid in commits]
    calls = [
        logged_call
        for logged_call in _calls(chat, tree, commits, request.branch)
        if context.visibility.sees_call(
            logged_call.call.tool_id, getattr(logged_call.call, "result", None)
        )
    ]
    document = conversation(chat.card(), messages, calls, of_branch=of_branch)
    return ConversationExported(conversation=document, messages=len(messages), calls=len(calls))


def _first_parents(chat: ChatStore, oid: str | None) -> Iterator[str]:
    while oid is not None:
        yield oid
        oid = chat.outline(oid).parent_id


def _calls(
    chat: ChatStore, tree: Conversation, commits: Collection[str], branch: str | None
) -> list[LoggedCall]:
    """Return the calls of commits and the unfinished calls, oldest first."""

    def logged(
        call_id: str, message_id: str | None, oid: str | None, call: CallRecord | PendingCall
    ) -> LoggedCall:
        approval = chat.approval(call.execution_id) if call.execution_id else None
        message = tree.message_of(oid)
        owner = message_id or (message.id if message is not None else None)
        return LoggedCall(call_id, owner, call, approval)

    calls: dict[str, LoggedCall] = {}
    for call in chat.calls():
        if branch in {None, call.branch}:
            calls[call.id] = logged(call.id, call.message_id, call.base, call)
    for oid in commits:
        manifest = chat.manifest(oid)
        record = manifest.record
        if record.call is not None:
            calls[record.id] = logged(record.id, manifest.message_id, oid, record.call)
    # Unfinished calls have no commit, and branches no common order, so the time of the start decides.
    return sorted(
        calls.values(), key=lambda logged_call: (logged_call.call.started_at, logged_call.id)
    )
