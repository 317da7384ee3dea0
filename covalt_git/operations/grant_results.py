"""Shared results of operations on toolsets and of validation: grants that a toolset lacks.

It is a separate module so that ``validate`` does not import the models of commits in :mod:`.results`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from covalt_git.grants.status import missing_grants
from covalt_git.models.server_definition import grant_facts
from covalt_git.operations.registry import Result

if TYPE_CHECKING:
    from covalt_git.toolsets.toolset import Toolset


class GrantLacking(Result):
    """A missing grant of a host, a secret or an MCP server: the reason, and the command that adds it."""

    server: str = Field(description="The MCP server; empty for a host or a secret.")
    why: str
    command: str


class GrantToAdd(Result):
    """A grant that a toolset requests and lacks; ``name`` is the secret or the MCP server."""

    kind: Literal["network", "secret", "process", "server"]
    name: str | None
    host: str | None
    digest: str = Field(
        description="Digest of what is granted: the toolset's files, or the server with its files."
    )

    @property
    def words(self) -> str:
        """The grant in the words of ``grant add``."""
        return " ".join(filter(None, (self.kind, self.name, self.host)))


def grants_to_add(toolset: Toolset) -> tuple[GrantToAdd, ...]:
    """Return the grants that a toolset requests and lacks."""
    servers = {one.id: one for one in toolset.manifest.mcp_servers} if toolset.manifest else {}
    digests = {"network": toolset.digest, "secret": toolset.digest}
    for name, server in servers.items():
        digests[name] = grant_facts(server, toolset.files.hashes)["digest"]
    return tuple(
        GrantToAdd.of(one, digest=digests[one.server or one.kind])
        for one in missing_grants(toolset)
    )
