"""Names of values as patterns read them: ``api.key``, ``Api-Key``, ``apiKey`` and ``API key 2`` are ``api_key``."""

from __future__ import annotations

import re
from typing import Final

MAX_NAME: Final = 100
"""Length in characters up to which a text is read as a name."""

_SEPARATORS: Final = re.compile(r"[\s.:/_\[\]-]+")
_WORDS_OF_CAMEL_CASE: Final = re.compile(
    r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=(?:Key|Pass|Pwd|Pat|Auth|Dsn|Creds|Sig)(?![a-z]))"
)
"""Where a word begins without a separator; after an acronym (``AESKey``) only the words that patterns know."""

_NUMBER: Final = re.compile(r"(?<=\D)[0-9]+\Z")


def plain_name(name: str) -> str:
    """Return a name with ``_`` between its words, and without a number at its end; empty if it is too long.

    Each format has a separator of its own (a property of Java, a flag, a header, a label), so a pattern that names
    some of them misses the others.  The patterns for names only know ``_``.
    """
    if len(name) > MAX_NAME:
        return ""
    words = _SEPARATORS.sub("_", _WORDS_OF_CAMEL_CASE.sub("_", name)).strip("_")
    return _NUMBER.sub("", words).rstrip("_")
