"""Names of values as patterns read them: ``api.key``, ``Api-Key``, ``apiKeys`` and ``API key 2`` are ``api_key``."""

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

_PLURAL: Final = re.compile(
    r"(?P<one>token|secret|password|passphrase|passcode|credential|(?:api|access|secret|private)_?key)s\Z",
    re.IGNORECASE,
)
"""Names of several credentials.  Other keys can be those of a mapping."""


VARIABLE_OF_JOINED_WORDS: Final = (
    r"(?<![A-Z])[A-Z0-9]*(?:(?<!COM)(?<!BY)(?<!TRES)(?<!SUR)(?<!OVER)(?<!UNDER)PASS|(?<!OLD)PWD"
    r"|(?<!MON)(?<!HOT)(?<!TUR)(?<!DON)(?<!WHIS)(?<!JOC)(?<!HOC)KEY)\Z"
)
"""The end of a variable such as ``SMTPPASS`` or ``MAILGUNKEY``, but not of an English word that ends so."""


def plain_name(name: str) -> str:
    """Return a name with ``_`` between its words, and without a number or a plural at its end; empty if it is too long.

    Each format has a separator of its own (a property of Java, a flag, a header, a label), so a pattern that names
    some of them misses the others.  The patterns for names only know ``_``.
    """
    # A text of megabytes can be a key too, but not a name.
    if len(name) > MAX_NAME:
        return ""
    words = _SEPARATORS.sub("_", _WORDS_OF_CAMEL_CASE.sub("_", name)).strip("_")
    return _PLURAL.sub(r"\g<one>", _NUMBER.sub("", words).rstrip("_"))
