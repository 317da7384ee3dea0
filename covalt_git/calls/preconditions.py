"""Preconditions of a call: its tool can run; and whether approval is waived."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from covalt_git.access import decide_call
from covalt_git.calls import tool_grants
from covalt_git.errors import CovaltError
from covalt_git.json_values import json_schema
from covalt_git.runtime import sandbox_levels
from covalt_git.runtime.disk_space import DiskSpace
from covalt_git.toolsets.permissions import check_trusted
from covalt_git.toolsets.tool_arguments import rule_at
from covalt_git.toolsets.toolset import read_toolset
from covalt_git.toolsets.toolset_copies import ToolsetCopy
from covalt_git.workspaces.disk_usage import check_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from covalt_git.catalog.catalog import Found
    from covalt_git.json_values import JsonObject
    from covalt_git.json_values.pointer import Loc
    from covalt_git.models.calls import SandboxLevel
    from covalt_git.models.project_config import ProjectConfig
    from covalt_git.models.rules import PolicyRule
    from covalt_git.models.tool import Tool
    from covalt_git.models.tool_properties import Caller
    from covalt_git.workspaces.chat import ChatStore


_SAYING: Final = frozenset({"type", "enum", "const", "anyOf", "oneOf"})
"""Keywords of a schema that was read: without them, it was not, and accepts anything."""


def is_read_only(tool: Tool) -> bool:
    """Return whether a Python tool declares that it changes no files; the engine enforces it.

    The annotation of an HTTP tool is about the remote server: its response may still be saved as a file.
    """
    return tool.kind == "python" and tool.annotations.read_only is True


def check_found(
    target: Found, root: Path, config: ProjectConfig, *, at: SandboxLevel | None = None
) -> None:
    """Check that a tool of the project in ``root`` can run with its current files.

    Raises:
        NotTrustedError: if the toolset has permissions that the user of this machine has not trusted.
        CovaltError: as :func:`.tool_grants.check_runnable`, and if the MCP server differs from the granted one.
        ToolsetChangedError: if the toolset's files changed since they were read.
    """
    tool_grants.check_runnable(target.tool, target.toolset.state, at=at)
    for tool in target.tools:
        if tool.kind == "builtin":
            continue
        # An alias has two tools. Trust is checked for both, because each has an own toolset with grants of its own.
        is_called = tool.toolset_id == target.toolset.id
        toolset = target.toolset if is_called else read_toolset(root, tool.toolset_id)
        sandboxed = tool.kind != "python" or is_confined(tool, at)
        check_trusted(toolset, tool, config, sandboxed=sandboxed)
    if target.tool.kind == "mcp":
        server = tool_grants.server_of(target.toolset, target.tool.server)
        tool_grants.check_server_grant(target.toolset, server)
    elif target.tool.kind == "python":
        # The tool runs from this copy. It is written and compared with the digest here, so that a file that changes
        # after the check, or a .pyc beside its source, never runs under a digest that the user has granted.
        ToolsetCopy.of(target.toolset).make()


def check_caller(tool: Tool, caller: Caller) -> None:
    """Check that a tool accepts calls of users and agents (``direct``), or of scripts.

    Raises:
        CovaltError: ``wrong_caller``, if it does not.
    """
    if caller not in tool.callers:
        what = "a script cannot call it" if caller == "script" else "only scripts can call it"
        raise CovaltError(
            f"{tool.tool_id} has callers: [{', '.join(tool.callers)}], so {what}",
            hint="covalt-git tool show " + tool.tool_id,
            code="wrong_caller",
            http_status=403,
        )


def is_confined(tool: Tool, at: SandboxLevel | None = None) -> bool:
    """Return whether a tool runs in a sandbox at a level, by default the strongest of this machine.

    At the level ``process`` its code can do what the user can do, as can the programs of MCP servers.
    """
    return tool.kind == "python" and sandbox_levels.is_sandbox(at)


def check_space(tool: Tool, chat: ChatStore) -> None:
    """Check that a tool that may write has enough disk space.  Built-in tools are exempt, like edits of a user.

    Raises:
        DiskFullError: if the file system has too little.
        CovaltError: if the chat's store has reached ``workspace.max_store_mb``.
    """
    if tool.kind == "builtin" or is_read_only(tool):
        return
    check_store(chat)
    if tool.kind == "python":
        DiskSpace(chat.workspace).check()


def refused(
    tool_id: str, problems: Sequence[tuple[str, str]], target: Found
) -> json_schema.InvalidArgumentsError:
    """Return the error of arguments that a Python function refuses, though they match the listed schema.

    Its hint leads to a schema that says why, or names what no schema says, such as a validator.
    """
    tool, source = target.tool, target.toolset.sources.get(target.tool.id.name)
    places = [_place(path) for path, _ in problems]
    names = dict.fromkeys(str(place[0]) for place in places if place)
    unread = source.unread if source else {}
    reasons = [f"{name} ({unread[name]})" for name in names if name in unread]
    if reasons and all(_SAYING & rule_at(tool.input_schema, place).keys() for place in places):
        hint = f"the function also checks what its schema does not say: {', '.join(reasons)}"
        return json_schema.InvalidArgumentsError(tool_id, problems, hint=hint)
    is_listed = tool.schema_is_declared or tool.function_schema is None
    hint = "" if is_listed else f"covalt-git tool describe {tool_id}"
    return json_schema.InvalidArgumentsError(tool_id, problems, hint=hint)


def _place(path: str) -> Loc:
    """Return the place that a tool's process wrote as JSONPath; that of all arguments if the text is no path."""
    from covalt_toolset import json_path as of_sdk  # noqa: PLC0415 - few calls are refused so

    try:
        return tuple(of_sdk.parts(path))
    except ValueError:
        return ()


def is_waived(rules: Iterable[PolicyRule], tool: Tool, args: JsonObject) -> bool:
    """Return whether the project waives the approval that the tool's decorator requires."""
    # The listed tool may not have the decorator: only the import shows it. So the rules are asked as if it were
    # listed.
    by_decorator = tool.model_copy(update={"confirmation": ("decorator",)})
    return (
        tool.confirmation_is_settled or decide_call(rules, (by_decorator,), args).effect == "allow"
    )
