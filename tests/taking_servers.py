"""MCP servers that toolsets declare, taken as a person takes them who accepts whatever they give."""

from functools import partial
from pathlib import Path

from covalt_git.calls.servers.mcp_calls import list_tools
from covalt_git.sources.refresh import accept, find_source, refresh


def take(root: Path, toolset_id: str, namespace: str) -> None:
    """Ask a server that is granted for its tools, and accept all of them."""
    refresh(root, find_source(root, toolset_id, namespace), partial(list_tools, root=root))
    given = find_source(root, toolset_id, namespace).to_accept
    accept(root, toolset_id, namespace, {one.name: one.digest for one in given})
