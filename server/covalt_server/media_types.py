"""Which kinds of content are sent to a browser as what they are, found by looking at the content.

A file's name says nothing here: whoever made the file chose it.  The few images are those that run
nothing; SVG and HTML are text, and shown as text.
"""

from __future__ import annotations

import re

TEXT = "text/plain"
BYTES = "application/octet-stream"

# The first bytes that each format's specification gives.
_IMAGES = (
    ("image/png", re.compile(rb"\x89PNG\r\n\x1a\n")),
    ("image/jpeg", re.compile(rb"\xff\xd8\xff")),
    ("image/gif", re.compile(rb"GIF8[79]a")),
    ("image/webp", re.compile(rb"RIFF.{4}WEBP", re.DOTALL)),
    ("image/avif", re.compile(rb".{4}ftypavi[fs]", re.DOTALL)),
)
SENT = (BYTES, TEXT, *(name for name, _ in _IMAGES))
"""All that :func:`media_type` may answer."""


def media_type(content: bytes) -> str:
    """Return the type of an image that browsers show, of UTF-8 text, or of bytes."""
    for name, first in _IMAGES:
        if first.match(content):
            return name
    if b"\0" in content:
        return BYTES
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return BYTES
    return TEXT
