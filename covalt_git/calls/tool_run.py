"""What a run of a tool needs, whatever the kind of the tool; and the secrets of one call.

Secrets come from the user's secrets file and environment, or else from the project's ``secret_command``, which
gets the granted names only.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.connections.entry_tokens import ToolsetSignIns
from covalt_git.credentials.command import SecretCommand
from covalt_git.credentials.values import SecretStore
from covalt_git.http_tools.files import LockedWorkspace
from covalt_git.models.project_config import effective_limits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from covalt_git.access.grants import Granted
    from covalt_git.calls.running import Follower
    from covalt_git.catalog.catalog import Found
    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.models.tool_properties import Limits
    from covalt_git.toolsets.toolset import Toolset
    from covalt_git.workspaces.chat import ChatStore


class ToolRun(NamedTuple):
    """A tool and its toolset, for a run in a chat, or on a copy of its files, of the project at ``root``."""

    found: Found
    chat: ChatStore
    root: Path
    config: ProjectConfig
    follower: Follower
    check_again: Callable[[], None] = lambda: None
    """Checks that the tool may still run, after a wait; raises the error of one that may not."""

    @property
    def limits(self) -> Limits:
        """The effective limits of the tool's calls."""
        return effective_limits(self.found.tool.limits, self.config.limits)

    @property
    def command(self) -> SecretCommand | None:
        """The command that prints granted secrets that are not set on this machine."""
        return SecretCommand.of(self.root, self.config.secret_command)

    @property
    def files(self) -> LockedWorkspace:
        """The files of the chat, for runs in this process."""
        object_format = self.chat.store.object_format
        return LockedWorkspace(self.chat.workspace, self.config.workspace, object_format)


def sign_ins_of(root: Path, toolset: Toolset, may: Granted) -> ToolsetSignIns:
    """Return the entries of a toolset's ``auth`` whose values are tokens of sign-ins."""
    entries = toolset.manifest.auth if toolset.manifest else ()
    return ToolsetSignIns(root, toolset.id, entries, may)


def secret_store(
    command: SecretCommand | None,
    may: Granted,
    check_again: Callable[[], None],
    *,
    also: Collection[str] = (),
) -> SecretStore:
    """Return the secrets of one call; ``secret_command`` runs only for granted names, once for each.

    Args:
        command: The command of the project, if it has one.
        may: The grants of the toolset.
        check_again: Checks that the secrets may still be used; raises the error if they may not.
        also: Names that were granted with the MCP server whose definition contains them.
    """
    if command is None:
        return SecretStore.of_this_machine()
    names = {*may.secrets, *also}

    @functools.cache
    def ask(name: str) -> str | None:
        value = command.ask(name)
        check_again()  # here, for tools of each kind: the command may have waited for its user
        return value

    return SecretStore.of_this_machine(lambda name: ask(name) if name in names else None)
