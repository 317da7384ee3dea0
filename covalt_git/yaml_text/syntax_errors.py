"""Messages and hints for syntax errors of libyaml and PyYAML, which say how to fix the text."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from covalt_git.problems import codes


class ErrorPattern(NamedTuple):
    """The message and hint for errors that ``pattern`` matches.

    ``at_start``: the place is the start of the enclosing value, not where the parser stopped.
    ``structural``: the cause may be a bracket that was opened above and is not closed.
    """

    pattern: str
    message: str
    hint: str
    code: str = codes.SYNTAX
    at_start: bool = False
    structural: bool = False


CONFLICT: Final = ErrorPattern("", "a merge conflict marker", "resolve the merge conflict")


def explanation(problem: str, character: str) -> ErrorPattern:
    """Return the explanation of a parser's ``problem`` at a character."""
    text = f"{problem}, at {character}"
    for candidate in _EXPLANATIONS:
        if re.search(candidate.pattern, text):
            # Not `format`: hints contain other braces.
            return candidate._replace(
                message=candidate.message.replace("{found}", repr(character)),
                hint=candidate.hint.replace("{found}", repr(character)),
            )
    return ErrorPattern("", problem, "")


_EXPLANATIONS: Final = (
    ErrorPattern(
        "mapping values are not allowed",
        "a ':' is not allowed here",
        "align the key with those above, quote a text that contains ': ', or close a quote above",
        structural=True,
    ),
    ErrorPattern(
        "could not find expected ':'",
        "the line has no 'key:'",
        "write `key: value`, or indent the line if it continues the text above",
        at_start=True,
        structural=True,
    ),
    ErrorPattern(
        "expected key|expected '-'|expected <block end>",
        "the indentation does not match the lines above",
        "align it with the other keys or items",
        structural=True,
    ),
    ErrorPattern(
        "cannot start any token, at \t|found a tab",
        "a tab is not allowed here",
        "indent with spaces",
    ),
    ErrorPattern("cannot start any token", "a text that starts with {found}", "quote the text"),
    ErrorPattern(
        "expected ',' or '[]}]'.*, at $",
        "this bracket is not closed",
        "close it with `]` or `}`",
        at_start=True,
        structural=True,
    ),
    ErrorPattern(
        "node content.*, at $",
        "the text ends inside brackets",
        "close them with `]` or `}`",
        structural=True,
    ),
    ErrorPattern(
        "expected ',' or ']'",
        "no ',' or ']' after an item",
        "write `[a, b]`, or quote a text that contains brackets",
        structural=True,
    ),
    ErrorPattern(
        "expected ',' or '}'",
        "no ',' or '}' after a value",
        "write `{a: 1, b: 2}`, or quote a text that contains brackets",
        structural=True,
    ),
    ErrorPattern(
        "expected (?:the )?node content",
        "no value before {found}",
        "add it, or quote a text that contains {found}",
        structural=True,
    ),
    ErrorPattern(
        "sequence entries are not allowed",
        "a list cannot start here",
        "start it on a new line, or quote a text that starts with '- '",
        structural=True,
    ),
    ErrorPattern(
        "unexpected end of stream",
        "this quoted text is not closed",
        "close it with the same quote that it starts with",
        at_start=True,
    ),
    ErrorPattern(
        "unexpected document",
        "a line of '---' or '...' in a quoted text",
        "indent the line",
    ),
    ErrorPattern(
        "unknown escape",
        "an unknown escape sequence",
        "write a backslash as `\\\\`, or use single quotes",
    ),
    ErrorPattern(
        "Unicode character escape",
        "an escape sequence of an invalid character",
        "write the character itself",
    ),
    ErrorPattern(
        "alphabetic or numeric",
        "no name after '&' or '*'",
        "quote a text that starts with this character",
    ),
    ErrorPattern("undefined tag handle", "a tag", "remove it", code=codes.TAG),
    ErrorPattern("incompatible", "a YAML version other than 1.2", "remove the line"),
    ErrorPattern("directive", "an unknown directive", "remove the line"),
    ErrorPattern(
        "<document start>", "more text after the end", "remove it, or indent it", structural=True
    ),
)
"""The first one that matches the parser's message and the character where it stopped is used."""
