"""Calls of HTTP tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.access.grants import granted
from covalt_git.calls import call_secrets

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from covalt_git.catalog.catalog import Found
    from covalt_git.credentials.command import SecretCommand
    from covalt_git.json_values import JsonObject
    from covalt_git.models.outcomes import Log, Outcome, Progress
    from covalt_git.models.project_config import WorkspaceConfig
    from covalt_git.models.tool_properties import Limits
    from covalt_git.workspaces.chat import ChatStore


def run(
    found: Found,
    args: JsonObject,
    chat: ChatStore,
    *,
    limits: Limits,
    config: WorkspaceConfig,
    command: SecretCommand | None = None,
    report: Callable[[Progress | Log], None] | None = None,
    cancel: threading.Event | None = None,
) -> Outcome:
    """Run an HTTP tool once, in this process, because the tool contains no code.

    ``command`` returns granted secrets that are not set on this machine.
    """
    # Imported here because the HTTP client takes as long to load as all other modules together.
    from covalt_git.http_tools import exchange, files  # noqa: PLC0415

    tool, manifest = found.tool, found.toolset.manifest
    may = granted(tool.toolset_id, found.toolset.state, found.toolset.digest, tool)
    return exchange.run(
        exchange.HttpJob(
            tool=tool,
            args=args,
            granted=may,
            declared=frozenset(manifest.secrets if manifest else ()),
            secrets=call_secrets.store(command, may),
            files=files.LockedWorkspace(chat.workspace, config, chat.store.object_format),
            limits=limits,
            report=report,
            cancel=cancel,
        )
    )
