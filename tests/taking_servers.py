"""MCP servers that toolsets declare, taken as a person takes them who accepts whatever they give."""

import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import yaml

from covalt_git.calls.servers.mcp_calls import list_tools
from covalt_git.grants.grants import add_grant
from covalt_git.models.sources.skill_entry import SKILL, parsed_entry
from covalt_git.models.sources.tool_lock import LockedOffer
from covalt_git.sources.refresh import ToolDifference, accept, find_source, refresh
from tests.mcp_client import REPOSITORY

SKILLS_SERVER = REPOSITORY / "fixtures" / "servers" / "with_skills.py"


def add_skills_server(root: Path, served: Path, **keys: object) -> None:
    """Add the toolset ``near``, whose granted server has the skills of a folder; ``keys`` are further ones of the server."""
    server = {"id": "near", "command": sys.executable, "args": [str(SKILLS_SERVER), str(served)]}
    manifest = {"id": "near", "name": "Near", "version": "1", "mcp_servers": [server | keys]}
    (root / "toolsets/near").mkdir()
    (root / "toolsets/near/toolset.yaml").write_text(yaml.safe_dump(manifest))
    add_grant(root, "near", "process", "near", by="me")


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
