"""Warnings that a Python tool ran with another schema than the listed one, in processes that want them.

`call`, `dev` and `tool test` do.  Other processes do not ask the tool for its schema, so their calls take no longer.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from covalt_git.json_values.difference import same

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from covalt_git.models.outcomes import RunSchemas
    from covalt_git.models.tool import Tool

_MOST_SHOWN = 3

_lock = threading.Lock()
_callbacks: list[Callable[[str], None]] = []
_checked: set[tuple[str, str]] = set()
"""The ids of tools whose schemas were compared, with their digests: one warning is enough for each version."""


@contextmanager
def reported(callback: Callable[[str], None]) -> Iterator[None]:
    """Call ``callback`` with each warning of calls in this process, once for each version of a tool, during the block."""
    _callbacks.append(callback)
    try:
        yield
    finally:
        _callbacks.remove(callback)
        if not _callbacks:
            _checked.clear()


def is_wanted(tool: Tool) -> bool:
    """Return whether a call should ask a Python tool for its schema."""
    return bool(_callbacks) and not tool.schema_is_declared and _version_of(tool) not in _checked


def report(tool: Tool, ran: RunSchemas) -> None:
    """Report how the schema of a call differs from the listed one."""
    with _lock:  # the server of `dev` makes calls concurrently
        if _version_of(tool) in _checked:
            return
        _checked.add(_version_of(tool))
    if same(tool.input_schema, ran.input_schema):
        return
    from covalt_git.authority.schema_meaning import judge_meaning  # noqa: PLC0415 - most are the same

    # What the listed schema refuses, a call refuses too: only what a call refuses in addition is a surprise.
    judged = judge_meaning(tool.input_schema, ran.input_schema)
    losses = [difference.words for difference in judged if difference.verdict == "narrowing"]
    if not losses:
        return
    more = len(losses) - _MOST_SHOWN
    summary = "; ".join(losses[:_MOST_SHOWN]) + (f"; and {more} more" if more > 0 else "")
    warning = (
        f"{tool.tool_id} checks arguments with another schema than the listed one: {summary}\n"
        f"  hint: covalt-git tool describe {tool.tool_id}"
    )
    for callback in [*_callbacks]:
        callback(warning)


def _version_of(tool: Tool) -> tuple[str, str]:
    return tool.tool_id, tool.toolset_digest
