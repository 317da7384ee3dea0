"""Checks of the tools that pages may call: each entry of ``calls`` names tools of the page's own toolset."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from covalt_git.errors import Problem, nearest_name
from covalt_git.manifests.page_calls import path_pattern
from covalt_git.models.base import PAGE_CALL
from covalt_git.names import ToolId, matches
from covalt_git.problems import codes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from covalt_git.json_values import JsonObject
    from covalt_git.manifests.reading import Reading
    from covalt_git.models.toolset_manifest import ToolsetManifest


def check_page_calls(
    reading: Reading[Any],
    config: JsonObject | None,
    manifest: ToolsetManifest,
    namespaces: Collection[str] = (),
) -> Iterator[Problem]:
    """Find entries of ``calls`` that select no tool of the toolset; ``config`` is at the place of ``reading``.

    ``namespaces`` are those of tools of servers and sources in this project, after aliases.
    """
    entries = (config or {}).get("calls")
    if not isinstance(entries, list | tuple):
        return  # absent, or reported as a value of another type
    names = [tool.id for tool in manifest.tools]
    paths = [ToolId(manifest.id, name).path for name in names]
    # A lock has the tools of a server, and may be older than the toolset.
    unread = {server.id for server in manifest.mcp_servers} | {*namespaces}
    unread |= {source.id for source in manifest.sources}
    for position, entry in enumerate(entries):
        if not isinstance(entry, str) or re.fullmatch(PAGE_CALL, entry) is None:
            continue  # reported as a value of another form
        pattern = path_pattern(manifest.id, entry)
        if pattern.partition(".")[0] in unread or any(matches(pattern, path) for path in paths):
            continue
        near = nearest_name(entry.rpartition(":")[2], names)
        hint = f"did you mean {near!r}?" if near else "name a tool of this toolset, or remove it"
        message = f"the page may call {entry!r}, but the toolset has no such tool"
        yield reading.problem(codes.UNKNOWN_PAGE_CALL, ("calls", position), message, hint=hint)
