"""Calls of HTTP tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.access.grants import granted
from covalt_git.calls.tool_run import secret_store, sign_ins_of
from covalt_git.models.http_placement import secrets_of

if TYPE_CHECKING:
    from covalt_git.calls.tool_run import ToolRun
    from covalt_git.json_values import JsonObject
    from covalt_git.models.outcomes import Outcome
    from covalt_git.models.tool import Tool
    from covalt_git.toolsets.toolset import Toolset


def run(job: ToolRun, args: JsonObject) -> Outcome:
    """Run an HTTP tool once, in this process, because the tool contains no code."""
    # Imported here because the HTTP client takes as long to load as all other modules together.
    from covalt_git.http_tools import exchange  # noqa: PLC0415

    tool, toolset = job.found.tool, job.found.toolset
    may = granted(tool.toolset_id, toolset.state, toolset.digest, tool)
    declared = frozenset(toolset.manifest.secrets if toolset.manifest else ())
    if tool.source is not None and tool.http is not None:
        # The user has accepted the request with the names of its secrets; the manifest need not repeat them.
        declared |= {secret.name for secret in secrets_of(tool.http)}
    return exchange.run(
        exchange.HttpJob(
            tool=tool,
            args=args,
            granted=may,
            declared=declared,
            secrets=secret_store(job.command, may, job.check_again),
            files=job.files,
            limits=job.limits,
            report=job.follower.report,
            cancel=job.follower.cancel,
            types=_types(toolset, tool),
            sign_ins=sign_ins_of(job.root, toolset, may),
        )
    )


def _types(toolset: Toolset, tool: Tool) -> dict[str, JsonObject] | None:
    """Return the types of the lock of a GraphQL source, which the digest of the accepted definition covers."""
    reading = toolset.locks.get(tool.source) if tool.source is not None else None
    return None if reading is None or reading.value is None else reading.value.types or None
