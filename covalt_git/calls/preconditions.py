"""Preconditions of a call: its tool can run here, its arguments fit, and whether approval is waived."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.access import confirmation
from covalt_git.calls import http_calls, mcp_calls
from covalt_git.json_values import canonical_json, json_schema
from covalt_git.json_values.pointer import json_path
from covalt_git.runtime import sandbox
from covalt_git.toolsets.toolset_copies import ToolsetCopy

if TYPE_CHECKING:
    from covalt_git.catalog.catalog import Found
    from covalt_git.json_values import JsonObject
    from covalt_git.models.calls import SandboxLevel
    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.models.tool import Tool
    from covalt_git.models.toolset_state import ToolsetState


def is_read_only(tool: Tool) -> bool:
    """Tell whether a tool is said to change nothing, and is held to it.

    Of HTTP tools, which may bring a file, it says that nothing out there changes.
    """
    return tool.kind == "python" and tool.annotations.read_only is True


def check_found(found: Found, *, at: SandboxLevel | None = None) -> None:
    """Make sure that a tool can run as its files are now.

    Raises:
        CovaltError: as :func:`check_runnable`, and for an MCP server that is not what was granted.
        ToolsetChangedError: where the toolset's files changed since they were read.
    """
    check_runnable(found.tool, found.toolset.state, at=at)
    if found.tool.kind == "mcp":
        server = mcp_calls.server_of(found.toolset, found.tool.server)
        mcp_calls.check_granted(found.toolset, server)
    elif found.tool.kind == "python":
        ToolsetCopy.of(found.toolset).make()


def check_runnable(tool: Tool, state: ToolsetState, *, at: SandboxLevel | None = None) -> None:
    """Make sure that a tool of a toolset in that state can run, at a level or the strongest here.

    Raises:
        GrantNeededError: for an HTTP tool whose host, or a secret of it, was not granted, and for one of
            an MCP server of which nothing was; see :func:`check_found`.
        SandboxNeededError: for the Python of an imported toolset.
    """
    if tool.kind == "http":
        http_calls.check_granted(tool, state)
        return
    if tool.kind == "mcp":
        mcp_calls.check_some_grant(tool, state)
        return
    sandbox.check_trust(tool.toolset_id, state, digest=tool.toolset_digest, at=at)


def check_arguments(tool: Tool, args: JsonObject) -> None:
    """Check arguments against what is known of the tool without running it.

    Raises:
        InvalidArgumentsError: with everything that is wrong, each with its place.
    """
    try:
        canonical_json.dumps(args)
    except canonical_json.NotJsonError as error:
        place, _, why = error.message.partition(": ")
        raise json_schema.InvalidArgumentsError(tool.tool_id, [(place, why)]) from None
    found = json_schema.value_problems(tool.input_schema, args)
    if found:
        problems = [(json_path(place), message) for place, message in found]
        raise json_schema.InvalidArgumentsError(tool.tool_id, problems)


def is_waived(config: ProjectConfig, tool: Tool, args: JsonObject) -> bool:
    """Tell whether this project said that nobody is asked, whatever the tool's own code says."""
    asking = tool.model_copy(update={"confirmation": ("decorator",)})
    return tool.confirmation_is_settled or not confirmation(config, asking, args)
