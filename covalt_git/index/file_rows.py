"""Rows of the files of each chat's active branch, with the words of their names and texts.

They are updated when a user searches, not with each commit: a call that writes many files does not wait for it.  Only
files that differ from the indexed tree are read, and each content once, by its blob id.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.git_store.objects import LINK, BrokenStoreError, is_binary_content
from covalt_git.index.database import Row, put, put_new, transaction
from covalt_git.index.search_words import words
from covalt_git.system.fork_pool import ignore_progress
from covalt_git.workspaces import trees

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from covalt_git.models.chats import FileState
    from covalt_git.workspaces.chat import ChatStore
    from covalt_git.workspaces.registry import Chats

MOST_BYTES = 256 << 10
"""Size of a file above which only its name is searched."""

MOST_FILES = 200_000
"""Number of files of a chat that are searched."""

MOST_TOTAL_BYTES = 1 << 30
"""Size of all texts of files in the index; of further files only the names are searched."""

MOST_NEW_FILES = 1_000
"""Number of changed files that one search reads; the next search, or ``index rebuild``, reads the others."""

_BATCH = 500
"""Number of files that are written in one transaction."""

_CHANGED_CHATS = """
    SELECT c.id, ifnull(m.tree_id, '') AS tree_id, t.tree_id AS indexed_tree FROM chats AS c
    LEFT JOIN workspace_manifests AS m ON m.chat_id = c.id AND m.id = c.active_manifest_id
    LEFT JOIN active_trees AS t ON t.chat_id = c.id
    WHERE t.tree_id IS NOT ifnull(m.tree_id, '') ORDER BY c.id
"""

_Change = tuple[str, "FileState | None"]
"""A path, and its new file; None if it was deleted."""


class _Content(NamedTuple):
    """Text of a file, or the reason why it is not indexed; a link has neither."""

    text: str | None = None
    size: int = 0
    reason: str | None = None


def sync_files(
    connection: sqlite3.Connection,
    chats: Chats,
    *,
    limit: int | None = None,
    on_progress: Callable[[int, int], None] = ignore_progress,
) -> None:
    """Update the files of chats whose rows are up to date, at most ``limit`` of them.

    ``on_progress`` is called with the number of files of a chat that were read, and of all changed ones.
    """
    _delete_rows_of_deleted_chats(connection)
    for row in connection.execute(_CHANGED_CHATS).fetchall():
        # A damaged chat keeps its rows, as in sync_chats().
        with suppress(BrokenStoreError), chats.as_left(row["id"]) as chat:
            count = _sync_chat(connection, chat, row, limit, on_progress)
            limit = None if limit is None else limit - count


def _sync_chat(
    connection: sqlite3.Connection,
    chat: ChatStore,
    row: sqlite3.Row,
    limit: int | None,
    on_progress: Callable[[int, int], None],
) -> int:
    """Update the files of one chat; return how many were read."""
    changes = _changes(connection, chat, row["indexed_tree"], row["tree_id"])
    left_out = _left_out(connection, chat, changes)
    chosen = changes[:limit]
    for at in range(0, len(chosen), _BATCH):
        batch = chosen[at : at + _BATCH]
        # The files are read before the transaction, for which all other writers wait.
        contents = dict(_read(connection, chat, batch))
        with transaction(connection):
            replaced = [_write(connection, chat, path, file, contents) for path, file in batch]
            _delete_unused(connection, replaced)
        on_progress(at + len(batch), len(chosen))
    pending = len(changes) - len(chosen)
    with transaction(connection):
        tree: Row = {"chat_id": chat.id, "tree_id": None if pending else row["tree_id"]}
        put(connection, "active_trees", tree | {"pending": pending, "left_out": left_out})
    return len(chosen)


def _changes(
    connection: sqlite3.Connection, chat: ChatStore, old: str | None, new: str
) -> list[_Change]:
    """Return the paths with another file than the index has, deleted ones first."""
    changes: list[_Change] | None = None
    if old is not None:
        # The old tree may have been deleted with its branch.
        with suppress(BrokenStoreError):
            differences = chat.tree_changes(_tree(old), _tree(new))
            changes = [(change.path, change.new) for change in differences]
    if changes is None:
        query = "SELECT path, oid FROM active_files WHERE chat_id = ?"
        indexed = dict(connection.execute(query, (chat.id,)).fetchall())
        files = trees.files(chat.store, _tree(new))
        changes = [(path, None) for path in indexed.keys() - files.keys()]
        changes += [(path, file) for path, file in files.items() if indexed.get(path) != file.oid]
    # Names that are not UTF-8 come from stock git only; SQLite has no text for them.
    named = [change for change in changes if change[0].isascii() or _is_text(change[0])]
    return sorted(named, key=lambda change: change[1] is not None)


def _left_out(connection: sqlite3.Connection, chat: ChatStore, changes: list[_Change]) -> int:
    """Remove the new files over the limit of a chat from ``changes``; return their number, with earlier ones."""
    query = "SELECT path FROM active_files WHERE chat_id = ?"
    count = connection.execute(
        "SELECT count(*) FROM active_files WHERE chat_id = ?", (chat.id,)
    ).fetchone()[0]
    if count + len(changes) <= MOST_FILES:
        return 0
    indexed = {path for (path,) in connection.execute(query, (chat.id,)).fetchall()}
    new = [path for path, file in changes if file is not None and path not in indexed]
    room = MOST_FILES - len(indexed) + sum(1 for _, file in changes if file is None)
    over = set(new[max(0, room) :])
    changes[:] = [change for change in changes if change[0] not in over]
    return len(over)


def _read(
    connection: sqlite3.Connection, chat: ChatStore, changes: Sequence[_Change]
) -> Iterator[tuple[str, _Content]]:
    """Yield the contents of new files that the index does not have, by blob id."""
    has_row = "SELECT 1 FROM file_contents WHERE oid = ?"
    total = connection.execute("SELECT total(size) FROM file_contents").fetchone()[0]
    for oid in dict.fromkeys(file.oid for _, file in changes if file and file.mode != LINK):
        if connection.execute(has_row, (oid,)).fetchone() is None:
            content = _content(chat, oid, MOST_TOTAL_BYTES - total)
            total += content.size
            yield oid, content


def _content(chat: ChatStore, oid: str, room: float) -> _Content:
    size = chat.store.blob_size(oid)
    if size > MOST_BYTES:
        return _Content(reason="large")
    content = chat.store.read_blob(oid)
    if is_binary_content(content):
        return _Content(reason="binary")
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return _Content(reason="binary")
    return _Content(text, size) if size <= room else _Content(reason="full")


def _write(
    connection: sqlite3.Connection,
    chat: ChatStore,
    path: str,
    file: FileState | None,
    contents: dict[str, _Content],
) -> int | None:
    """Replace the row of a path; return the content of its old row, which may be unused now."""
    query = "SELECT id, content_id FROM active_files WHERE chat_id = ? AND path = ?"
    old = connection.execute(query, (chat.id, path)).fetchone()
    if old is not None:
        connection.execute("DELETE FROM active_files WHERE id = ?", (old["id"],))
    if file is not None:
        content = contents.get(file.oid, _Content())
        row: Row = {"chat_id": chat.id, "path": path, "oid": file.oid, "reason": content.reason}
        row["content_id"] = (
            None if file.mode == LINK else _content_id(connection, file.oid, content)
        )
        row_id = put_new(connection, "active_files", row)
        put_new(connection, "name_words", {"rowid": row_id, "words": " ".join(words(path))})
    return None if old is None else old["content_id"]


def _content_id(connection: sqlite3.Connection, oid: str, content: _Content) -> int | None:
    """Return the id of an indexed content, which is inserted if it is new; None if it is not indexed."""
    row = connection.execute("SELECT id FROM file_contents WHERE oid = ?", (oid,)).fetchone()
    if row is not None:
        return int(row["id"])
    if content.text is None:
        return None
    content_id = put_new(connection, "file_contents", {"oid": oid, "size": content.size})
    text = " ".join(words(content.text))
    put_new(connection, "content_words", {"rowid": content_id, "words": text})
    return content_id


def _delete_unused(connection: sqlite3.Connection, content_ids: Iterable[int | None]) -> None:
    connection.executemany(
        """
        DELETE FROM file_contents
        WHERE id = :id AND NOT EXISTS (SELECT 1 FROM active_files WHERE content_id = :id)
        """,
        [{"id": content_id} for content_id in content_ids if content_id is not None],
    )


def _delete_rows_of_deleted_chats(connection: sqlite3.Connection) -> None:
    query = "SELECT chat_id FROM active_trees WHERE chat_id NOT IN (SELECT id FROM chats)"
    for (chat_id,) in connection.execute(query).fetchall():
        with transaction(connection):
            used = "SELECT DISTINCT content_id FROM active_files WHERE chat_id = ?"
            content_ids = [row[0] for row in connection.execute(used, (chat_id,)).fetchall()]
            for table in ("active_files", "active_trees"):
                query = f"DELETE FROM {table} WHERE chat_id = ?"  # noqa: S608 - our own names
                connection.execute(query, (chat_id,))
            _delete_unused(connection, content_ids)


def _tree(tree_id: str) -> str | None:
    return None if not tree_id or tree_id in trees.EMPTY else tree_id


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
