"""Search in chats: messages, the arguments of calls, and the names and texts of files.

Rows with the whole query as a phrase come first, then rows with all words, then rows whose last word only begins like the
last word of the query; in each group, the newest come first.  Files are in the order in which they were indexed.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Literal, NamedTuple

from covalt_git.index.search_words import Query, expressions

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

SearchedTexts = Literal["messages", "arguments", "names", "contents"]


class TextMatch(NamedTuple):
    """A row that matches a query.

    Attributes:
        chat_id: its chat.
        id: the id of the message or call, or the path of the file.
        at: when the message was created, or the call started.
        source: where its text is: the commit of a message, the blob id of a file; the arguments of a call, as JSON.
        tool_id: the tool of a call.
        object: the argument that names what a call works on.
        branch: the active branch, which has the file.
    """

    chat_id: str
    id: str
    at: str | None
    source: str
    tool_id: str
    object: str
    branch: str | None


# CROSS JOIN keeps the order of FTS5: the planner would otherwise sort all rows, not only the first ones.
_STATEMENTS: dict[SearchedTexts, str] = {
    "messages": """
        SELECT m.chat_id, m.source_ref, m.created_at, m.id, '', '', NULL
        FROM message_words AS w CROSS JOIN message_texts AS t ON t.id = w.rowid
        CROSS JOIN workspace_manifests AS m ON m.chat_id = t.chat_id AND m.id = t.manifest_id
        WHERE message_words MATCH ? ORDER BY w.rowid DESC
    """,
    "arguments": """
        SELECT c.chat_id, c.id, c.started_at, c.args, c.tool_id, c.object, NULL
        FROM argument_words AS w CROSS JOIN tool_calls AS c ON c.rowid = w.rowid
        WHERE argument_words MATCH ? ORDER BY w.rowid DESC
    """,
    "names": """
        SELECT f.chat_id, f.path, NULL, f.oid, '', '', c.active_branch
        FROM name_words AS w CROSS JOIN active_files AS f ON f.id = w.rowid
        CROSS JOIN chats AS c ON c.id = f.chat_id
        WHERE name_words MATCH ? ORDER BY w.rowid DESC
    """,
    "contents": """
        SELECT f.chat_id, f.path, NULL, f.oid, '', '', c.active_branch
        FROM content_words AS w CROSS JOIN active_files AS f ON f.content_id = w.rowid
        CROSS JOIN chats AS c ON c.id = f.chat_id
        WHERE content_words MATCH ? ORDER BY w.rowid DESC
    """,
}


def find(
    connection: sqlite3.Connection,
    texts: SearchedTexts,
    query: Query,
    is_wanted: Callable[[TextMatch], bool],
    limit: int,
) -> list[TextMatch]:
    """Return at most ``limit`` rows that match a query, the best first.

    ``is_wanted`` filters rows, in the order of their rank; the limit does not count the others.
    """
    matches: dict[tuple[str, str], TextMatch] = {}
    for expression in expressions(query):
        with contextlib.closing(connection.execute(_STATEMENTS[texts], (expression,))) as rows:
            for match in map(TextMatch._make, rows):
                if len(matches) >= limit:
                    return list(matches.values())
                key = match.chat_id, match.id
                if key not in matches and is_wanted(match):
                    matches[key] = match
    return list(matches.values())
