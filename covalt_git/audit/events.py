"""Events of a project in one order, for export: calls, approvals, and refused and asked calls.

Calls are read from the commits of chats, not from the index, which anyone who can write to ``data/`` can change without
changing a commit.  Events have digests of arguments and results, not the values; a reader who may see the values gets them from the commit.
"""

from __future__ import annotations

import contextlib
import heapq
import tempfile
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from covalt_git.audit.decision_log import DecisionLog
from covalt_git.git_store.objects import split_signature
from covalt_git.json_values import canonical_json
from covalt_git.workspaces.chat import DELETED, HEADS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from covalt_git.json_values import JsonObject
    from covalt_git.models.calls import Approval
    from covalt_git.models.chats import WorkspaceManifest
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.registry import Chats

    # The time and the id of an event, by which events are sorted, and its facts.
    Event = tuple[str, str, JsonObject]

_MOST_IN_MEMORY = 16 << 20


class EventFilter(NamedTuple):
    """Which events to return: from a time on, of a tool, of a chat."""

    since: str = ""
    tool_id: str | None = None
    chat_id: str | None = None

    def matches(self, at: str, tool_id: str) -> bool:
        return at >= self.since and self.tool_id in {None, tool_id}


def write_events(root: Path, chats: Chats, selection: EventFilter, file: IO[bytes]) -> int:
    """Write the events of a project to a file as JSON lines, sorted by time and id; return the number of bytes."""
    return sum(file.write(line) for line in in_order(_events(root, chats, selection)))


def _events(root: Path, chats: Chats, selection: EventFilter) -> Iterator[Event]:
    for record in DecisionLog(root).read():
        if selection.matches(record.at, record.tool_id) and selection.chat_id in {
            None,
            record.chat_id,
        }:
            facts = record.model_dump(mode="json", exclude={"v"})
            yield record.at, record.id, {"kind": "decision", **facts}
    for chat_id in chats.ids() if selection.chat_id is None else [selection.chat_id]:
        with chats.open(chat_id) as chat:
            yield from _approvals(chat, selection)
            yield from _calls(chat, selection)


def _approvals(chat: ChatStore, selection: EventFilter) -> Iterator[Event]:
    for approval in chat.approvals():
        at = approval.decided_at or approval.created_at
        if selection.matches(at, approval.tool_id):
            yield at, approval.execution_id, _approval_facts(approval, at)


def _approval_facts(approval: Approval, at: str) -> JsonObject:
    return {
        "kind": "approval",
        "at": at,
        "id": approval.execution_id,
        "state": approval.state,
        "by": approval.decided_by,
        "requested_by": approval.by,
        "requested_at": approval.created_at,
        "tool_id": approval.tool_id,
        "chat_id": approval.chat_id,
        "call_id": approval.call_id,
        "args_digest": approval.args_digest,
        "definition_digest": approval.definition_digest,
        "reasons": list(approval.reasons),
        "reason": approval.decision_reason,
        "superseded_by": approval.superseded_by,
    }


def _calls(chat: ChatStore, selection: EventFilter) -> Iterator[Event]:
    # The calls of deleted branches have run too.
    tips = [*chat.store.refs(HEADS).values(), *chat.store.refs(DELETED).values()]
    for oid in chat.above(*tips):
        manifest = chat.outline(oid)
        call = manifest.record.call
        if call is not None and selection.matches(manifest.record.at, call.tool_id):
            yield manifest.record.at, manifest.record.id, _call_facts(chat, manifest)


def _call_facts(chat: ChatStore, manifest: WorkspaceManifest) -> JsonObject:
    record, call = manifest.record, manifest.record.call
    assert call is not None
    content = chat.store.read_content(manifest.id, b"commit")
    return {
        "kind": "call",
        "at": record.at,
        "id": record.id,
        "by": record.by,
        "tool_id": call.tool_id,
        "chat_id": chat.id,
        "commit": manifest.id,
        "signed": bool(split_signature(content, chat.store.object_format)[1]),
        "status": call.status,
        "error": None if call.error is None else call.error.code,
        "started_at": call.started_at,
        "args_digest": digest_of(call.args),
        "result_digest": None if call.result is None else digest_of(call.result),
        "toolset": call.toolset.model_dump(),
        "sandbox": call.sandbox,
        "execution_id": call.execution_id,
        "waived_by": call.waived_by,
        "parent": call.parent,
        "token": None if call.token is None else call.token.model_dump(mode="json"),
    }


def digest_of(value: Any) -> str:
    """Return the digest of a field of an outline: a large one is a reference, whose name is the digest."""
    if isinstance(value, dict) and value.keys() == {"ref", "size"}:
        return str(value["ref"])
    return canonical_json.digest(value)


def in_order(events: Iterable[Event], *, most_in_memory: int = _MOST_IN_MEMORY) -> Iterator[bytes]:
    """Yield events as JSON lines, sorted; more than fit into memory are sorted in parts, in temporary files."""
    rows: list[tuple[str, str, bytes]] = []
    parts: list[Iterator[tuple[str, str, bytes]]] = []
    size = 0
    with contextlib.ExitStack() as stack:
        for at, event_id, facts in events:
            line = canonical_json.dumps(facts) + b"\n"
            rows.append((at, event_id, line))
            size += len(line)
            if size > most_in_memory:
                file = stack.enter_context(tempfile.TemporaryFile())
                parts.append(_stored(sorted(rows), file))
                rows, size = [], 0
        for _, _, line in heapq.merge(*parts, sorted(rows)):
            yield line


def _stored(
    rows: Iterable[tuple[str, str, bytes]], file: IO[bytes]
) -> Iterator[tuple[str, str, bytes]]:
    for row in rows:
        file.write(row[2])
    file.seek(0)
    return _read(file)


def _read(file: IO[bytes]) -> Iterator[tuple[str, str, bytes]]:
    for line in file:
        facts = canonical_json.loads(line)
        yield facts["at"], facts["id"], line
