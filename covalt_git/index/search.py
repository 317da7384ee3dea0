"""Full-text search over the tools: SQLite's FTS5, ranked by BM25 with a weight for each field.

A query is asked in turns, until there are enough answers: tools that have all of its words come
first, then those that have all of them as beginnings, then those that have any.  Where few words are
asked for, one that no tool has stands for the words that it begins, else for those that are one slip
of the finger away; in a long question such a word is mostly somebody's name.  Scores are those of https://sqlite.org/fts5.html#the_bm25_function; equal ones are in the order of the ids.
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
"""How much a word counts in each column; what each idea gave is measured in ``bench/tool_search.py``."""

_FEW_WORDS = 8
_SHORTEST_BEGINNING = 2
_SHORTEST_MISSPELT = 4
_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"

_FOUND = f"""
    SELECT tool_id FROM tool_search CROSS JOIN tools ON tools.rowid = tool_search.rowid
    WHERE tool_search MATCH ? ORDER BY bm25(tool_search, {", ".join(map(str, WEIGHTS.values()))}), tool_id
"""  # noqa: S608 - our own numbers


def find(
    connection: sqlite3.Connection, text: str, is_wanted: Callable[[str], bool], limit: int
) -> list[str]:
    """Return the ids of the tools that are most like a query, the best first, at most ``limit``.

    ``is_wanted`` is asked about ids in the order of their rank: what it refuses takes nobody's place.
    """
    found: dict[str, None] = {}
    for query in _queries(connection, query_words(text)):
        for (tool_id,) in connection.execute(_FOUND, (query,)):
            if len(found) >= limit:
                return list(found)
            if tool_id not in found and is_wanted(tool_id):
                found[tool_id] = None
    return list(found)


def _queries(connection: sqlite3.Connection, words: list[str]) -> Iterator[str]:
    """Yield what to ask FTS5, the strictest first."""
    few = len(words) <= _FEW_WORDS
    groups = list(map(_exactly, words))
    if few:
        meant = {word: _corrected_word(connection, word) for word in dict.fromkeys(words)}
        groups = [meant[word] for word in words if meant[word]]
    if not groups:
        return
    yield " AND ".join(dict.fromkeys(groups))
    if few:
        yield " AND ".join(_beginning(word) for word in dict.fromkeys(words))
    yield " OR ".join(groups)


def _corrected_word(connection: sqlite3.Connection, word: str) -> str:
    """Return what to look for where somebody wrote ``word``; nothing where no tool has the like."""
    for query in (_exactly(word), _beginning(word)):
        if _matches(connection, query):
            return query
    if len(word) < _SHORTEST_MISSPELT:
        return ""
    near = sorted(_one_slip_away(_stem(word)) & _vocabulary(connection))
    return f"({' OR '.join(map(_exactly, near))})" if near else ""


def _exactly(word: str) -> str:
    return f'"{word}"'


def _beginning(word: str) -> str:
    return _exactly(word) + ("*" if len(word) >= _SHORTEST_BEGINNING else "")


def _matches(connection: sqlite3.Connection, query: str) -> bool:
    statement = "SELECT 1 FROM tool_search WHERE tool_search MATCH ? LIMIT 1"
    return connection.execute(statement, (query,)).fetchone() is not None


def _vocabulary(connection: sqlite3.Connection) -> set[str]:
    return {row[0] for row in connection.execute("SELECT term FROM tool_vocabulary")}


def _one_slip_away(word: str) -> set[str]:
    """Return what becomes of a word by one letter too few, too many, wrong, or swapped with the next.

    After Peter Norvig, https://norvig.com/spell-correct.html.
    """
    cuts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
    fewer = {head + tail[1:] for head, tail in cuts if tail}
    swapped = {head + tail[1] + tail[0] + tail[2:] for head, tail in cuts if len(tail) > 1}
    wrong = {head + letter + tail[1:] for head, tail in cuts if tail for letter in _LETTERS}
    more = {head + letter + tail for head, tail in cuts for letter in _LETTERS}
    return fewer | swapped | wrong | more


@lru_cache(maxsize=1024)
def _stem(word: str) -> str:
    """Return a word's stem as the index has it, from the stemmer that made it: SQLite's own."""
    with contextlib.closing(sqlite3.connect(":memory:")) as scratch:
        scratch.execute("CREATE VIRTUAL TABLE typed USING fts5(word, tokenize = 'porter')")
        scratch.execute("CREATE VIRTUAL TABLE stems USING fts5vocab(typed, row)")
        scratch.execute("INSERT INTO typed VALUES (?)", (word,))
        found = scratch.execute("SELECT term FROM stems").fetchone()
    return str(found[0]) if found else word
