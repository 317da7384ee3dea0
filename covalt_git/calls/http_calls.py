"""Calls of HTTP tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.access.grants import granted
from covalt_git.calls.tool_run import secret_store

if TYPE_CHECKING:
    from covalt_git.calls.tool_run import ToolRun
    from covalt_git.json_values import JsonObject
    from covalt_git.models.outcomes import Outcome


def run(job: ToolRun, args: JsonObject) -> Outcome:
    """Run an HTTP tool once, in this process, because the tool contains no code."""
    # Imported here because the HTTP client takes as long to load as all other modules together.
    from covalt_git.http_tools import exchange  # noqa: PLC0415

    tool, toolset = job.found.tool, job.found.toolset
    may = granted(tool.toolset_id, toolset.state, toolset.digest, tool)
    return exchange.run(
        exchange.HttpJob(
            tool=tool,
            args=args,
            granted=may,
            declared=frozenset(toolset.manifest.secrets if toolset.manifest else ()),
            secrets=secret_store(job.command, may, job.check_again),
            files=job.files,
            limits=job.limits,
            report=job.follower.report,
            cancel=job.follower.cancel,
        )
    )
