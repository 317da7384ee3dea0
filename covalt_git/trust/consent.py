"""One decision of the user of this machine: a private file outside of projects."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from covalt_git import timestamps
from covalt_git.errors import CovaltError
from covalt_git.system import atomic_write
from covalt_git.system.private_files import read_private

if TYPE_CHECKING:
    from pathlib import Path

    from covalt_git.json_values import JsonObject


class UnreadableConsentError(CovaltError):
    """A file with a consent that other users can access, or that cannot be read."""

    code = "consent_unreadable"


class Consent(NamedTuple):
    """The file of one consent, and the fact that it must contain; ``words`` describe it for a user who opens it."""

    file: Path
    fact: JsonObject
    words: str = ""

    def content(self) -> JsonObject | None:
        """Return what the file has, or None if the user has not consented to exactly this fact.

        Raises:
            UnreadableConsentError: if other users can access the file.
        """
        text = read_private(self.file, UnreadableConsentError)
        try:
            content = json.loads(text) if text is not None else None
        except (ValueError, RecursionError):
            return None
        if not isinstance(content, dict):
            return None
        same = all(content.get(name) == value for name, value in self.fact.items())
        return content if same else None

    @property
    def exists(self) -> bool:
        """Whether the user has consented to exactly this fact.

        Raises:
            UnreadableConsentError: if other users can access the file.
        """
        return self.content() is not None

    def give(self, reason: str | None = None, **more: object) -> None:
        """Store the consent, with its time, the ``reason`` that a script stated, and ``more`` facts."""
        notes = {"words": self.words, "at": timestamps.now(), "reason": reason, **more}
        content = self.fact | {name: note for name, note in notes.items() if note}
        text = json.dumps(content, indent=2, ensure_ascii=True) + "\n"
        atomic_write.replace(self.file, text, private=True)

    def withdraw(self) -> bool:
        """Remove the consent; return whether there was one."""
        was_there = self.file.exists()
        self.file.unlink(missing_ok=True)
        return was_there
