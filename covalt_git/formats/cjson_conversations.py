"""The format of CJSON conversations 0.1, which is only written: a chat's messages, calls, approvals and results.

The calls for a message are blocks of an assistant message after it.  Messages of the roles
``system`` and ``developer`` become the ``systemMessage``.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from covalt_git.formats.documents import FormatError
from covalt_git.models.calls import PendingCall, run_start

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.conversations.conversation import Message
    from covalt_git.formats.model import Imported, Part
    from covalt_git.json_values import JsonObject
    from covalt_git.models.calls import Approval
    from covalt_git.models.commit_record import CallRecord
    from covalt_git.workspaces.chat import AboutChat

SCHEMA_URL: Final = "https://schema.cjson.dev/0/conversation/cjson-0.1.0-SNAPSHOT.schema.json"
_SYSTEM: Final = frozenset({"system", "developer"})
_ROLES: Final = frozenset({"user", "assistant", "tool"})
_APPROVALS: Final = {"approved": "approved", "denied": "rejected"}
_FAILURES: Final = {
    **dict.fromkeys(("limit_time", "timed_out"), "timed_out"),
    **dict.fromkeys(("cancelled", "denied", "expired", "interrupted"), "canceled"),
}


class LoggedCall(NamedTuple):
    """A call of a chat, its id and its approval."""

    id: str
    message_id: str | None
    call: CallRecord | PendingCall
    approval: Approval | None


def conversation(
    chat: AboutChat, messages: Sequence[Message], calls: Sequence[LoggedCall], *, of_branch: bool
) -> JsonObject:
    """Return a conversation as a document.

    Args:
        chat: the chat.
        messages: the messages, each after its parent.
        calls: the calls for them, oldest first.
        of_branch: whether the messages are those of one branch.  If not, messages with the same ``index`` are
            alternatives, and the one on the active branch has ``isPreferred``.
    """
    of_message: dict[str | None, list[LoggedCall]] = {}
    message_ids = {message.id for message in messages}
    for call in calls:
        # The message may be on another branch than the one that is exported.
        owner = call.message_id if call.message_id in message_ids else None
        of_message.setdefault(owner, []).append(call)
    entries: list[JsonObject] = []
    nexts: dict[str | None, int] = {None: 0}
    if None in of_message:
        nexts[None] = 1
        entries.append({**_calls_message(None, of_message[None]), "index": 0})
    for message in messages:
        at = nexts.get(message.parent_id, nexts[None])
        order: JsonObject = {"index": at}
        if not of_branch:
            order["isPreferred"] = message.active
        if message.role not in _SYSTEM:
            entries.append({**_message(message), **order})
            at += 1
        if message.id in of_message:
            blocks = _calls_message(message.id, of_message[message.id])
            entries.append({**blocks, **order, "index": at})
            at += 1
        nexts[message.id] = at
    texts = [message.text for message in messages if message.role in _SYSTEM and message.text]
    return {
        "schemaUrl": SCHEMA_URL,
        "mediaType": "application/vnd.cjson+json",
        "id": chat.id,
        **({"conversationTitle": chat.title} if chat.title else {}),
        **({"parentId": chat.forked_from.chat_id} if chat.forked_from else {}),
        **({"systemMessage": "\n\n".join(texts)} if texts else {}),
        "messages": sorted(entries, key=lambda entry: entry["index"]),
    }


def _message(message: Message) -> JsonObject:
    has_role = message.role in _ROLES
    metadata = {"ref": message.ref} if message.ref is not None else {}
    metadata |= {} if has_role else {"role": message.role}
    created = {"action": "created", "actorId": message.by, "timestamp": message.created_at}
    return {
        "messageType": "text",
        "id": message.id,
        "role": message.role if has_role else "user",
        **({"content": message.text} if message.text is not None else {}),
        **({"senderId": message.by} if message.role == "user" else {}),
        **({"metadata": metadata} if metadata else {}),
        "auditTrail": [created],
    }


def _calls_message(message_id: str | None, calls: Sequence[LoggedCall]) -> JsonObject:
    return {
        "messageType": "composite",
        "id": f"calls-{message_id or calls[0].id}",
        "role": "assistant",
        "contentBlocks": [block for call in calls for block in _blocks(call)],
    }


def _blocks(logged: LoggedCall) -> list[JsonObject]:
    """Return the blocks of a call, of its approval if it was decided, and of its result if it has ended."""
    call, approval = logged.call, logged.approval
    toolset_id, _, name = call.tool_id.rpartition(":")
    blocks: list[JsonObject] = [
        {
            "blockType": "toolCall",
            "id": logged.id,
            "createdAt": call.started_at,
            "toolRef": {"name": name, "version": call.toolset.version, "toolsetId": toolset_id},
            "args": call.args,
            "requiresApproval": call.execution_id is not None,
        }
    ]
    if approval is not None and approval.state != "pending":
        decision: JsonObject = {
            "blockType": "toolApproval",
            "id": approval.execution_id,
            "createdAt": approval.decided_at or approval.created_at,
            "toolCallId": logged.id,
            "toolApprovalState": _APPROVALS.get(approval.state, "canceled"),
        }
        optional = {"approvedBy": approval.decided_by, "reason": approval.decision_reason}
        blocks.append(
            decision | {key: value for key, value in optional.items() if value is not None}
        )
    if not isinstance(call, PendingCall):
        blocks.append(_result(logged.id, call, approval))
    return blocks


def _result(call_id: str, call: CallRecord, approval: Approval | None) -> JsonObject:
    error_text = str(call.error) if call.error else None
    approved_at = approval.ran_at if approval else None
    start = run_start(call.status, error_text, call.started_at, approved_at)
    block: JsonObject = {
        "blockType": "toolResult",
        "id": f"result-{call_id}",
        "createdAt": call.finished_at,
        "toolCallId": call_id,
        "toolResultState": _FAILURES.get(call.error.code, "failed") if call.error else "succeeded",
    }
    if start is not None:
        passed = datetime.fromisoformat(call.finished_at) - datetime.fromisoformat(start)
        block["durationMs"] = max(0, round(passed.total_seconds() * 1000))
    if call.error is None:
        return {**block, "output": call.result}
    error: JsonObject = {"code": call.error.code, "message": call.error.message}
    return {**block, "toolResultError": error}


def write(_toolsets: Sequence[Part], _imported: Imported) -> NoReturn:
    """Raise the error that names the command for chats."""
    hint = "covalt-git chat export CHAT --conversation"
    raise FormatError("a CJSON conversation is written from a chat", hint=hint)
