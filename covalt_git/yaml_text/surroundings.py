"""Quotes and brackets around a syntax error, which may have been opened many lines above the place of the error.

The parser reports the place at which it stopped.  If a quote or a bracket was not closed, the text at that place is often
right.  So the problem is reported at the quote or the bracket that was opened, which is known for certain.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from covalt_git.yaml_text.document import MAX_DEPTH
from covalt_git.yaml_text.events import parts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from covalt_git.yaml_text.document import Lines
    from covalt_git.yaml_text.events import TextPart

_MOST_CHARACTERS: Final = 1 << 18
"""The length of a text that is searched: this takes a second for a million characters."""

_CLOSING: Final = {"[": "]", "{": "}"}
_OPENING: Final = {closing: opening for opening, closing in _CLOSING.items()}
_QUOTES: Final = frozenset("'\"")
_ENDS: Final = " \t\r\n,]}:"
"""Characters that can follow a quoted text."""


class Placed(NamedTuple):
    """The message and the hint for an error, and the index of its place."""

    at: int
    message: str
    hint: str


class Surroundings(NamedTuple):
    """What is around a place where YAML could not be read.

    Attributes:
        text: the whole text.
        quoted: the quoted text that ends before the place in the same line, with nothing readable between them.
        bracket: the innermost bracket that is open at the place.
        is_closed: whether this bracket is closed after the place; None if that is unknown.
    """

    text: str
    quoted: TextPart | None
    bracket: TextPart | None
    is_closed: bool | None

    def explanation(self, at: int, lines: Lines, *, is_structural: bool) -> Placed | None:
        """Return what is certain about an error at a place; None if the parser's words are better.

        An error that is not structural, such as an unknown escape sequence, is one with any brackets around it.
        """
        if self.quoted is not None and (placed := self._of_quoted(self.quoted, at, lines)):
            return placed
        if not is_structural:
            return None
        text, bracket = self.text, self.bracket
        if bracket is None:
            sign = _OPENING.get(text[at : at + 1])
            message = f"no {sign!r} for this {text[at : at + 1]!r}"
            hint = "remove it, or quote a text that contains brackets"
            return Placed(at, message, hint) if sign else None
        if self.is_closed is False:
            closing = _CLOSING[bracket.sign]
            message = f"no {closing!r} for this {bracket.sign!r}"
            if text[at:].strip():
                message += f", and the text cannot be read on from {_place(lines, at)}"
            hint = f"close it with `{closing}`, or quote a text that contains brackets"
            return Placed(bracket.start, message, hint)
        if text.startswith(("- ", "-\n"), at):
            message = (
                f"a '-' of a list inside of the {bracket.sign!r} at {_place(lines, bracket.start)}"
            )
            hint = "write the list as `[a, b]` there, or quote the text"
            return Placed(at, message, hint)
        return None

    def _of_quoted(self, quoted: TextPart, at: int, lines: Lines) -> Placed | None:
        sign = quoted.sign
        begin, end = lines.locate(quoted.start), lines.locate(quoted.end - 1)
        if begin[0] < end[0]:
            message = f"the text that begins here with {sign} ends at {end[0]}:{end[1]}, and more text follows it there"
            return Placed(
                quoted.start, message, f"if it should end earlier, close it there with `{sign}`"
            )
        if self.bracket is not None:
            return None  # the parser says what is missing
        escape = "''" if sign == "'" else '\\"'
        message = f"more text after the quoted text that begins at {begin[0]}:{begin[1]}"
        return Placed(
            at, message, f"write `{sign}` as `{escape}` inside of it, or quote the whole text"
        )


def surroundings_of(text: str, at: int) -> Surroundings:
    """Return what is around the index ``at`` of a text that is not YAML."""
    if len(text) > _MOST_CHARACTERS:
        return Surroundings(text, None, None, None)
    brackets: list[TextPart] = []
    last: TextPart | None = None
    parts = parts_of(text)
    following: Iterable[TextPart | None] = parts
    for part in parts:
        if part is None or part.start >= at:
            following = chain([part], parts)
            break
        # The scanner takes time for each bracket around each token (test_depth_that_would_crash_libyaml_is_refused).
        if len(brackets) > MAX_DEPTH:
            return Surroundings(text, None, None, None)
        if part.sign in _CLOSING:
            brackets.append(part)
        elif part.sign in _OPENING and brackets and brackets[-1].sign == _OPENING[part.sign]:
            brackets.pop()
        if part.sign in _QUOTES and part.end <= at:
            last = part
    quoted = last if last is not None and _goes_on(text, last, at) else None
    bracket = brackets[-1] if brackets else None
    return Surroundings(text, quoted, bracket, bracket and _is_closed(bracket, iter(following)))


def _goes_on(text: str, quoted: TextPart, at: int) -> bool:
    """Return whether a quoted text is followed in its last line by what cannot follow it, up to a place."""
    gap = text[quoted.end : at]
    if "\n" in gap or "\r" in gap or not text[at : at + 1].strip():
        return False
    return not gap.strip() or text[quoted.end] not in _ENDS


def _is_closed(bracket: TextPart, following: Iterator[TextPart | None]) -> bool | None:
    """Return whether a bracket is closed by the parts after it, of which the brackets before it are not known."""
    open_signs = [bracket.sign]
    for part in following:
        if part is None:
            return False
        if part.sign in _CLOSING:
            open_signs.append(part.sign)
            if len(open_signs) > MAX_DEPTH:
                return None
        elif part.sign in _OPENING:
            if open_signs.pop() != _OPENING[part.sign]:
                # Another bracket that is open inside of it has the wrong end, or none.
                return None if open_signs else False
            if not open_signs:
                return True
    return None


def _place(lines: Lines, at: int) -> str:
    line, col = lines.locate(at)
    return f"{line}:{col}"
