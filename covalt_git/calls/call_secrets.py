"""Where one call gets its secrets from: this machine, and the project's command for what was granted."""

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
    """Return the store for one call, which asks the command once a name, and only for granted ones.

    ``also`` are names that were granted in another way: with the server whose definition has them.
    """
    if command is None:
        return SecretStore.of_this_machine()
    asked = functools.cache(command.ask)
    known = {*may.secrets, *also}
    return SecretStore.of_this_machine(lambda name: asked(name) if name in known else None)
