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
from covalt_git.text.line_diff import count_changes

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection

    from covalt_git.models.chats import FileState
    from covalt_git.workspaces.chat import ChatStore

MOST_COUNTED = 4 << 20
"""Size in bytes up to which the changed lines of a file are counted."""


class Blob(NamedTuple):
    """Content of a file: its SHA-256 in hex, and its size in bytes."""

    sha256: str
    size: int


class LineCounts(NamedTuple):
    """Numbers of the lines that a commit added and deleted in text files of at most :data:`MOST_COUNTED` bytes."""

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
    rows = connection.execute(query, (chat.id, canonical_json.dumps(sorted(oids)).decode()))
    known = {row["oid"]: Blob(row["sha256"], row["size"]) for row in rows.fetchall()}
    new = {oid: _blob(chat, oid) for oid in oids if oid not in known}
    if new:
        with transaction(connection):
            for oid, blob in new.items():
                put(connection, "blobs", {"chat_id": chat.id, "oid": oid, **blob._asdict()})
    return known | new


def _blob(chat: ChatStore, oid: str) -> Blob:
    content = chat.store.read_blob(oid)
    return Blob(hashlib.sha256(content).hexdigest(), len(content))


def line_counts(
    connection: sqlite3.Connection, chat: ChatStore, manifest_ids: Collection[str]
) -> dict[str, LineCounts]:
    """Count the changed lines of commits against their first parents, and store the numbers."""
    counts = {oid: _line_counts(chat, oid) for oid in manifest_ids}
    with transaction(connection):
        for oid, count in counts.items():
            row: Row = {"chat_id": chat.id, "manifest_id": oid}
            row |= {"added_lines": count.added, "deleted_lines": count.deleted}
            put(connection, "line_counts", row)
    return counts


def _line_counts(chat: ChatStore, oid: str) -> LineCounts:
    counts = [
        count_changes(_lines(chat, change.old), _lines(chat, change.new))
        for change in chat.changes(chat.outline(oid).parent_id, oid)
    ]
    return LineCounts(sum(added for added, _ in counts), sum(deleted for _, deleted in counts))


def _lines(chat: ChatStore, file: FileState | None) -> list[bytes]:
    """Return the lines of a file; none of a binary or large one, and of a missing side."""
    if file is None or chat.store.blob_size(file.oid) > MOST_COUNTED:
        return []
    content = chat.store.read_blob(file.oid)
    return [] if is_binary_content(content) else BytesIO(content).readlines()
