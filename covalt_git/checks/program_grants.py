"""Check of grants of earlier versions, whose MCP servers run without a sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.checks.program_code import declared_refusals
from covalt_git.models.toolset_state import ProcessGrant
from covalt_git.problems import codes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from covalt_git.errors import Problem
    from covalt_git.manifests.reading import Reading
    from covalt_git.models.toolset_manifest import ToolsetManifest
    from covalt_git.models.toolset_state import ToolsetState


def check_program_grants(
    reading: Reading[ToolsetState], manifest: ToolsetManifest, root: Path, folder: Path
) -> Iterator[Problem]:
    """Find grants of programs without the key ``sandbox``: they run without one, which their user never chose.

    A program that is refused without a sandbox does not run at all, until the user decides.
    """
    servers = {server.id: server for server in manifest.mcp_servers}
    for key, grant in reading.value.grants.items() if reading.value else ():
        if not isinstance(grant, ProcessGrant) or grant.sandbox is not None:
            continue
        server = servers.get(grant.server)
        refusals = (
            iter(()) if server is None else declared_refusals(server, root, folder, sandboxed=False)
        )
        refusal = next(refusals, None)
        if server is not None and refusal is not None:
            message = (
                f"the MCP server {grant.server!r} is refused, as its grant has no sandbox:"
                f" {refusal.key} {refusal.why(server)}"
            )
            hint = refusal.hint(manifest.id, server)
        else:
            message = f"the MCP server {grant.server!r} runs without a sandbox"
            command = f"covalt-git grant add {manifest.id}"
            hint = (
                f"{command} server {grant.server}, with the folders and hosts that it needs;"
                f" or to keep it without a sandbox: {command} unsandboxed {grant.server}"
            )
        yield reading.warning(
            codes.UNSANDBOXED_SERVER, ("grants", key), message, hint=hint, key=True
        )
