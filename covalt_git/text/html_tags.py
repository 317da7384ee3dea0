"""Scanner of the tags of an HTML page, which finds the same tags as a browser.

It implements the tokenizer of the HTML standard (13.2.5) for tags and attributes.  ``html.parser``
differs from it, and between versions of Python.  The scanner takes linear time for any page.
"""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_RAW_TEXT = frozenset(
    {"iframe", "noembed", "noframes", "noscript", "script", "style", "textarea", "title", "xmp"}
)
"""Elements that contain text only; ``noscript`` is one of them, because scripts are enabled."""

_MARKUP = re.compile(
    r"<(?:(?P<comment>!--)|(?P<end>/?)(?P<name>[a-z][^\t\n\f\r />]*)|(?P<doctype>!doctype)|[!?/])",
    re.IGNORECASE,
)
# Nothing below is matched in a second way: with backtracking, a page of many quotes without an end would take the square
# of its size.
_COMMENT_END = re.compile(r"(?<=<!--)-?>|--!?>")
_DECLARATION_END = re.compile(">")
_NAME = r"=[^\t\n\f\r />=]*+ | [^\t\n\f\r />=]++"
_EQUALS = r"[\t\n\f\r ]*+ = [\t\n\f\r ]*+"
_VALUE = r""" "[^"]*+(?:"|\Z) | '[^']*+(?:'|\Z) | [^\t\n\f\r >"'][^\t\n\f\r >]*+ | (?=>) """
_ATTRIBUTE = re.compile(rf"(?P<name>{_NAME}) (?>(?:{_EQUALS} (?P<value>{_VALUE}))?)", re.VERBOSE)
_TAG_END = re.compile(
    rf"(?: [\t\n\f\r /]++ | (?:{_NAME}) (?:{_EQUALS} (?:{_VALUE}))?+ )*+ >", re.VERBOSE
)
"""Attributes up to the end of a tag.  A ``>`` in quotes does not end it; without a closing quote,
there is no end."""

_SCRIPT_MARKUP = re.compile(r"<!--|-->|<(?P<end>/?)script(?=[\t\n\f\r />])", re.IGNORECASE)


class Tag(NamedTuple):
    """A tag or doctype of a page, and the indexes of its start and end.

    The name is in lower case; that of an end tag begins with ``/``.
    """

    name: str
    start: int
    end: int


def tags(page: str) -> Iterator[Tag]:
    """Yield the tags and doctypes of a page in their order."""
    position: int | None = 0
    while position is not None and (markup := _MARKUP.search(page, position)):
        position = _end_of_markup(page, markup)
        name = (markup["name"] or markup["doctype"] or "").lower()
        if position is None or not name:
            continue
        yield Tag(f"{markup['end'] or ''}{name}", markup.start(), position)
        if name in _RAW_TEXT and not markup["end"]:
            position = _end_of_text(page, name, position)


def attributes(page: str, tag: Tag) -> dict[str, str]:
    """Return the attributes of a tag, with names in lower case; duplicates are ignored."""
    values: dict[str, str] = {}
    start = tag.start + len("<") + len(tag.name)
    for attribute in _ATTRIBUTE.finditer(page, start, tag.end - len(">")):
        value = attribute["value"] or ""
        if value[:1] in {'"', "'"}:
            value = value[1:-1]
        # If a tag has an attribute twice, browsers use the first.
        values.setdefault(attribute["name"].lower(), html.unescape(value))
    return values


def text_of(page: str, tag: Tag) -> str:
    """Return the content of an element that contains text only, such as a script."""
    return page[tag.end : _end_of_text(page, tag.name, tag.end)]


def _end_of_markup(page: str, markup: re.Match[str]) -> int | None:
    """Return the index after a tag, comment or declaration, or None if it does not end."""
    if markup["name"]:
        closed = _TAG_END.match(page, markup.end())
    elif markup["comment"]:
        closed = _COMMENT_END.search(page, markup.end())
    else:
        closed = _DECLARATION_END.search(page, markup.end())
    return closed.end() if closed else None


def _end_of_text(page: str, name: str, position: int) -> int | None:
    """Return the index of the end tag of an element with text; None if the element is not closed."""
    if name == "script":
        return _end_of_script(page, position)
    closed = re.compile(rf"</{name}(?=[\t\n\f\r />])", re.IGNORECASE).search(page, position)
    return closed.start() if closed else None


def _end_of_script(page: str, position: int) -> int | None:
    """Return the index of a script's end tag, ignoring end tags of scripts in a comment."""
    commented = nested = False
    while markup := _SCRIPT_MARKUP.search(page, position):
        position = markup.end()
        if markup[0] == "<!--":
            commented = True
            position -= len("--")  # in `<!-->`, the same hyphens also end the comment
        elif markup[0] == "-->":
            commented = nested = False
        elif not markup["end"]:
            nested = commented
        elif not nested:
            return markup.start()
        else:
            nested = False
    return None
