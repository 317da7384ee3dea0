"""Names of values as patterns read them: ``api.key``, ``Api-Key`` and ``API key`` are ``api_key``."""

from __future__ import annotations

import re
from typing import Final

MAX_NAME: Final = 100
"""Length in characters up to which a text is read as a name."""

_SEPARATORS: Final = re.compile(r"[\s.:/_\[\]-]+")


def plain_name(name: str) -> str:
    """Return a name with ``_`` for each separator of its words and none around it; empty if it is too long.

    Each format has a separator of its own (a property of Java, a flag, a header, a label), so a pattern that names
    some of them misses the others.  The patterns for names only know ``_``.
    """
    return _SEPARATORS.sub("_", name).strip("_") if len(name) <= MAX_NAME else ""
