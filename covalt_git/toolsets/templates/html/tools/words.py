"""The tool of my-toolset: count the words of a text."""

from __future__ import annotations

from collections import Counter

from covalt_toolset import tool


@tool(name="Count Words")
def count_words(text: str, most: int = 20) -> list[dict[str, str | int]]:
    """Count how often each word occurs in a text, the most frequent first.

    Args:
        text: The text; words are separated by spaces.
        most: The maximum number of words to return.
    """
    counts = Counter(text.casefold().split())
    ranked = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return [{"word": word, "count": count} for word, count in ranked[: max(most, 0)]]
