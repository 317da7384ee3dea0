"""The text of a tool that has the words of a query, which a result shows.

The search of tools ranks; it finds a tool with any of the words, in a name, an argument's description or with a typing
error.  A result that shows none of the words would look like a mistake, so users get only tools with all words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.index.search import SHORTEST_MISSPELT, one_edit_away, stem
from covalt_git.index.search_text import parameters, query_words, searchable_text
from covalt_git.index.search_words import Query, words

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.models.tool import Tool

_SHORTEST_STEM = 3


def matching_text(query: str, tool: Tool) -> tuple[Query, str] | None:
    """Return the text of a tool with the most words of a query, and these words as the tool has them; None without all.

    The texts are its description, and the names and descriptions of its arguments.  If only its names and tags have the
    words, it is the description.
    """
    columns = list(searchable_text(tool, tool.toolset_id).values())
    whole = words(" ".join(map(str, columns)))
    typed_words = query_words(query)
    forms = {word: _forms(word, whole) for word in typed_words if word.isascii()}
    # Letters of scripts without spaces are pairs in the index, and single words here.
    if not all(forms.values()):
        return None
    marked = Query(tuple((form,) for form in sorted(set().union(*forms.values()))), is_open=False)
    of_arguments = (f"{name}: {text}" for name, text in parameters(tool.input_schema))
    named = {*words(tool.name)}

    def worth(text: str) -> tuple[int, int]:
        """Return how many of the words a text has: first of those that the name, which is shown too, does not have."""
        shared = set(marked.words) & {*words(text)}
        return len(shared - named), len(shared)

    return marked, max((tool.description, *of_arguments), key=worth)


def _forms(word: str, every: Iterable[str]) -> set[str]:
    """Return the words that match a word of a query: its other forms, or else those at an edit distance of 1."""
    own, distinct = stem(word), set(every)
    forms = {other for other in distinct if other.startswith(word)}
    forms |= {
        other
        for other in distinct
        if other[:_SHORTEST_STEM] == own[:_SHORTEST_STEM] and stem(other) == own
    }
    if forms or len(word) < SHORTEST_MISSPELT:
        return forms
    near = one_edit_away(own)
    return {other for other in distinct if other in near or stem(other) in near}
