"""Shared result of operations on toolsets and of validation: grants that a toolset lacks.

It is a separate module so that ``validate`` does not import the models of commits in :mod:`.results`.
"""

from __future__ import annotations

from pydantic import Field

from covalt_git.operations.registry import Result


class GrantLacking(Result):
    """A missing grant of a host, a secret or an MCP server: the reason, and the command that adds it."""

    server: str = Field(description="The MCP server; empty for a host or a secret.")
    why: str
    command: str
