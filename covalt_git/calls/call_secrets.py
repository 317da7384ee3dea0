"""Secrets of one call.

They come from the user's secrets file and environment, or else from the project's ``secret_command``, which
gets the granted names only.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from covalt_git.credentials.values import SecretStore

if TYPE_CHECKING:
    from collections.abc import Collection

    from covalt_git.access.grants import Granted
    from covalt_git.credentials.command import SecretCommand


def store(
    command: SecretCommand | None, may: Granted, *, also: Collection[str] = ()
) -> SecretStore:
    """Return the secrets of one call; ``secret_command`` runs only for granted names, once for each.

    ``also`` are names that were granted with the MCP server whose definition contains them.
    """
    if command is None:
        return SecretStore.of_this_machine()
    ask = functools.cache(command.ask)
    names = {*may.secrets, *also}
    return SecretStore.of_this_machine(lambda name: ask(name) if name in names else None)
