"""Words of the names of tools, commands and operations that often name an effect that cannot be undone."""

from __future__ import annotations

import re

_RISKY = frozenset(
    [
        *("delete", "remove", "drop", "purge", "wipe", "destroy", "truncate"),
        *("revoke", "send", "publish", "pay"),
    ]
)
_OVERWRITES = frozenset({"uninstall", "update", "logout", "forbid", "gc", "force"})
"""Words of our own commands and operations that delete or overwrite something."""


def risky_word(name: str) -> str | None:
    """Return the first word of a name that often names an effect that cannot be undone."""
    return next((word for word in _words(name) if word in _RISKY), None)


def is_harmless(name: str) -> bool:
    """Return whether a command or operation may be proposed to a user or an agent who has misspelt a name."""
    return not (_RISKY | _OVERWRITES).intersection(_words(name))


def _words(name: str) -> list[str]:
    return re.split(r"[ _.-]", re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower())
