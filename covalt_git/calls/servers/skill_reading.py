"""Reading a file of a server's skill, which must be the one that the server has listed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.calls.servers import skill_cache
from covalt_git.calls.servers.mcp_calls import definition, empty_workspace
from covalt_git.credentials.command import SecretCommand
from covalt_git.manifests.skill_content import ChangedSkillError, check_content, content_bytes
from covalt_git.models.project_config import effective_limits
from covalt_git.models.tool_properties import Limits

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from covalt_git.json_values import JsonObject
    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.models.sources.skill_entry import SkillEntry
    from covalt_git.models.toolset_manifest import McpServer
    from covalt_git.toolsets.toolset import Toolset

    Read = Callable[[str], list[JsonObject]]
    """Returns the contents of a server's resource as the protocol has them."""


def read_skill_file(
    read: Read, entry: SkillEntry, uri: str, source: str
) -> tuple[JsonObject, bytes]:
    """Return a file of a skill as the protocol has it, and its bytes.

    ``source`` is the name of the server in commands, such as ``gear/disk``.

    Raises:
        ChangedSkillError: if it differs from the entry.
        CovaltError: as ``read``.
    """
    contents = read(uri)
    try:
        content = content_bytes(contents)
        check_content(entry, uri, content)
    except ChangedSkillError as error:
        error.hint = f"covalt-git source refresh {source}"
        raise
    skill_cache.store(content)
    return contents[0], content


def server_reader(
    toolset: Toolset,
    server: McpServer,
    *,
    root: Path,
    config: ProjectConfig,
    report: Callable[[str], None],
) -> Read:
    """Return a function that reads a resource of a granted server for its user, also while its toolset is disabled.

    The server runs in an empty folder, and ends after the read.

    Raises:
        CovaltError: when called: if the server is not granted, cannot be started or reached, or does not return it.
    """
    from covalt_git.connections import pool  # noqa: PLC0415 - it loads the SDK
    from covalt_git.runtime import mcp_tool  # noqa: PLC0415 - it loads the SDK

    def read(uri: str) -> list[JsonObject]:
        with empty_workspace() as workspace:
            opened = definition(
                toolset,
                server,
                root=root,
                workspace=workspace,
                chat_id=None,
                command=SecretCommand.of(root, config.secret_command),
                config=config,
                report=report,
            )
            limits = effective_limits(Limits(), config.limits)
            try:
                return mcp_tool.read_resource(opened, uri, limits, lambda: True, lambda: None)
            finally:
                pool.CONNECTIONS.end(opened.name)

    return read
