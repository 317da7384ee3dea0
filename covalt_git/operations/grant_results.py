"""Result that operations on toolsets and validation share: grants that a toolset lacks.

It is apart from :mod:`.results`, whose models of commits ``validate`` does not load.
"""

from __future__ import annotations

from pydantic import Field

from covalt_git.operations.registry import Result


class GrantLacking(Result):
    """A host, a secret or an MCP server that may not be used: why, and the command that grants it."""

    server: str = Field(description="The MCP server; empty for a host or a secret.")
    why: str
    command: str
