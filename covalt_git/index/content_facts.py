"""Facts about contents, computed when they are first asked for: hashes of files, and numbers of changed lines.

To compute them, all files must be read.  So an index that is built anew, for example after an upgrade, does not have
them, and a page computes those that it shows.  They depend on the contents alone and are valid for ever.
"""

from __future__ import annotations

import hashlib
from io import BytesIO
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.git_store.objects import is_binary_content
from covalt_git.index.database import Row, put, transaction
from covalt_git.json_values import canonical_json
from covalt_git.text.line_diff import count_changes, count_changes_of_large

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection

    from covalt_git.models.chats import FileChange, FileState
    from covalt_git.workspaces.chat import ChatStore

_LARGE = 256 << 10
"""Size in bytes above which the lines of a file are not all in memory to count the changed ones."""


class Blob(NamedTuple):
    """Content of a file: its SHA-256 in hex, and its size in bytes."""

    sha256: str
    size: int


class LineCounts(NamedTuple):
    """Numbers of the lines that a commit added and deleted in text files."""

    added: int
    deleted: int


def blobs(
    connection: sqlite3.Connection, chat: ChatStore, oids: Collection[str]
) -> dict[str, Blob]:
    """Return the hashes and sizes of files of a chat by their git blob ids."""
    query = """
        SELECT oid, sha256, size FROM blobs
        WHERE chat_id = ? AND oid IN (SELECT value FROM json_each(?))
    """
    # The ids are one JSON text, because SQLite limits the number of values of a statement.
    rows = connection.execute(query, (chat.id, canonical_json.dumps(sorted(oids)).decode()))
    stored = {row["oid"]: Blob(row["sha256"], row["size"]) for row in rows.fetchall()}
    new: dict[str, Blob] = {}
    for oid in oids:
        if oid not in stored:
            content = chat.store.read_blob(oid)
            new[oid] = Blob(hashlib.sha256(content).hexdigest(), len(content))
    # The files are read before the transaction, for which all other writers wait.
    if new:
        with transaction(connection):
            for oid, blob in new.items():
                put(connection, "blobs", {"chat_id": chat.id, "oid": oid, **blob._asdict()})
    return stored | new


def line_counts(
    connection: sqlite3.Connection, chat: ChatStore, manifest_ids: Collection[str]
) -> dict[str, LineCounts]:
    """Count the changed lines of commits against their first parents, and store the numbers."""
    # Before the transaction, as in blobs().
    counts = {oid: _line_counts(chat, oid) for oid in manifest_ids}
    with transaction(connection):
        for oid, count in counts.items():
            row: Row = {"chat_id": chat.id, "manifest_id": oid}
            row |= {"added_lines": count.added, "deleted_lines": count.deleted}
            put(connection, "line_counts", row)
    return counts


def _line_counts(chat: ChatStore, oid: str) -> LineCounts:
    changes = chat.changes(chat.outline(oid).parent_id, oid)
    counts = [_count_lines(chat, change) for change in changes]
    return LineCounts(sum(added for added, _ in counts), sum(deleted for _, deleted in counts))


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
