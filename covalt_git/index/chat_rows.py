"""Rows of chats in the index: synchronized from the chat stores, in one transaction for each chat.

Only new commits are read.  The rows depend on the stores alone, not on the order of synchronizations.
"""

from __future__ import annotations

import hashlib
from contextlib import suppress
from graphlib import TopologicalSorter
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.git_store.objects import BrokenStoreError, is_binary_content
from covalt_git.index.database import DamagedError, Row, as_text, put, transaction
from covalt_git.json_values import canonical_json
from covalt_git.models.calls import main_argument
from covalt_git.text.line_diff import count_changes, count_changes_of_large
from covalt_git.workspaces import running_call
from covalt_git.workspaces.chat import HEADS
from covalt_git.workspaces.commits import FOREIGN

if TYPE_CHECKING:
    import sqlite3

    from covalt_git.models.calls import ToolCall
    from covalt_git.models.chats import FileChange, FileState, WorkspaceManifest
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.registry import Chats

Damaged = tuple[str, BrokenStoreError]

_LARGE = 256 << 10
"""Size in bytes above which the lines of a file are not all in memory to count the changed ones."""

_DIGESTS = {"args_digest", "definition_digest", "unstored"}
_NOT_INDEXED = _DIGESTS | {"v", "by", "message_id", "decision_reason"}
"""Fields of approvals without a column."""


def sync_chats(connection: sqlite3.Connection, chats: Chats) -> list[Damaged]:
    """Update the rows of chats whose refs moved, and delete the rows of deleted chats.

    Returns the chats with a damaged store, and the errors; their rows do not change.
    """
    ids = chats.ids()
    for row in connection.execute("SELECT id FROM chats").fetchall():
        if row["id"] not in ids:
            with transaction(connection):
                connection.execute("DELETE FROM chats WHERE id = ?", (row["id"],))
    damaged = []
    for chat_id in ids:
        try:
            with chats.as_left(chat_id) as chat:
                sync_chat(connection, chat)
        except BrokenStoreError as error:
            damaged.append((chat_id, error))
    return damaged


def sync_new_chats(connection: sqlite3.Connection, chats: Chats) -> None:
    """Add the rows of chats that are not in the index, except damaged ones."""
    known = {row["id"] for row in connection.execute("SELECT id FROM chats").fetchall()}
    for chat_id in set(chats.ids()) - known:
        with suppress(BrokenStoreError), chats.as_left(chat_id) as chat:
            sync_chat(connection, chat)


def sync_chat(connection: sqlite3.Connection, chat: ChatStore) -> None:
    """Update the rows of a chat, if its refs have moved."""
    refs = {"HEAD": chat.store.head(), **chat.store.refs("refs/"), **_running_call(chat)}
    row = connection.execute("SELECT refs FROM chats WHERE id = ?", (chat.id,)).fetchone()
    old_refs = _indexed_refs(row)
    if old_refs == refs:
        return
    with transaction(connection):
        new = _new_manifests(connection, chat, refs, old_refs)
        if new is None:
            connection.execute("DELETE FROM chats WHERE id = ?", (chat.id,))
            new = _new_manifests(connection, chat, refs, {}) or []
        _write_chat(connection, chat, refs)
        for manifest in new:
            _write_manifest(connection, chat, manifest)
        _write_leaf(connection, chat)
        _write_open_calls(connection, chat)


def _running_call(chat: ChatStore) -> dict[str, str]:
    """Return the running call in the form of a ref, so that its change counts as one."""
    call = running_call.read(chat.store.path)
    return {} if call is None else {running_call.NAME: call.id}


def _indexed_refs(row: sqlite3.Row | None) -> dict[str, str]:
    try:
        return dict(canonical_json.loads(row["refs"])) if row else {}
    except canonical_json.NotJsonError as error:
        raise DamagedError(f"invalid refs: {error}") from None


def _new_manifests(
    connection: sqlite3.Connection, chat: ChatStore, refs: dict[str, str], old_refs: dict[str, str]
) -> list[WorkspaceManifest] | None:
    """Return the commits that are not in the index, parents first; None if the rows must be rebuilt.

    They must be rebuilt if an indexed commit is no longer reachable, or became foreign or local since then.
    """
    if old_refs.get(FOREIGN) != refs.get(FOREIGN) and _is_another_chat(connection, chat):
        return None
    heads = [oid for ref, oid in refs.items() if ref.startswith(HEADS)]
    reached = set(heads)
    pending, found = list(heads), {}
    while pending:
        oid = pending.pop()
        if oid in found or _position(connection, chat, oid) is not None:
            continue
        found[oid] = chat.manifest(oid)
        reached.update(found[oid].parents)
        pending.extend(found[oid].parents)
    old_heads = {oid for ref, oid in old_refs.items() if ref.startswith(HEADS)}
    if not old_heads <= reached:
        return None
    parents = {oid: [one for one in new.parents if one in found] for oid, new in found.items()}
    return [found[oid] for oid in TopologicalSorter(parents).static_order()]


def _is_another_chat(connection: sqlite3.Connection, chat: ChatStore) -> bool:
    """Return whether the index has rows of an earlier chat with the same id.

    The list of foreign commits never loses an id, and gets only ids of new commits.  So it is another chat if
    the list was not empty and is empty now, or if it has a commit that is not foreign in the index.
    """
    foreign = chat.foreign.ids()
    query = "SELECT id FROM workspace_manifests WHERE chat_id = ? AND source != 'push'"
    local_ids = (row["id"] for row in connection.execute(query, (chat.id,)))
    return not foreign or any(oid in foreign for oid in local_ids)


def _write_chat(connection: sqlite3.Connection, chat: ChatStore, refs: dict[str, str]) -> None:
    card = chat.card()
    row: Row = {
        "id": chat.id,
        "title": card.title,
        "created_at": card.created_at,
        "active_branch": refs["HEAD"].removeprefix(HEADS),
        "active_manifest_id": refs.get(refs["HEAD"]),
        "active_leaf_message_id": None,
        "forked_from": card.forked_from and as_text(card.forked_from.model_dump()),
        "made_by": card.made_by,
        "refs": as_text(refs),
    }
    columns = ", ".join(row)
    placeholders = ", ".join("?" for _ in row)
    changes = ", ".join(f"{name} = excluded.{name}" for name in row)
    connection.execute(
        f"INSERT INTO chats ({columns}) VALUES ({placeholders}) ON CONFLICT (id) DO UPDATE SET {changes}",  # noqa: S608 - our own names
        list(row.values()),
    )


def _write_leaf(connection: sqlite3.Connection, chat: ChatStore) -> None:
    """Set the leaf message (the last message) of the active branch, after the row of its commit is written."""
    connection.execute(
        """
        UPDATE chats SET active_leaf_message_id = (
            SELECT leaf_message_id FROM workspace_manifests
            WHERE chat_id = chats.id AND id = chats.active_manifest_id)
        WHERE id = ?
        """,
        (chat.id,),
    )


class Position(NamedTuple):
    """Sort key of a commit in its chat's history; always greater than the keys of its parents.

    ``moment`` is the creation time, or that of a parent if it is later because of a wrong clock.  Commits of
    the same moment are sorted by ``generation``, the length of the longest path to a root, and then by id.
    """

    moment: str
    generation: int
    id: str


def _position(connection: sqlite3.Connection, chat: ChatStore, oid: str) -> Position | None:
    """Return the position of an indexed commit, or None."""
    query = "SELECT moment, generation, id FROM workspace_manifests WHERE chat_id = ? AND id = ?"
    row = connection.execute(query, (chat.id, oid)).fetchone()
    return None if row is None else Position(*row)


def _compute_position(
    connection: sqlite3.Connection, chat: ChatStore, manifest: WorkspaceManifest
) -> Position:
    """Compute the position of a commit whose parents are in the index."""
    parents = [_position(connection, chat, parent) for parent in manifest.parents]
    indexed = [parent for parent in parents if parent is not None]
    # Without the Z, a time in whole seconds sorts before the same second with milliseconds.
    moments = [manifest.created_at.removesuffix("Z"), *(parent.moment for parent in indexed)]
    generation = 1 + max((parent.generation for parent in indexed), default=0)
    return Position(max(moments), generation, manifest.id)


def _leaf_before(
    connection: sqlite3.Connection, chat: ChatStore, manifest: WorkspaceManifest
) -> str | None:
    """Return the newest message among the first-parent ancestors of a commit."""
    query = "SELECT leaf_message_id FROM workspace_manifests WHERE chat_id = ? AND id = ?"
    row = connection.execute(query, (chat.id, manifest.parent_id)).fetchone()
    return None if row is None else row["leaf_message_id"]


def _write_manifest(
    connection: sqlite3.Connection, chat: ChatStore, manifest: WorkspaceManifest
) -> None:
    position = _compute_position(connection, chat, manifest)
    changes = chat.changes(manifest.parent_id, manifest.id)
    is_message, before = manifest.source == "message", _leaf_before(connection, chat, manifest)
    for change in changes:
        if change.new is not None:
            _write_blob(connection, chat, change.new.oid)
    lines = [_count_lines(chat, change) for change in changes]
    put(
        connection,
        "workspace_manifests",
        {
            **manifest.model_dump(exclude={"subject", "record"}),
            "chat_id": chat.id,
            "parent_id": manifest.parent_id,
            "parents": as_text(list(manifest.parents)),
            "leaf_message_id": manifest.source_ref if is_message else before,
            "previous_message_id": before if is_message else None,
            "title": manifest.title,
            "by": manifest.record.by,
            "changed_files": len(changes),
            "added_lines": sum(added for added, _ in lines),
            "deleted_lines": sum(deleted for _, deleted in lines),
            "moment": position.moment,
            "generation": position.generation,
        },
    )
    call = manifest.tool_call
    if call is not None and not _is_copy(connection, call, position):
        _write_call(connection, call)


def _is_copy(connection: sqlite3.Connection, call: ToolCall, position: Position) -> bool:
    """Return whether an earlier commit has the same call; git's cherry-pick and rebase copy commits."""
    row = connection.execute(
        """
        SELECT moment, generation, m.id FROM tool_calls AS c
        JOIN workspace_manifests AS m ON m.chat_id = c.chat_id AND m.id = c.post_manifest_id
        WHERE c.chat_id = ? AND c.id = ?
        """,
        (call.chat_id, call.id),
    ).fetchone()
    return row is not None and Position(*row) < position


def _write_call(connection: sqlite3.Connection, call: ToolCall) -> None:
    row = {**call.as_json(), "object": main_argument(call.args)}
    for name in ("args", "result", "render_plan"):
        row[name] = None if row[name] is None else as_text(row[name])
    put(connection, "tool_calls", row)


def _write_blob(connection: sqlite3.Connection, chat: ChatStore, oid: str) -> None:
    query = "SELECT 1 FROM blobs WHERE chat_id = ? AND oid = ?"
    if connection.execute(query, (chat.id, oid)).fetchone():
        return
    content = chat.store.read_blob(oid)
    digest = hashlib.sha256(content).hexdigest()
    row = {"chat_id": chat.id, "oid": oid, "sha256": digest, "size": len(content)}
    put(connection, "blobs", row)


def _count_lines(chat: ChatStore, change: FileChange) -> tuple[int, int]:
    """Return the numbers of added and deleted lines of a file; a binary side has none."""
    old, new = (_text(chat, side) for side in (change.old, change.new))
    if max(len(old), len(new)) > _LARGE:
        return count_changes_of_large(old, new)
    return count_changes(BytesIO(old).readlines(), BytesIO(new).readlines())


def _text(chat: ChatStore, file: FileState | None) -> bytes:
    """Return the content of a file; empty if it is binary or does not exist."""
    content = b"" if file is None else chat.store.read_blob(file.oid)
    return b"" if is_binary_content(content) else content


def _write_open_calls(connection: sqlite3.Connection, chat: ChatStore) -> None:
    """Replace the rows of pending and running calls, and of all approvals."""
    connection.execute(
        "DELETE FROM tool_calls WHERE chat_id = ? AND status IN ('pending', 'running')", (chat.id,)
    )
    connection.execute("DELETE FROM approvals WHERE chat_id = ?", (chat.id,))
    done = "SELECT 1 FROM tool_calls WHERE chat_id = ? AND id = ?"
    for call in chat.calls():
        if connection.execute(done, (chat.id, call.id)).fetchone():
            continue  # a process died after the commit, before it deleted the ref
        _write_call(connection, call.tool_call)
    for approval in chat.approvals():
        row = approval.model_dump(exclude=_NOT_INDEXED) | {
            "args": as_text(approval.args),
            "reasons": as_text(list(approval.reasons)),
            "chat_id": chat.id,
            "requested_by": approval.by,
        }
        put(connection, "approvals", row)
