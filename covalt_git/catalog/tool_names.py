"""Names of tools in MCP: their paths, or names for hosts that reject dots or long names.

A name depends on the ids, and on the tools that had a name first, so that it is the same at every start.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Literal

from covalt_git.names import BadNameError, ToolId, host_name
from covalt_git.toolsets.toolset import read_toolset

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from covalt_git.models.tool import Tool

Style = Literal["dots", "underscore"]

STYLES: tuple[Style, ...] = ("dots", "underscore")
"""``app-builder.write_file`` and ``app-builder_write_file``."""

MAX_PLAIN = 64
"""Longest name that every host accepts: ``[A-Za-z0-9_-]{1,64}``."""

RESERVED = frozenset({"call_tool", "read_result", "read_tool", "resume", "search_tools"})
"""Names of the MCP server's own tools, which no other tool has."""

_DIGITS = 12
_DIGESTED = re.compile(rf".*_[0-9a-f]{{{_DIGITS}}}")


def names(
    tool_ids: Collection[str],
    style: Style,
    *,
    reserved: Collection[str] = (),
    first: Callable[[str], bool] = lambda _: False,
) -> dict[str, str]:
    """Return the tools' ids by their names, in the order of ``tool_ids``.

    With ``dots`` a name is the tool's path.  With ``underscore`` the dots are replaced; if the name is too
    long, ambiguous or ``reserved``, it ends in a digest of the id.  Of several tools, the only one for which
    ``first`` is true keeps the ambiguous name.
    """
    paths = {tool_id: ToolId.parse(tool_id).path for tool_id in tool_ids}
    if style == "dots":
        return {path: tool_id for tool_id, path in paths.items()}
    plain_names = {tool_id: host_name(tool_id) for tool_id in paths}
    counted = Counter(plain_names.values())
    firsts = {
        tool_id for tool_id, name in plain_names.items() if counted[name] > 1 and first(tool_id)
    }
    counted_firsts = Counter(plain_names[tool_id] for tool_id in firsts)

    def is_unique(name: str, tool_id: str) -> bool:
        # A name that looks like one with a digest gets a digest: another tool could have it.
        is_plain = len(name) <= MAX_PLAIN and not _DIGESTED.fullmatch(name)
        is_only = counted[name] == 1 or (tool_id in firsts and counted_firsts[name] == 1)
        return is_plain and is_only and name not in reserved

    return {
        name if is_unique(name, tool_id) else _with_digest(name, tool_id): tool_id
        for tool_id, name in plain_names.items()
    }


def named_first(root: Path, tools: Mapping[str, Tool]) -> Callable[[str], bool]:
    """Return a function that returns whether a tool keeps its name although others would have the same."""
    states = cache(lambda toolset_id: read_toolset(root, toolset_id).state)
    return lambda tool_id: tool_id in states(tools[tool_id].toolset_id).named_first


def host_names(root: Path, tools: Mapping[str, Tool]) -> dict[str, str]:
    """Return the names of tools for hosts that reject dots, by the tools' ids."""
    first = named_first(root, tools)
    ids_by_name = names(sorted(tools), "underscore", reserved=RESERVED, first=first)
    return {tool_id: name for name, tool_id in ids_by_name.items()}


def path_of(name: str) -> str | None:
    """Return the id of the tool with a path such as ``app-builder.write_file``; None for other names."""
    try:
        tool_id = ToolId.parse(name)
    except BadNameError:
        return None
    return str(tool_id) if tool_id.path == name else None


def _with_digest(name: str, tool_id: str) -> str:
    digest = hashlib.sha256(tool_id.encode()).hexdigest()[:_DIGITS]
    return f"{name[: MAX_PLAIN - _DIGITS - 1]}_{digest}"
