r"""Search and replacement in single lines; a replacement changes exactly the matches of a search.

A pattern is matched against a line without its line end, so ``$`` is before ``\r\n`` too, and no match
spans two lines.  Some regular expressions take almost endless time; the call's time limit stops them.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, TypedDict

from tools.texts import split_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

WIDTH = 400
"""Maximum number of characters shown of a line."""

_BEFORE = 100
"""Number of characters shown before the first match in a longer line."""


class Line(TypedDict):
    """A line of a file: its number from 1, its text, and the spans of its matches.

    A span has the index of the first character, from 0, and the index after the last.  Lines that
    only surround a match have no spans.
    """

    line: int
    text: str
    spans: list[list[int]]


def read_pattern(text: str, *, regex: bool, ignore_case: bool) -> re.Pattern[str]:
    """Return the compiled pattern of a search.

    Raises:
        ValueError: when it is empty, not a regular expression, or has more than one line.
    """
    if not text:
        raise ValueError("the pattern is empty: give the text to look for")
    if not regex and "\n" in text:
        raise ValueError("the pattern has more than one line, but lines are searched one by one")
    try:
        return re.compile(text if regex else re.escape(text), re.IGNORECASE if ignore_case else 0)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{text!r} is not a regular expression: {error}") from None


def read_replacement(
    text: str, pattern: re.Pattern[str], *, regex: bool
) -> str | Callable[[re.Match[str]], str]:
    r"""Return the replacement for ``re.sub``; for a regular expression, ``\1`` is a group of it.

    Raises:
        ValueError: when it names a group that the pattern lacks.
    """
    if not regex:
        return lambda _: text
    try:
        pattern.sub(text, "")
    except (re.error, IndexError) as error:
        raise ValueError(f"{text!r} is not a replacement: {error}") from None
    return text


def matching_lines(
    lines: Iterable[str], pattern: re.Pattern[str], *, context: int
) -> Iterator[tuple[int, Line]]:
    """Yield the matching lines and those around them, in order, each with its number of matches."""
    before: deque[tuple[int, str]] = deque(maxlen=context)
    left = 0
    for number, line in enumerate(lines, 1):
        text, _ = split_end(line)
        spans = [match.span() for match in pattern.finditer(text)]
        if spans:
            yield from ((0, _shown(*earlier, [])) for earlier in before)
            before.clear()
            yield len(spans), _shown(number, text, spans)
            left = context
        elif left:
            left -= 1
            yield 0, _shown(number, text, [])
        else:
            before.append((number, text))


def replaced_lines(
    lines: Iterable[str],
    pattern: re.Pattern[str],
    replacement: str | Callable[[re.Match[str]], str],
) -> tuple[list[str], int]:
    """Return the lines with every match replaced, and the number of matches."""
    made: list[str] = []
    total = 0
    for line in lines:
        text, end = split_end(line)
        new, count = pattern.subn(replacement, text)
        made.append(new + end)
        total += count
    return made, total


def _shown(number: int, text: str, spans: list[tuple[int, int]]) -> Line:
    """Return a line for the result; of a long line, only the part around its first match."""
    if len(text) <= WIDTH:
        return {"line": number, "text": text, "spans": [list(span) for span in spans]}
    start = max(0, spans[0][0] - _BEFORE) if spans else 0
    end = start + WIDTH
    head, tail = "…" if start else "", "…" if end < len(text) else ""
    moved = len(head) - start
    return {
        "line": number,
        "text": head + text[start:end] + tail,
        "spans": [[first + moved, min(last, end) + moved] for first, last in spans if first < end],
    }
