"""Calls of HTTP tools: what has to be granted before one is made, and the run itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.access.grants import granted
from covalt_git.calls import call_secrets
from covalt_git.hosts import origin_of
from covalt_git.models.http_placement import secrets_of
from covalt_git.templating.url_templates import UrlTemplate

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from covalt_git.catalog.catalog import Found
    from covalt_git.credentials.command import SecretCommand
    from covalt_git.json_values import JsonObject
    from covalt_git.models.project_config import WorkspaceConfig
    from covalt_git.models.tool import Tool
    from covalt_git.models.toolset_manifest import Limits
    from covalt_git.models.toolset_state import ToolsetState
    from covalt_git.runtime.jobs import Log, Outcome, Progress
    from covalt_git.workspaces.chats import ChatStore


def check_granted(tool: Tool, state: ToolsetState) -> None:
    """Make sure that an HTTP tool's host was granted, and each secret that it cannot do without.

    Where the host itself stands outside the project, the call finds out.

    Raises:
        GrantNeededError: with the command that grants it.
    """
    assert tool.http is not None
    template = UrlTemplate.parse(tool.http.url)
    if template.base is not None:
        return
    may = granted(tool.toolset_id, state, tool.toolset_digest)
    origin, _ = origin_of(template.begins)
    may.check_origin(origin)
    for reference in secrets_of(tool.http):
        if reference.default is None:
            may.check_secret(reference.name, origin)


def run(
    found: Found,
    args: JsonObject,
    chat: ChatStore,
    *,
    limits: Limits,
    config: WorkspaceConfig,
    command: SecretCommand | None = None,
    tell: Callable[[Progress | Log], None] | None = None,
    cancel: threading.Event | None = None,
) -> Outcome:
    """Run an HTTP tool once, in this process: nothing of it is code.

    ``command`` is asked for secrets that were granted to it and stand nowhere else.
    """
    # The client takes as long to load as everything else together, and most calls need none.
    from covalt_git.runtime import http_files, http_tool  # noqa: PLC0415

    tool, manifest = found.tool, found.toolset.manifest
    may = granted(tool.toolset_id, found.toolset.state, found.toolset.digest)
    return http_tool.run(
        http_tool.HttpJob(
            tool=tool,
            args=args,
            granted=may,
            declared=frozenset(manifest.secrets if manifest else ()),
            secrets=call_secrets.store(command, may),
            files=http_files.WorkspaceFiles(chat.workspace, config, chat.store.object_format),
            limits=limits,
            tell=tell,
            cancel=cancel,
        )
    )
