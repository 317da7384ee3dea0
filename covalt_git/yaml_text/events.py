"""YAML parser that returns events; the only module that imports ``yaml``.

Nodes are not used, because libyaml's composer is recursive: 30,000 opening brackets crash the process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

import yaml
from yaml import events as kinds
from yaml import tokens
from yaml.error import MarkedYAMLError
from yaml.scanner import ScannerError

from covalt_git.yaml_text.characters import SURROGATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from yaml.error import Mark

__all__ = [
    "Event",
    "MarkedYAMLError",
    "TextPart",
    "kinds",
    "open_events",
    "open_pure_python_events",
    "parts_of",
]


class Event(Protocol):
    """Attributes of the parsers' events; each kind of event has some of them."""

    start_mark: Mark
    end_mark: Mark
    anchor: str | None
    tag: str | None
    value: str
    style: str | None


def open_events(text: str) -> Callable[[], Event | None]:
    """Return a function that returns the next event of ``text``, by libyaml if PyYAML includes it.

    It raises ``MarkedYAMLError`` if the text is not YAML, and ``UnicodeDecodeError`` if the %-escapes of
    a tag are not UTF-8, which libyaml does not check.
    """
    if not yaml.__with_libyaml__:
        return open_pure_python_events(text)
    parser: Any = yaml.CBaseLoader(text)
    next_event: Callable[[], Event | None] = parser.get_event
    return next_event


def open_pure_python_events(text: str) -> Callable[[], Event | None]:
    """Return the same function by PyYAML's own parser, which checks escapes as strictly as libyaml."""
    parser: Any = yaml.BaseLoader(text)

    def refuse_escape() -> NoReturn:
        raise ScannerError(None, None, "found invalid Unicode character escape", parser.get_mark())

    def next_event() -> Event | None:
        try:
            event: Event | None = parser.get_event()
        except (ValueError, OverflowError):  # chr() of an escape beyond Unicode
            refuse_escape()
        if isinstance(event, kinds.ScalarEvent) and SURROGATE.search(event.value):
            refuse_escape()
        return event

    return next_event


class TextPart(NamedTuple):
    """A bracket or a text of YAML: the character with which it begins, ``""`` for a plain text, and its indexes."""

    sign: str
    start: int
    end: int


_BRACKETS = {
    tokens.FlowSequenceStartToken: "[",
    tokens.FlowSequenceEndToken: "]",
    tokens.FlowMappingStartToken: "{",
    tokens.FlowMappingEndToken: "}",
}


def parts_of(text: str) -> Iterator[TextPart | None]:
    """Yield the brackets and texts in order, and None at the end of the text; nothing after a place that cannot be read.

    Brackets that do not match end the events of YAML, but not these parts.  PyYAML's own scanner is slow, so this is for
    texts with an error only.
    """
    scanner: Any = yaml.BaseLoader(text)
    while True:
        try:
            scanner.check_token()
        except (yaml.YAMLError, ValueError, OverflowError):
            # The scanner reads ahead: these are the tokens before the one that it cannot read.
            yield from filter(None, map(_part_of, scanner.tokens))
            return
        token = scanner.get_token()
        if token is None or isinstance(token, tokens.StreamEndToken):
            yield None
            return
        if part := _part_of(token):
            yield part


def _part_of(token: Any) -> TextPart | None:
    sign = _BRACKETS.get(type(token))
    if isinstance(token, tokens.ScalarToken):
        sign = token.style if token.style in ("'", '"') else ""
    return None if sign is None else TextPart(sign, token.start_mark.index, token.end_mark.index)
