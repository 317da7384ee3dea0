"""Full-text search of tools by SQLite's FTS5, ranked by BM25 with a weight for each column.

Up to three queries run until there are enough results: tools with all words, tools with all words as prefixes,
and tools with any word.  In a short query, a word that no tool has is replaced by the words that start with it,
or else by words at an edit distance of 1; in a long query, such a word is usually a name.  Scores are those of
https://sqlite.org/fts5.html#the_bm25_function; tools with equal scores are sorted by id.
"""

from __future__ import annotations

import contextlib
import sqlite3
from functools import lru_cache
from typing import TYPE_CHECKING

from covalt_git.index.search_text import query_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


WEIGHTS = {
    "name": 3.0,
    "toolset": 1.0,
    "description": 1.0,
    "parameters": 1.0,
    "parameter_texts": 0.5,
    "tags": 1.0,
}
"""Weight of each column; measured by ``bench/tool_search.py``."""

# A correction costs a query for each word, and a word of a long text that no tool has is usually a name.
_SHORT_QUERY = 8
_SHORTEST_PREFIX = 2
# A shorter word is one edit away from many others: test_typos_are_corrected_for_words_of_at_least_four_letters.
SHORTEST_MISSPELT = 4
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"

_SEARCH = f"""
    SELECT tool_id FROM tool_search CROSS JOIN tools ON tools.rowid = tool_search.rowid
    WHERE tool_search MATCH ? ORDER BY bm25(tool_search, {", ".join(map(str, WEIGHTS.values()))}), tool_id
"""  # noqa: S608 - our own numbers


def find(
    connection: sqlite3.Connection, text: str, is_wanted: Callable[[str], bool], limit: int
) -> list[str]:
    """Return the ids of at most ``limit`` tools that match a query, the best first.

    ``is_wanted`` filters ids, in the order of their rank; the limit does not count the others.
    """
    ids: dict[str, None] = {}
    for query in _queries(connection, query_words(text)):
        for (tool_id,) in connection.execute(_SEARCH, (query,)):
            if len(ids) >= limit:
                return list(ids)
            if tool_id not in ids and is_wanted(tool_id):
                ids[tool_id] = None
    return list(ids)


def _queries(connection: sqlite3.Connection, words: list[str]) -> Iterator[str]:
    """Yield the FTS5 queries, the strictest first."""
    is_short = len(words) <= _SHORT_QUERY
    groups = list(map(_phrase, words))
    if is_short:
        corrected = {word: _corrected_word(connection, word) for word in dict.fromkeys(words)}
        groups = [corrected[word] for word in words if corrected[word]]
    if not groups:
        return
    yield " AND ".join(dict.fromkeys(groups))
    if is_short:
        yield " AND ".join(_prefix(word) for word in dict.fromkeys(words))
    yield " OR ".join(groups)


def _corrected_word(connection: sqlite3.Connection, word: str) -> str:
    """Return the FTS5 query for a word and its corrections; "" if no tool matches."""
    for query in (_phrase(word), _prefix(word)):
        if _matches(connection, query):
            return query
    if len(word) < SHORTEST_MISSPELT:
        return ""
    vocabulary = {row[0] for row in connection.execute("SELECT term FROM tool_vocabulary")}
    similar = sorted(one_edit_away(stem(word)) & vocabulary)  # the vocabulary has stems
    return f"({' OR '.join(map(_phrase, similar))})" if similar else ""


def _phrase(word: str) -> str:
    return f'"{word}"'  # without quotes, AND, OR, NOT and NEAR would be operators of FTS5


def _prefix(word: str) -> str:
    return _phrase(word) + ("*" if len(word) >= _SHORTEST_PREFIX else "")


def _matches(connection: sqlite3.Connection, query: str) -> bool:
    statement = "SELECT 1 FROM tool_search WHERE tool_search MATCH ? LIMIT 1"
    return connection.execute(statement, (query,)).fetchone() is not None


def one_edit_away(word: str) -> set[str]:
    """Return the words that differ by one inserted, deleted, replaced or transposed letter.

    Source: Peter Norvig, https://norvig.com/spell-correct.html.
    """
    splits = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    deleted = {head + tail[1:] for head, tail in splits if tail}
    transposed = {head + tail[1] + tail[0] + tail[2:] for head, tail in splits if len(tail) > 1}
    replaced = {head + letter + tail[1:] for head, tail in splits if tail for letter in _LETTERS}
    inserted = {head + letter + tail for head, tail in splits for letter in _LETTERS}
    return deleted | transposed | replaced | inserted


@lru_cache(maxsize=1024)
def stem(word: str) -> str:
    """Return a word's stem, from the stemmer of the index, SQLite's own."""
    with contextlib.closing(sqlite3.connect(":memory:")) as scratch:
        scratch.execute("CREATE VIRTUAL TABLE typed USING fts5(word, tokenize = 'porter')")
        scratch.execute("CREATE VIRTUAL TABLE stems USING fts5vocab(typed, row)")
        scratch.execute("INSERT INTO typed VALUES (?)", (word,))
        row = scratch.execute("SELECT term FROM stems").fetchone()
    return str(row[0]) if row else word
