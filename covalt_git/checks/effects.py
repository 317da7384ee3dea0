"""Destructive tools, whose calls require approval by default, and the notes about them.

A tool is destructive if its annotations or its decorator say so, or if its HTTP method writes.  The manifest of the
project's own toolset can say otherwise; the manifest of an imported toolset cannot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.manifests.override_keys import override_key
from covalt_git.names import ToolId
from covalt_git.problems import codes
from covalt_git.text.risky_words import risky_word

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from covalt_git.errors import Problem
    from covalt_git.json_values.pointer import Loc
    from covalt_git.manifests.reading import Reading
    from covalt_git.models.tool import Tool
    from covalt_git.models.toolset_manifest import ToolDeclaration, ToolsetManifest
    from covalt_git.models.toolset_state import ToolsetState
    from covalt_git.python_reader.source import ToolDefinition

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


def is_destructive(
    declared: ToolDeclaration, source: ToolDefinition | None, *, imported: bool
) -> bool:
    """Return whether a tool is destructive, unless its own project says that it is not."""
    method = None if declared.http is None else declared.http.method
    implied = source is not None and source.destructive
    stated = declared.annotations.destructive
    return destroys(stated=stated, method=method, implied=implied, imported=imported)


def destroys(
    *, stated: bool | None, method: str | None, implied: bool = False, imported: bool = False
) -> bool:
    """Return the same by the annotation, the method of the tool's HTTP request, and what its source code implies."""
    implied = implied if method is None else method in WRITES
    # The author of an imported toolset is a stranger: `read_only: true` of a DELETE must not waive its approval.
    if imported:
        return implied or stated is True
    return implied if stated is None else stated


def asks_by_default(
    declared: ToolDeclaration, source: ToolDefinition | None, *, imported: bool
) -> bool:
    """Return whether calls require approval because the tool is destructive.

    ``requires_confirmation: false`` of the tool itself waives it in the project's own toolsets.
    """
    if declared.requires_confirmation is False and not imported:
        return False
    return is_destructive(declared, source, imported=imported)


def may_destroy(tool: Tool) -> bool:
    """Return whether a tool is destructive, requires approval, or has an id that says so and nothing that denies it."""
    notes = tool.annotations
    # An agent that misspells a name calls the tool that the error proposes, so a doubt counts as destructive.
    if notes.destructive or tool.confirmation:
        return True
    is_harmless = notes.read_only or notes.destructive is False
    return not is_harmless and risky_word(tool.id.name) is not None


def check_effects(
    reading: Reading[ToolsetManifest],
    state: ToolsetState,
    sources: Mapping[str, ToolDefinition],
) -> Iterator[Problem]:
    """Yield warnings of tools that require approval only because they are destructive, or that perhaps should.

    ``read_only: true`` of a tool that writes is a warning too.
    """
    manifest = reading.valid
    by_override = {
        override_key(manifest.id, override.tool_id)
        for override in manifest.tool_overrides
        if override.requires_confirmation
    }
    for position, tool in enumerate(manifest.tools):
        source, local = sources.get(tool.id), state.overrides.get(tool.id)
        if tool.annotations.read_only and _must_write(tool, source):
            yield _contradiction(reading.below("tools", position), tool)
        if tool.http is None and source is None:
            continue  # its decorator may require approval, and the code cannot be read, which is an error of its own
        decides = local is not None and local.requires_confirmation is not None
        asks = tool.requires_confirmation or (source is not None and source.requires_confirmation)
        by_default = tool.requires_confirmation is None and manifest.defaults.requires_confirmation
        if decides or asks or by_default or str(ToolId(manifest.id, tool.id)) in by_override:
            continue
        yield from _check_effect(reading.below("tools", position, "id"), tool, source, state)


def check_locked_effects(
    reading: Reading[ToolsetManifest], tools: Iterable[Tool]
) -> Iterator[Problem]:
    """Yield a warning for each MCP server and document with accepted tools that require approval only because they are destructive."""
    asking: dict[str | None, list[str]] = {}
    for tool in tools:
        if tool.confirmation == ("destructive",) and tool.held_back is None:
            asking.setdefault(tool.server, []).append(tool.tool_id)
    for position, server in enumerate(reading.valid.mcp_servers):
        if tool_ids := asking.get(server.id):
            message = f"calls of these tools require approval, because they are destructive: {', '.join(tool_ids)}"
            hint = f"covalt-git tool override {tool_ids[0]} --confirm, or --no-confirm"
            loc = ("mcp_servers", position, "id")
            yield reading.warning(codes.ASKS_BY_DEFAULT, loc, message, hint=hint)


def _must_write(tool: ToolDeclaration, source: ToolDefinition | None) -> bool:
    """Return whether a tool changes something, whatever ``read_only`` says.

    Only a POST can be a query; its author then writes ``destructive: false``.
    """
    stated = tool.annotations.destructive
    if tool.http is not None and tool.http.method in WRITES:
        return tool.http.method != "POST" or stated is not False
    return stated is True or (source is not None and source.destructive)


def _contradiction(reading: Reading[ToolsetManifest], tool: ToolDeclaration) -> Problem:
    effect, hint = "the tool is destructive", "write read_only: false"
    if tool.http is not None and tool.http.method in WRITES:
        effect = f"the method of the request is {tool.http.method}"
        if tool.http.method == "POST":
            hint += ", or add destructive: false if the request changes nothing"
    message = f"the tool cannot be read-only: {effect}"
    at: Loc = ("annotations", "read_only")
    return reading.warning(codes.FALSE_READ_ONLY, at, message, hint=hint)


def _check_effect(
    reading: Reading[ToolsetManifest],
    tool: ToolDeclaration,
    source: ToolDefinition | None,
    state: ToolsetState,
) -> Iterator[Problem]:
    if asks_by_default(tool, source, imported=state.imported):
        hint = "write requires_confirmation: true, or false if its effects can be undone"
        if state.imported:
            hint = f"covalt-git tool override {ToolId(reading.valid.id, tool.id)} --confirm"
        message = "calls require approval, because the tool is destructive"
        yield reading.warning(codes.ASKS_BY_DEFAULT, (), message, hint=hint)
        return
    notes = tool.annotations
    is_silent = notes.destructive is None and notes.read_only is None
    word = risky_word(tool.id)
    if word and is_silent and tool.requires_confirmation is None and not state.imported:
        message = f"the id says {word!r}, and nothing declares whether the tool is destructive"
        hint = "write annotations: {destructive: true}, or {destructive: false}"
        yield reading.warning(codes.UNKNOWN_EFFECT, (), message, hint=hint)
