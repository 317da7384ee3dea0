"""Check of grants of earlier versions, whose MCP servers run without a sandbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.models.toolset_state import ProcessGrant
from covalt_git.problems import codes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.errors import Problem
    from covalt_git.manifests.reading import Reading
    from covalt_git.models.toolset_state import ToolsetState


def check_program_grants(reading: Reading[ToolsetState], toolset_id: str) -> Iterator[Problem]:
    """Find grants of programs without the key ``sandbox``: they run without one, which their user never chose."""
    for key, grant in reading.value.grants.items() if reading.value else ():
        if isinstance(grant, ProcessGrant) and grant.sandbox is None:
            message = f"the MCP server {grant.server!r} runs without a sandbox"
            command = f"covalt-git grant add {toolset_id}"
            hint = (
                f"{command} server {grant.server}, with the folders and hosts that it needs;"
                f" or to keep it without a sandbox: {command} unsandboxed {grant.server}"
            )
            yield reading.warning(
                codes.UNSANDBOXED_SERVER, ("grants", key), message, hint=hint, key=True
            )
