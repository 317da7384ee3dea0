"""Rows of chats in the index: synchronized from the chat stores, in one transaction for each chat.

Only new commits are read.  The rows depend on the stores alone, not on the order of synchronizations.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.git_store.objects import BrokenStoreError
from covalt_git.index.database import DamagedError, Row, as_text, put, transaction
from covalt_git.index.text_rows import put_call, put_message
from covalt_git.json_values import canonical_json
from covalt_git.models.calls import main_argument
from covalt_git.system.fork_pool import ignore_progress
from covalt_git.workspaces import running_call
from covalt_git.workspaces.chat import HEADS
from covalt_git.workspaces.commits import FOREIGN

_LIST_AGE_S = 2.0
"""Age of the list of chats of a git server in which new chats are looked for, in seconds."""

if TYPE_CHECKING:
    import sqlite3

    from covalt_git.models.calls import PendingCall, ToolCall
    from covalt_git.models.chats import WorkspaceManifest
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.registry import Chats

Damaged = tuple[str, BrokenStoreError]
Progress = Callable[[int, int], None]

_DIGESTS = {"args_digest", "definition_digest", "unstored", "token_digest"}
_NOT_INDEXED = _DIGESTS | {
    "v",
    "by",
    "message_id",
    "decision_reason",
    "commits",
    "questions",
    "token",
}
"""Fields of approvals without a column."""


def sync_chats(
    connection: sqlite3.Connection, chats: Chats, on_progress: Progress = ignore_progress
) -> list[Damaged]:
    """Update the rows of chats whose refs moved, and delete the rows of deleted chats.

    ``on_progress`` is called with the number of chats that were read, and of all chats.  Returns the chats with a
    damaged store, and the errors; their rows do not change.
    """
    ids = chats.ids()
    for row in connection.execute("SELECT id FROM chats").fetchall():
        if row["id"] not in ids:
            with transaction(connection):
                connection.execute("DELETE FROM chats WHERE id = ?", (row["id"],))
    damaged = []
    for number, chat_id in enumerate(ids, 1):
        try:
            # Unfinished work of a killed process is not completed here: the index only reads the chats.
            with chats.as_left(chat_id) as chat:
                sync_chat(connection, chat, on_progress if len(ids) == 1 else ignore_progress)
        except BrokenStoreError as error:  # it must not hide the other chats
            damaged.append((chat_id, error))
        on_progress(number, len(ids))
    return damaged


def sync_new_chats(connection: sqlite3.Connection, chats: Chats) -> None:
    """Add the rows of chats that are not in the index, except damaged ones."""
    indexed = {row["id"] for row in connection.execute("SELECT id FROM chats").fetchall()}
    for chat_id in set(chats.ids(most_age_s=_LIST_AGE_S)) - indexed:
        with suppress(BrokenStoreError), chats.as_left(chat_id) as chat:
            sync_chat(connection, chat)


def sync_chat(
    connection: sqlite3.Connection, chat: ChatStore, on_progress: Progress = ignore_progress
) -> None:
    """Update the rows of a chat, if its refs have moved.

    ``on_progress`` is called with the number of commits that were written, and of all new ones.
    """
    # Read before the commits, and stored as they were then: if a ref moves meanwhile, the next sync sees it.  The running
    # call first: one that ends after the refs were read would be in neither, as if it had never been made
    # (test_a_call_that_ends_while_the_chat_is_read_is_in_the_index).
    running = running_call.read(chat.store.path)
    refs = {"HEAD": chat.store.head(), **chat.store.refs("refs/")}
    if running is not None:
        refs[running_call.NAME] = running.id  # so that its change counts as one of a ref
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
        for number, manifest in enumerate(new, 1):
            _write_manifest(connection, chat, manifest)
            on_progress(number, len(new))
        _write_leaf(connection, chat)
        _write_open_calls(connection, chat, refs, running)


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
    pending, manifests = list(heads), {}
    while pending:
        oid = pending.pop()
        # The ancestors of an indexed commit are indexed too, because a sync is one transaction.
        if oid in manifests or _position(connection, chat, oid) is not None:
            continue
        manifests[oid] = chat.manifest(oid)
        reached.update(manifests[oid].parents)
        pending.extend(manifests[oid].parents)
    old_heads = {oid for ref, oid in old_refs.items() if ref.startswith(HEADS)}
    if not old_heads <= reached:
        return None
    parents = {
        oid: [parent for parent in new.parents if parent in manifests]
        for oid, new in manifests.items()
    }
    return [manifests[oid] for oid in TopologicalSorter(parents).static_order()]


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
    # REPLACE would delete the row first, and with it all rows of the chat (ON DELETE CASCADE).
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
    is_message = manifest.source == "message"
    previous_leaf = _leaf_before(connection, chat, manifest)
    put(
        connection,
        "workspace_manifests",
        {
            **manifest.model_dump(exclude={"subject", "record"}),
            "chat_id": chat.id,
            "parent_id": manifest.parent_id,
            "parents": as_text(list(manifest.parents)),
            "leaf_message_id": manifest.source_ref if is_message else previous_leaf,
            "previous_message_id": previous_leaf if is_message else None,
            "title": manifest.title,
            "by": manifest.record.by,
            "undone_call": manifest.record.undone and manifest.record.undone.call_id,
            "changed_files": len(changes),
            "moment": position.moment,
            "generation": position.generation,
        },
    )
    if is_message and manifest.record.message is not None:
        put_message(connection, manifest)
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
    row = {**call.as_json(), "object": main_argument(call.tool_id, call.args)}
    for name in ("args", "result", "render_plan"):
        row[name] = None if row[name] is None else as_text(row[name])
    put_call(connection, row)


def _write_open_calls(
    connection: sqlite3.Connection,
    chat: ChatStore,
    refs: dict[str, str],
    running: PendingCall | None,
) -> None:
    """Replace the rows of pending and running calls, and of all approvals."""
    connection.execute(
        "DELETE FROM tool_calls WHERE chat_id = ? AND status IN ('pending', 'running')", (chat.id,)
    )
    connection.execute("DELETE FROM approvals WHERE chat_id = ?", (chat.id,))
    finished = "SELECT 1 FROM tool_calls WHERE chat_id = ? AND id = ?"
    for call in chat.calls_at(refs, running):
        if connection.execute(finished, (chat.id, call.id)).fetchone():
            # Between the commit and the deletion of the ref, in which a process can also have died, the call
            # would appear twice.
            continue
        _write_call(connection, call.tool_call)
    for approval in chat.approvals_at(refs):
        row = approval.model_dump(exclude=_NOT_INDEXED) | {
            "args": as_text(approval.args),
            "reasons": as_text(list(approval.reasons)),
            "chat_id": chat.id,
            "requested_by": approval.by,
        }
        put(connection, "approvals", row)
