"""Messages of a server, as users, records and other programs get them: masked, of a limited length, without hidden characters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.connections.token_store import mask_of
from covalt_git.text import display

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.connections.definition import Definition

MOST_MESSAGE = 2000
"""Most characters of a message about the state of a call or a task; a server may send 10 MB with each."""

_MOST_NOTES = 20
_MOST_NOTE = 500


def notes_of_a_listing(reasons: Sequence[str]) -> list[str]:
    """Return the first reasons why a server's definitions are left out, as notes for users, and how many more there are."""
    notes = [f"note: {display.shorten(reason, _MOST_NOTE)}" for reason in reasons[:_MOST_NOTES]]
    more = len(reasons) - len(notes)
    return [*notes, f"note: {more:,} more reasons like these"] if more else notes


def message_of(definition: Definition, text: str) -> str:
    """Return a message of a server."""
    # Masked before it is shortened: the mask does not recognize the beginning of a secret.
    return display.running(display.shorten(mask_of(definition).text(text), MOST_MESSAGE))
