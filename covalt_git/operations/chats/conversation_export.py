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
    found = Conversation(chat)
    messages = [one for oid, one in found.messages.items() if oid in commits]
    calls = [
        one
        for one in _calls(chat, found, commits, request.branch)
        if context.visibility.sees(one.call.tool_id)
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
        before = tree.message_of(oid)
        owner = message_id or (before.id if before is not None else None)
        return LoggedCall(call_id, owner, call, approval)

    found: dict[str, LoggedCall] = {}
    for call in chat.calls():
        if branch in {None, call.branch}:
            found[call.id] = logged(call.id, call.message_id, call.base, call)
    for oid in commits:
        manifest = chat.manifest(oid)
        record = manifest.record
        if record.call is not None:
            found[record.id] = logged(record.id, manifest.message_id, oid, record.call)
    return sorted(found.values(), key=lambda one: (one.call.started_at, one.id))
