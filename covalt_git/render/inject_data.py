"""Giving a page its data: one script, where neither page nor data can take it apart.

The specification's section 5.4.  A page is bytes in any encoding that holds ASCII; its own stay as
they are.
"""

from __future__ import annotations

import json
from typing import Any

from covalt_git.text.html_tags import tags

_BOM = b"\xef\xbb\xbf"
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def inject(html: bytes, data: Any) -> bytes:
    """Return the page with ``window.__TOOL_DATA__`` set to ``data``, a JSON value.

    The script stands before the real ``</head>``: one that is a tag to a browser too, not text in a
    comment, script or title.  Without one it stands behind ``<body>``, ``<html>`` or the doctype,
    whichever there is first, or in front of everything.
    """
    before, behind = divided(html)
    script = f"<script>window.__TOOL_DATA__ = {_expression(data)};</script>"
    return before + script.encode("ascii") + behind


def divided(html: bytes) -> tuple[bytes, bytes]:
    """Return a page in two: what stands before its data, and what may already read it."""
    place = _place(html)
    return html[:place], html[place:]


def escaped(data: Any) -> str:
    """Return ``data`` as JSON in ASCII, without what means something to HTML."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).translate(_ESCAPES)


def _expression(data: Any) -> str:
    """Return ``data`` as JavaScript, as it may stand in a script of a page."""
    text = escaped(data)
    if '"__proto__":' in text:
        # As a key of a JavaScript literal it would set the object's prototype, not a member.
        return f"JSON.parse({json.dumps(text)})"
    return text


def _place(html: bytes) -> int:
    """Return where the script goes."""
    behind: dict[str, int] = {}
    templates = 0
    for tag in tags(html.decode("latin-1")):  # one character a byte
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
