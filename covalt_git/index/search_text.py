"""What a search looks at: the words of a tool by where they stand, and the words of a query.

The index splits text into words and stems them (SQLite's FTS5 with Porter's algorithm); here is what
it leaves to us: names written in one go, and the words of a question that are about nobody's tool.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.index.database import Row
    from covalt_git.models.tool import Tool

_MOST_WORDS = 64
"""How many words of a query are looked for."""

_QUESTION = 6
"""A query of more words than this is a sentence, whose verbs of asking are filler."""

_DEEPEST = 8
"""How deep below a schema's top parameters are looked for."""

_INNER_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")
"""Han and kana, whose words no space tells from each other."""

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
_FILLER = frozenset(_FUNCTION_WORDS.split())
_FILLER_OF_SENTENCES = _FILLER | frozenset(_ASKING_WORDS.split())


def searched_text(tool: Tool, toolset_name: str) -> Row:
    """Return the text of a tool that can be found, by the columns of ``tool_search``."""
    named = list(parameters(tool.input_schema))
    namespace, _, own_id = tool.tool_id.partition(":")
    spaces = dict.fromkeys((tool.toolset_id, namespace))
    return {
        "name": _spaced(f"{tool.name} {own_id}"),
        "toolset": _spaced(" ".join((*spaces, toolset_name))),
        "description": _spaced(tool.description),
        "parameters": _spaced(" ".join(name for name, _ in named)),
        "parameter_texts": _spaced(" ".join(text for _, text in named)),
        "tags": _spaced(" ".join(tool.tags)),
    }


def query_words(text: str) -> list[str]:
    """Return the words of a query that tell one tool from another, in its order, with repetitions.

    A query of nothing but filler keeps all of its words.
    """
    every = _WORD.findall(_spaced(text).lower())[: 4 * _MOST_WORDS]
    filler = _FILLER_OF_SENTENCES if len(every) > _QUESTION else _FILLER
    return ([word for word in every if word not in filler] or every)[:_MOST_WORDS]


def _spaced(text: str) -> str:
    """Return a text with spaces within ``camelCase``, and between pairs of unspaced characters."""
    split = _INNER_CAPITAL.sub(" ", unicodedata.normalize("NFKC", text))
    return _UNSPACED.sub(lambda found: f" {_pairs(found[0])} ", split)


def _pairs(run: str) -> str:
    return " ".join(run[at : at + 2] for at in range(max(1, len(run) - 1)))


def parameters(schema: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the name of each parameter, those within others too, and what its schema says in words."""
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
