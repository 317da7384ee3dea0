"""Merging a toolset's declarations, its sources, its overrides and this project's into its tools.

The order is: this project's state, then the toolset's ``tool_overrides``, then what ``tools`` says,
then what the Python says of itself.  Confirmation is different: anybody may ask for it, and only the
project may waive it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.files.http_checks import inferred_schema
from covalt_git.models.renderers import ALIASES, Renderer, RendererType
from covalt_git.models.tool import ConfirmationSource, Tool
from covalt_git.models.toolset_manifest import ToolOverride
from covalt_git.models.toolset_state import LocalOverride
from covalt_git.names import ToolId

if TYPE_CHECKING:
    from collections.abc import Mapping

    from covalt_git.files.python_source import ToolSource
    from covalt_git.models.base import JsonObject
    from covalt_git.models.toolset_manifest import ToolDeclaration, ToolsetManifest
    from covalt_git.models.toolset_state import ToolsetState

ANY_ARGUMENTS = {"type": "object"}


def override_key(toolset_id: str, tool_id: str) -> str:
    """Return the whole id that an override's ``tool_id`` stands for."""
    return tool_id if ":" in tool_id else str(ToolId(toolset_id, tool_id))


def is_on(state: ToolsetState) -> bool:
    """Tell whether a toolset is on: as the project decided, else if it is the project's own."""
    return not state.imported if state.enabled is None else state.enabled


def enabled_by_toolset(
    manifest: ToolsetManifest, declared: ToolDeclaration, override: ToolOverride
) -> bool:
    """Tell whether a tool is on as far as its toolset says, whose own override is given."""
    said = (override.enabled, declared.enabled, manifest.defaults.enabled)
    return next(one for one in said if one is not None)


def tools_in_force(
    manifest: ToolsetManifest,
    state: ToolsetState,
    sources: Mapping[str, ToolSource],
    digest: str,
) -> tuple[Tool, ...]:
    """Return the toolset's tools as they are in force; ``sources`` has those whose Python was read."""
    overrides = {
        override_key(manifest.id, override.tool_id): override
        for override in manifest.tool_overrides
    }
    tools = []
    for declared in manifest.tools:
        tool_id = str(ToolId(manifest.id, declared.id))
        override = overrides.get(tool_id, ToolOverride(tool_id=tool_id))
        local = state.overrides.get(declared.id, LocalOverride())
        tools.append(
            _tool(manifest, state, declared, sources.get(declared.id), override, local, digest)
        )
    return tuple(tools)


def _tool(
    manifest: ToolsetManifest,
    state: ToolsetState,
    declared: ToolDeclaration,
    source: ToolSource | None,
    override: ToolOverride,
    local: LocalOverride,
    digest: str,
) -> Tool:
    said_name = source.name if source else None
    said_description = source.description if source else None
    inferred = source.input_schema if source else ANY_ARGUMENTS
    if declared.http is not None:
        inferred = inferred_schema(declared.http)
    descriptions = (
        local.description_override,
        override.description_override,
        declared.description or said_description or "",
    )
    enabled = local.enabled
    if enabled is None:
        enabled = enabled_by_toolset(manifest, declared, override)
    return Tool(
        tool_id=str(ToolId(manifest.id, declared.id)),
        toolset_id=manifest.id,
        name=local.name_override
        or override.name_override
        or declared.name
        or said_name
        or declared.id.replace("_", " ").replace("-", " ").title(),
        description=next(one for one in descriptions if one is not None),
        kind="python" if declared.entrypoint else "http",
        entrypoint=declared.entrypoint,
        http=declared.http,
        input_schema=inferred if declared.input_schema is None else declared.input_schema,
        schema_is_declared=declared.input_schema is not None,
        output_schema=_output_schema(declared, source),
        annotations=declared.annotations,
        limits=declared.limits,
        examples=declared.examples,
        tags=declared.tags,
        security=declared.security,
        renderer=_renderer(declared, override, local),
        confirmation=_confirmation(manifest, declared, source, override, local),
        confirmation_is_settled=local.requires_confirmation is not None,
        enabled=is_on(state) and enabled,
        toolset_digest=digest,
    )


def _output_schema(declared: ToolDeclaration, source: ToolSource | None) -> JsonObject | None:
    if declared.output_schema is None and source is not None and declared.http is None:
        return source.output_schema
    return declared.output_schema


def _confirmation(
    manifest: ToolsetManifest,
    declared: ToolDeclaration,
    source: ToolSource | None,
    override: ToolOverride,
    local: LocalOverride,
) -> tuple[ConfirmationSource, ...]:
    if local.requires_confirmation is not None:
        return ("project",) if local.requires_confirmation else ()
    by_toolset = declared.requires_confirmation
    if by_toolset is None:
        by_toolset = manifest.defaults.requires_confirmation
    asks: dict[ConfirmationSource, bool] = {
        "toolset": by_toolset,
        "decorator": source is not None and source.requires_confirmation,
        "override": override.requires_confirmation is True,
    }
    return tuple(who for who, asked in asks.items() if asked)


def _renderer(
    declared: ToolDeclaration, override: ToolOverride, local: LocalOverride
) -> Renderer | None:
    kind: RendererType | None = None
    config = None
    if declared.renderer is not None:
        kind, config = declared.renderer.type, declared.renderer.config
    for one in (override, local):
        if one.renderer is not None:
            kind, config = one.renderer, one.renderer_config or {}
        elif one.renderer_config is not None:
            config = one.renderer_config
    if kind is None:
        return None
    resolved: RendererType = "document" if kind in ALIASES else kind
    return Renderer(type=resolved, config=config or {})
