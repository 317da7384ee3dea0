"""Result that operations on toolsets and validation share: MCP servers without a grant.

It is apart from :mod:`.results`, whose models of commits ``validate`` does not load.
"""

from __future__ import annotations

from covalt_git.operations.registry import Result


class UngrantedServer(Result):
    """An MCP server that may not be used: why, and the command that grants it."""

    server: str
    why: str
    command: str
