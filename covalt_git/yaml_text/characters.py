"""Which characters can stand in a YAML text, and how others are shown.

Reading refuses the others, writing escapes them.
"""

from __future__ import annotations

import re
from typing import Final

FORBIDDEN: Final = (
    "[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
"""A pattern of what YAML 1.2 (5.1) does not allow; and of the byte order mark and the line ends of
YAML 1.1 that YAML 1.2 reads as text: two readers would see two documents.  Few texts need it."""

SURROGATE = re.compile("[\ud800-\udfff]")


def escaped(text: str) -> str:
    """Return ``text`` with escapes for what cannot stand in YAML."""
    return re.sub(FORBIDDEN, lambda found: f"\\u{ord(found[0]):04x}", text)
