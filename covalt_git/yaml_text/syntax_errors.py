"""What the parsers' syntax errors mean to a person: a table from their words to plain ones.

The parsers say where they gave up and why; people need to know what to change.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from covalt_git.problems import codes


class Explanation(NamedTuple):
    """What a message of libyaml or of PyYAML means to a person."""

    said: str
    message: str
    hint: str
    code: str = codes.SYNTAX
    where_it_began: bool = False
    """Whether to show where it began, instead of where the parser gave up."""


CONFLICT: Final = Explanation("", "a merge conflict marker", "resolve the merge conflict")


def explanation(problem: str, found: str) -> Explanation:
    """Return what it means that a parser says ``problem`` and gave up at ``found``."""
    said = f"{problem}, at {found}"
    for known in _EXPLANATIONS:
        if re.search(known.said, said):
            return known._replace(
                message=known.message.replace("{found}", repr(found)),
                hint=known.hint.replace("{found}", repr(found)),
            )
    return Explanation("", problem, "")


_EXPLANATIONS: Final = (
    Explanation(
        "mapping values are not allowed",
        "a ':' where no key can start",
        "line the key up with those above, quote a text that holds ': ', or close a quote above",
    ),
    Explanation(
        "could not find expected ':'",
        "a line without 'key:'",
        "write `key: value`, or indent what continues the text above",
        where_it_began=True,
    ),
    Explanation(
        "expected key|expected '-'|expected <block end>",
        "this belongs to nothing above it",
        "line it up with the keys or items that it belongs to",
    ),
    Explanation(
        "cannot start any token, at \t|found a tab",
        "a tab where only spaces can stand",
        "indent with spaces",
    ),
    Explanation("cannot start any token", "a text that starts with {found}", "quote the text"),
    Explanation(
        "expected ',' or '[]}]'.*, at $",
        "this bracket is never closed",
        "close it with `]` or `}`",
        where_it_began=True,
    ),
    Explanation(
        "node content.*, at $", "the text ends inside brackets", "close them with `]` or `}`"
    ),
    Explanation(
        "expected ',' or ']'",
        "no ',' or ']' after an item",
        "write `[a, b]`, or quote a text that holds brackets",
    ),
    Explanation(
        "expected ',' or '}'",
        "no ',' or '}' after a value",
        "write `{a: 1, b: 2}`, or quote a text that holds brackets",
    ),
    Explanation(
        "expected (?:the )?node content",
        "no value before {found}",
        "add it, or quote a text that holds {found}",
    ),
    Explanation(
        "sequence entries are not allowed",
        "a list cannot start here",
        "start it on a line of its own, or quote a text that starts with '- '",
    ),
    Explanation(
        "unexpected end of stream",
        "this quoted text never ends",
        "close it with the quote that it starts with",
        where_it_began=True,
    ),
    Explanation(
        "unexpected document",
        "a line of '---' or '...' in a quoted text",
        "indent the line",
    ),
    Explanation(
        "unknown escape",
        "an escape that YAML does not have",
        "write a backslash as `\\\\`, or use single quotes",
    ),
    Explanation(
        "Unicode character escape",
        "an escape that is no character",
        "write the character itself",
    ),
    Explanation("alphabetic or numeric", "no name after '&' or '*'", "quote a text that starts so"),
    Explanation("undefined tag handle", "a tag", "remove it", code=codes.TAG),
    Explanation("incompatible", "a version of YAML that is not 1.2", "remove the line"),
    Explanation("directive", "a directive that YAML does not have", "remove the line"),
    Explanation("<document start>", "more text after the end", "remove it, or indent it"),
)
"""Searched in order in what the parsers say, with the character where they gave up behind it."""
