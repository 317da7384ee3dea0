"""Overrides of a manifest: their tool ids and renderers, and namespaces of servers after ``aliases`` are applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from covalt_git.names import ToolId

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.json_values import JsonObject
    from covalt_git.manifests.model_errors import Loc
    from covalt_git.models.toolset_manifest import ToolsetManifest
    from covalt_git.models.toolset_state import ToolsetState

    Namespace = tuple[Loc, str, str]
    """A server or source: its place in the manifest, its id there, and its namespace in this project."""


class Claimant(NamedTuple):
    """A toolset, and what decides which one of several has a namespace.

    ``installed_at`` is when it was imported, in ISO 8601; None for the project's own toolsets.
    """

    id: str
    enabled: bool
    installed_at: str | None
    namespaces: tuple[Namespace, ...]

    @property
    def precedence(self) -> tuple[bool, str]:
        """Sort key: enabled toolsets, then the project's own ones, then those that were imported first."""
        return not self.enabled, self.installed_at or ""


def override_key(toolset_id: str, tool_id: str) -> str:
    """Return the full tool id for the ``tool_id`` of an override."""
    return tool_id if ":" in tool_id else str(ToolId(toolset_id, tool_id))


def namespace_of(server_id: str, state: ToolsetState) -> str:
    """Return the namespace of a server or source in this project: its alias, if it has one."""
    return state.aliases.get(server_id, server_id)


def declared_with_aliases(
    manifest: ToolsetManifest | None, state: ToolsetState
) -> tuple[Namespace, ...]:
    """Return the namespaces of the servers and sources that a manifest declares."""
    if manifest is None:
        return ()
    declared: list[tuple[Loc, str]] = [
        (("mcp_servers", position, "id"), server.id)
        for position, server in enumerate(manifest.mcp_servers)
    ]
    declared += [
        (("sources", position, "id"), source.id) for position, source in enumerate(manifest.sources)
    ]
    return tuple((loc, name, namespace_of(name, state)) for loc, name in declared)


def overridden_tool(toolset_id: str, tool_id: str, state: ToolsetState) -> str:
    """Return the tool id in this project, after aliases, for the ``tool_id`` of a toolset's override."""
    namespace, colon, name = tool_id.rpartition(":")
    if not colon or namespace == toolset_id:
        return override_key(toolset_id, tool_id)
    return f"{namespace_of(namespace, state)}:{name}"


def renderer_configs(manifest: ToolsetManifest) -> Iterator[tuple[Loc, str, JsonObject]]:
    """Yield the place, the renderer and its configuration, for each configuration in a manifest."""
    declared: dict[str, str] = {}
    for position, tool in enumerate(manifest.tools):
        if tool.renderer is not None:
            declared[override_key(manifest.id, tool.id)] = tool.renderer.type
            yield ("tools", position, "renderer"), tool.renderer.type, tool.renderer.config
    for position, override in enumerate(manifest.tool_overrides):
        kind = override.renderer or declared.get(override_key(manifest.id, override.tool_id))
        if kind is not None and override.renderer_config is not None:
            yield ("tool_overrides", position, "renderer_config"), kind, override.renderer_config
