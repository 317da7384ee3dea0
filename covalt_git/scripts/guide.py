"""Guide for agents that write scripts: the resource ``covalt://guide/scripts`` of MCP."""

from __future__ import annotations

from pathlib import Path
from string import Template

from covalt_git.runtime.scripts.analysis import MODULES


def text() -> str:
    """Return the guide, in Markdown."""
    guide = Path(__file__).with_name("guide.md").read_text(encoding="utf-8")
    return Template(guide).substitute(modules=", ".join(sorted(MODULES)))
