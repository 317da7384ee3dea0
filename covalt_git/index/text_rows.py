"""Rows of the texts of a chat: its messages and calls, with the words that a search finds them by.

Secret values are masked before a call is recorded, so the arguments of a row have none.
"""

from __future__ import annotations

import zlib
from datetime import datetime
from typing import TYPE_CHECKING, Any

from covalt_git.index.database import Row, put
from covalt_git.index.search_words import words
from covalt_git.json_values import canonical_json

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from covalt_git.models.chats import WorkspaceManifest

MOST_TEXT = 1 << 18
"""Characters of a message, or of the arguments of a call, that are searched."""

_KEY_BITS = 20
"""Bits of a row id after its time."""

_LAST_MS = (1 << 62 - _KEY_BITS) - 1
"""The last time, in milliseconds since 1970, for which SQLite's ids have room: in the year 2109."""


def put_message(connection: sqlite3.Connection, manifest: WorkspaceManifest) -> None:
    """Insert the words of a message, whose commit has a row."""
    message = manifest.record.message
    assert message is not None
    row_id = _row_id(
        connection, "message_texts", manifest.created_at, manifest.chat_id, manifest.id
    )
    row: Row = {"id": row_id, "chat_id": manifest.chat_id, "manifest_id": manifest.id}
    put(connection, "message_texts", row)
    _put_words(connection, "message_words", row_id, message.text or message.ref or "")


def put_call(connection: sqlite3.Connection, row: Row) -> None:
    """Insert or replace the row of a call, with the words of its arguments."""
    # Not by INSERT OR REPLACE, which calls no trigger for the row that it deletes, whose words would stay.
    key = row["chat_id"], row["id"]
    connection.execute("DELETE FROM tool_calls WHERE chat_id = ? AND id = ?", key)
    row_id = _row_id(connection, "tool_calls", row["started_at"], *key)
    put(connection, "tool_calls", {"rowid": row_id, **row})
    _put_words(connection, "argument_words", row_id, argument_text(row["args"]))


def argument_text(args: str) -> str:
    """Return the searched text of a call's arguments, which are canonical JSON: a line for each value."""
    lines: list[str] = []
    size = 0
    for line in _lines(canonical_json.loads(args)):
        lines.append(line)
        size += len(line) + 1
        if size > MOST_TEXT:
            break
    return "\n".join(lines)[:MOST_TEXT]


def _lines(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _lines(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _lines(inner, name)
    else:
        text = value if isinstance(value, str) else canonical_json.dumps(value).decode()
        yield f"{name}: {text}" if name else text


def _put_words(connection: sqlite3.Connection, table: str, row_id: int, text: str) -> None:
    connection.execute(
        f"INSERT INTO {table} (rowid, words) VALUES (?, ?)",  # noqa: S608 - our own names
        (row_id, " ".join(words(text[:MOST_TEXT]))),
    )


def _row_id(connection: sqlite3.Connection, table: str, moment: str, *key: str) -> int:
    """Return an unused row id that begins with a time, and else depends on the key: not on the order of rows."""
    milliseconds = int(datetime.fromisoformat(moment).timestamp() * 1000)
    milliseconds = min(max(0, milliseconds), _LAST_MS)
    row_id = milliseconds << _KEY_BITS | zlib.crc32("\n".join(key).encode()) >> 32 - _KEY_BITS
    query = f"SELECT 1 FROM {table} WHERE rowid = ?"  # noqa: S608 - our own names
    while connection.execute(query, (row_id,)).fetchone() is not None:
        row_id += 1
    return row_id
