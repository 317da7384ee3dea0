"""Text of the full-text search: the searchable text of a tool, and the words of a query.

SQLite's FTS5 splits text into words and stems them (Porter's algorithm).  This module also splits names such
as ``camelCase``, and removes stop words from queries.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from covalt_git.text.normal_form import normalized

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.index.database import Row
    from covalt_git.models.tool import Tool

_MOST_WORDS = 64
"""Maximum number of words of a query that are searched."""

_SENTENCE = 6
"""Words above which a query counts as a sentence, in which verbs such as "find" are stop words."""

_DEEPEST = 8
"""Maximum depth of nested parameters that are searched."""

_INNER_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")
"""Han and kana, which are written without spaces."""

_FUNCTION_WORDS = """
a about after again all also an and any are as at be because been before being between both but by can
could d did do does doing down during each for from had has have having he her here hers him his how i
if im in into is it its just ll m may me might mine more most must my myself no nor not of off on once
only or our ours out over own re s same shall she should so some such t than that the their them then
there these they this those through to too under up us ve very was we were what when where which while
who whom whose why will with would yes you your yours
"""
_ASKING_WORDS = """
additionally currently finally find furthermore get give hello help hey hi interested know lastly let
like looking make moreover need planning please provide show tell thank thanks want
"""
_STOP_WORDS = frozenset(_FUNCTION_WORDS.split())
_SENTENCE_STOP_WORDS = _STOP_WORDS | frozenset(_ASKING_WORDS.split())


def searchable_text(tool: Tool, toolset_name: str) -> Row:
    """Return the searchable text of a tool, by the columns of ``tool_search``."""
    arguments = list(parameters(tool.input_schema))
    namespace, _, own_id = tool.tool_id.partition(":")
    spaces = dict.fromkeys((tool.toolset_id, namespace))
    return {
        "name": _add_spaces(f"{tool.name} {own_id}"),
        "toolset": _add_spaces(" ".join((*spaces, toolset_name))),
        "description": _add_spaces(tool.description),
        "parameters": _add_spaces(" ".join(name for name, _ in arguments)),
        "parameter_texts": _add_spaces(" ".join(text for _, text in arguments)),
        "tags": _add_spaces(" ".join(tool.tags)),
    }


def query_words(text: str) -> list[str]:
    """Return the words of a query without stop words, in their order, with repetitions.

    A query with only stop words keeps them.
    """
    # Cut before each word is compared: a user can paste a whole document.
    words = _WORD.findall(_add_spaces(text).lower())[: 4 * _MOST_WORDS]
    stop_words = _SENTENCE_STOP_WORDS if len(words) > _SENTENCE else _STOP_WORDS
    return ([word for word in words if word not in stop_words] or words)[:_MOST_WORDS]


def _add_spaces(text: str) -> str:
    """Insert spaces into ``camelCase``, and between overlapping pairs of Han and kana."""
    # FTS5 does not split Han and kana: a sentence would be a single word, which no query has.  NFKC makes letters of
    # full and half width equal.
    split = _INNER_CAPITAL.sub(" ", normalized("NFKC", text))
    return _UNSPACED.sub(lambda run: f" {_pairs(run[0])} ", split)


def _pairs(characters: str) -> str:
    return " ".join(characters[at : at + 2] for at in range(max(1, len(characters) - 1)))


def parameters(schema: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the name of each parameter, nested ones too, and the text of its schema."""
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return
    properties = schema.get("properties")
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        yield name, " ".join(_texts(inner))
        yield from parameters(inner, depth + 1)
    items = schema.get("items")
    if isinstance(items, dict):
        yield "", " ".join(_texts(items))
        yield from parameters(items, depth + 1)


def _texts(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        values = schema.get("enum")
        for text in (
            schema.get("title"),
            schema.get("description"),
            *(values if isinstance(values, list) else ()),
        ):
            if isinstance(text, str):
                yield text
