"""Injection of ``window.__TOOL_DATA__`` into a page (the specification's section 5.4).

Neither the page nor the data can break the script.  A page is bytes in any encoding that extends ASCII;
its bytes are not changed.
"""

from __future__ import annotations

import json
from typing import Any

from covalt_git.text.html_tags import tags

_BOM = b"\xef\xbb\xbf"
# In a script, </script> would end it, and <!-- would hide its end.
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def inject(html: bytes, data: Any, *, script: str = "") -> bytes:
    """Return the page with ``window.__TOOL_DATA__`` set to ``data``, a JSON value, and with a further ``script``.

    It is inserted before ``</head>``, if that is a tag and not text in a comment, script or
    title.  Without it, the script is inserted after the first of ``<body>``, ``<html>`` and the doctype, or
    at the start of the page.
    """
    start, rest = split_page(html)
    markup = f"<script>window.__TOOL_DATA__ = {_expression(data)};</script>"
    if script:
        markup += f"<script>{script}</script>"
    return start + markup.encode("ascii") + rest


def split_page(html: bytes) -> tuple[bytes, bytes]:
    """Return the parts of a page before and after the place of its data."""
    place = _place(html)
    return html[:place], html[place:]


def escaped(data: Any) -> str:
    """Return ``data`` as JSON in ASCII, without characters that have a meaning in HTML."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).translate(_ESCAPES)


def _expression(data: Any) -> str:
    """Return ``data`` as a JavaScript expression for a script in a page."""
    text = escaped(data)
    if '"__proto__":' in text:
        # In a JavaScript literal, this key would set the prototype of the object.
        return f"JSON.parse({json.dumps(text)})"
    return text


def _place(html: bytes) -> int:
    """Return the index in the page at which the script is inserted."""
    ends: dict[str, int] = {}
    templates = 0
    for tag in tags(html.decode("latin-1")):  # one character a byte
        # A script in a template would never run.
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
            ends.setdefault(tag.name, tag.end)
    # A mark after the script would be text of the page, and no longer name its encoding.
    start = len(_BOM) if html.startswith(_BOM) else 0
    return ends.get("html", ends.get("!doctype", start))
