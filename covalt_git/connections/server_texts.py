"""Messages of a server, as users, records and other programs get them: masked, of a limited length, without hidden characters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.connections.token_store import mask_of
from covalt_git.text import display

if TYPE_CHECKING:
    from covalt_git.connections.definition import Definition

MOST_MESSAGE = 2000
"""Most characters of a message about the state of a call or a task; a server may send 10 MB with each."""


def message_of(definition: Definition, text: str) -> str:
    """Return a message of a server."""
    # Masked before it is shortened: the mask does not recognize the beginning of a secret.
    return display.running(display.shorten(mask_of(definition).text(text), MOST_MESSAGE))
