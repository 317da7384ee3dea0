"""Characters that a YAML text cannot contain: the reader rejects them, the writer escapes them."""

from __future__ import annotations

import re
from typing import Final

FORBIDDEN: Final = (
    "[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
"""Matches characters that YAML 1.2 (5.1) does not allow.  It also matches the byte order mark, and the
line breaks of YAML 1.1 that are text in YAML 1.2, because parsers read them differently."""

SURROGATE = re.compile("[\ud800-\udfff]")


def escaped(text: str) -> str:
    """Return ``text`` with escape sequences for forbidden characters."""
    return re.sub(FORBIDDEN, lambda match: f"\\u{ord(match[0]):04x}", text)
