"""Where one call gets its secrets from: this machine, and the project's command for what was granted."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from covalt_git.secret_values import SecretStore

if TYPE_CHECKING:
    from covalt_git.access.grants import Granted
    from covalt_git.secret_command import SecretCommand


def store(command: SecretCommand | None, may: Granted) -> SecretStore:
    """Return the store for one call, which asks the command once a name, and only for granted ones."""
    if command is None:
        return SecretStore.of_this_machine()
    asked = functools.cache(command.ask)
    return SecretStore.of_this_machine(lambda name: asked(name) if name in may.secrets else None)
