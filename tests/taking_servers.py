"""MCP servers that toolsets declare, taken as a person takes them who accepts whatever they give."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from covalt_git.calls.servers.mcp_calls import list_tools
from covalt_git.models.sources.skill_entry import SKILL, parsed_entry
from covalt_git.models.sources.tool_lock import LockedOffer
from covalt_git.sources.refresh import ToolDifference, accept, find_source, refresh


def take(root: Path, toolset_id: str, namespace: str) -> None:
    """Ask a server that is granted for its tools, and accept all of them."""
    refresh(root, find_source(root, toolset_id, namespace), partial(list_tools, root=root))
    given = find_source(root, toolset_id, namespace).to_accept
    digests = {one.name: one.digest for one in given}
    accept(root, toolset_id, namespace, digests, texts=skill_texts(given))


def skill_texts(given: Iterable[ToolDifference]) -> dict[str, str]:
    """Return the digests of the texts of skills, as one who has read them."""
    entries = {
        one.name: parsed_entry(one.after.listed)
        for one in given
        if isinstance(one.after, LockedOffer) and one.after.kind == "skill"
    }
    return {name: entry.paths[SKILL].digest for name, entry in entries.items()}
