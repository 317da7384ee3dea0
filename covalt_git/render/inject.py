"""Giving a page its data: one script, where neither page nor data can take it apart.

The specification's section 5.4.  A small scanner follows the tokens of the HTML standard (13.2.5)
as far as finding the end of the head needs; ``html.parser`` follows them less, and differently in
each version of Python.  A page is bytes in any encoding that holds ASCII; its own stay as they are.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_BOM = b"\xef\xbb\xbf"
_RAW_TEXT = frozenset(
    {"iframe", "noembed", "noframes", "noscript", "script", "style", "textarea", "title", "xmp"}
)
"""Elements that hold text and no tags; ``noscript`` is one where scripts run, as they do here."""

_MARKUP = re.compile(
    r"<(?:(?P<comment>!--)|(?P<end>/?)(?P<name>[a-z][^\t\n\f\r />]*)|(?P<doctype>!doctype)|[!?/])",
    re.IGNORECASE,
)
_COMMENT_END = re.compile(r"(?<=<!--)-?>|--!?>")
_DECLARATION_END = re.compile(">")
_TAG_END = re.compile(
    r"""(?: [\t\n\f\r /]++
          | (?: =[^\t\n\f\r />=]*+ | [^\t\n\f\r />=]++ )
            (?: [\t\n\f\r ]*+ = [\t\n\f\r ]*+
                (?: "[^"]*+(?:"|\Z) | '[^']*+(?:'|\Z) | [^\t\n\f\r >"'][^\t\n\f\r >]*+ | (?=>) )
            )?+
        )*+ >""",
    re.VERBOSE,
)
"""Attributes up to the end of a tag: a ``>`` within quotes ends none, a quote never closed all."""

_SCRIPT_MARKUP = re.compile(r"<!--|-->|<(?P<end>/?)script(?=[\t\n\f\r />])", re.IGNORECASE)
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


@dataclass(frozen=True, slots=True)
class _Tag:
    """A tag or doctype of a page, and the place of its first byte and of the first after it."""

    name: str
    start: int
    end: int


def inject(html: bytes, data: Any) -> bytes:
    """Return the page with ``window.__TOOL_DATA__`` set to ``data``, a JSON value.

    The script stands before the real ``</head>``: one that is a tag to a browser too, not text in a
    comment, script or title.  Without one it stands behind ``<body>``, ``<html>`` or the doctype,
    whichever there is first, or in front of everything.
    """
    place = _place(html)
    script = f"<script>window.__TOOL_DATA__ = {_literal(data)};</script>"
    return html[:place] + script.encode("ascii") + html[place:]


def _literal(data: Any) -> str:
    """Return ``data`` as JavaScript in ASCII, without what means something to HTML."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    if '"__proto__":' in text:
        # As a key of a JavaScript literal it would set the object's prototype, not a member.
        text = f"JSON.parse({json.dumps(text)})"
    return text.translate(_ESCAPES)


def _place(html: bytes) -> int:
    """Return where the script goes."""
    behind: dict[str, int] = {}
    templates = 0
    for tag in _tags(html.decode("latin-1")):  # one character a byte
        if tag.name == "template":
            templates += 1
        elif tag.name == "/template":
            templates = max(0, templates - 1)
        elif templates:
            continue
        elif tag.name == "/head":
            return tag.start
        elif tag.name == "body":
            return tag.end
        else:
            behind.setdefault(tag.name, tag.end)
    start = len(_BOM) if html.startswith(_BOM) else 0
    return behind.get("html", behind.get("!doctype", start))


def _tags(page: str) -> Iterator[_Tag]:
    """Yield the tags and doctypes of a page, end tags with a ``/`` before their name."""
    position: int | None = 0
    while position is not None and (found := _MARKUP.search(page, position)):
        position = _end_of_markup(page, found)
        name = (found["name"] or found["doctype"] or "").lower()
        if position is None or not name:
            continue
        yield _Tag(f"{found['end'] or ''}{name}", found.start(), position)
        if name in _RAW_TEXT and not found["end"]:
            position = _end_of_text(page, name, position)


def _end_of_markup(page: str, found: re.Match[str]) -> int | None:
    """Return the place behind a tag, comment or declaration, or None where it never ends."""
    if found["name"]:
        closed = _TAG_END.match(page, found.end())
    elif found["comment"]:
        closed = _COMMENT_END.search(page, found.end())
    else:
        closed = _DECLARATION_END.search(page, found.end())
    return closed.end() if closed else None


def _end_of_text(page: str, name: str, position: int) -> int | None:
    """Return the place of the end tag of an element that holds text, or None without one."""
    if name == "script":
        return _end_of_script(page, position)
    closed = re.compile(rf"</{name}(?=[\t\n\f\r />])", re.IGNORECASE).search(page, position)
    return closed.start() if closed else None


def _end_of_script(page: str, position: int) -> int | None:
    """Return the place of a script's end tag: not of one that a script in a comment closes."""
    commented = nested = False
    while found := _SCRIPT_MARKUP.search(page, position):
        position = found.end()
        if found[0] == "<!--":
            commented = True
            position -= len("--")  # they may be those of -->
        elif found[0] == "-->":
            commented = nested = False
        elif not found["end"]:
            nested = commented
        elif not nested:
            return found.start()
        else:
            nested = False
    return None
