"""Tools of servers whose acceptance the user of this machine knows: a pull can accept others, whose descriptions a model would read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.catalog import toolset_cache
from covalt_git.manifests.toolset_files import toolset_ids
from covalt_git.toolsets.permissions import not_accepted_here

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from covalt_git.models.tool import Tool


def without_pulled(root: Path, tools: Collection[Tool]) -> list[Tool]:
    """Return the tools without those that only a pull has accepted; a call of one is refused with what to trust."""
    ids = toolset_ids(root / "toolsets")
    locked = {tool.toolset_id for tool in tools if tool.is_locked}
    hidden = {
        tool_id
        for toolset_id in locked & {*ids}
        for tool_id in not_accepted_here(toolset_cache.toolset(root, toolset_id, ids))
    }
    return [tool for tool in tools if tool.tool_id not in hidden]
