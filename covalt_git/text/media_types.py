"""Media types of images, audio and text, by content; file names are untrusted.

Browsers run no code in files of these types.  SVG and HTML are reported as plain text.
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
_AUDIO = (
    ("audio/wav", re.compile(rb"RIFF.{4}WAVE", re.DOTALL)),
    ("audio/mpeg", re.compile(rb"ID3[\x02-\x04]|\xff[\xf2\xf3\xfa\xfb]")),
    ("audio/ogg", re.compile(rb"OggS\0")),
    ("audio/flac", re.compile(rb"fLaC")),
)
SENT = (BYTES, TEXT, *(name for name, _ in (*_IMAGES, *_AUDIO)))
"""All results of :func:`media_type`."""


def media_type(content: bytes) -> str:
    """Return the media type of an image or audio, ``text/plain`` for UTF-8, otherwise that of bytes.

    The type of bytes is ``application/octet-stream``.
    """
    for name, first in (*_IMAGES, *_AUDIO):
        if first.match(content):
            return name
    if b"\0" in content:
        return BYTES
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return BYTES
    return TEXT
