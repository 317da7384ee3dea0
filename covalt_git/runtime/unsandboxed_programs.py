"""Check of decisions to run a program without a sandbox: those that no call would follow are refused before they are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.checks.program_code import declared_refusals
from covalt_git.errors import CovaltError
from covalt_git.runtime import sandbox_levels

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.grants.plans import WantedGrant
    from covalt_git.toolsets.toolset import Toolset


def check_unsandboxed(toolset: Toolset, grants: Iterable[WantedGrant]) -> list[WantedGrant]:
    """Return the grants that a user wants, if the programs would be started.

    Other paths than ``$workspace`` depend on variables of the process that starts the program, so they are checked there.

    Raises:
        CovaltError: ``server_in_workspace``, if a program would get a path into the workspace without a sandbox.
    """
    decisions = [*grants]
    names = {grant.name for grant in decisions if grant.kind in {"process", "unsandboxed"}}
    for server in toolset.manifest.mcp_servers if toolset.manifest else ():
        if server.id not in names or server.command is None:
            continue
        for refusal in declared_refusals(server, toolset.root, toolset.folder, sandboxed=False):
            # As at its start (:mod:`.mcp_servers`): on a machine without a sandbox, tools can write everywhere.
            if refusal.place == "workspace" and (refusal.loaded or sandbox_levels.is_sandbox()):
                raise CovaltError(
                    f"the MCP server {server.id!r} of {toolset.id!r} would not be started without a sandbox:"
                    f" {refusal.key} {refusal.why(server)}",
                    hint=refusal.hint(toolset.id, server),
                    code="server_in_workspace",
                    http_status=409,
                )
    return decisions
