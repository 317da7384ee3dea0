"""Effective tools of a toolset: its declarations, Python sources and overrides, merged.

The order of precedence is: the project's state file, the toolset's ``tool_overrides``, its ``tools``,
the Python source.  Approval is different: each of these can require it, and only the project can
waive it.  A destructive tool requires it by default, which the manifest of a toolset of the project
can waive too.

A tool of an MCP server or of a document is an entry in the lock of its namespace.  It is disabled until the
project accepts exactly that definition.  A server's or a document's own statements never relax a check.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

from covalt_git.checks.effects import WRITES, asks_by_default
from covalt_git.checks.http_requests import inferred_schema
from covalt_git.json_values import canonical_json, field_projection
from covalt_git.json_values.shared_definitions import Definitions
from covalt_git.manifests.override_keys import overridden_tool, override_key
from covalt_git.models.renderers import ALIASES, Renderer, RendererType
from covalt_git.models.sources.server_definition import grant_facts
from covalt_git.models.tool import (
    ICON_OF_TOOLSET,
    ICON_TYPES,
    ConfirmationSource,
    Tool,
)
from covalt_git.models.tool_properties import EVERY_CALLER, Example
from covalt_git.models.toolset_manifest import Source
from covalt_git.models.toolset_state import LocalOverride
from covalt_git.names import REGISTRY_NAMESPACE, ToolId

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from covalt_git.json_values import JsonObject
    from covalt_git.models.held_back import HeldBack
    from covalt_git.models.sources.tool_lock import LockedTool, ToolLock
    from covalt_git.models.tool_properties import HttpRequest, LegacyRenderer
    from covalt_git.models.toolset_manifest import McpServer, ToolDeclaration, ToolsetManifest
    from covalt_git.models.toolset_state import ToolsetState
    from covalt_git.python_reader.source import ToolDefinition

ANY_ARGUMENTS = {"type": "object"}
_NONE = LocalOverride()


def is_on(state: ToolsetState) -> bool:
    """Return whether a toolset is enabled.  By default, only imported toolsets are disabled."""
    return not state.imported if state.enabled is None else state.enabled


class Overrides(NamedTuple):
    """The overrides of one tool by its toolset, and by the project, which takes precedence."""

    toolset: LocalOverride
    project: LocalOverride = _NONE

    def value(self, field: str, *others: Any) -> Any:
        """Return the first value of a field that is set: the project's, the toolset's, one of ``others``."""
        return _first(getattr(self.project, field), getattr(self.toolset, field), *others)

    def enabled(self, manifest: ToolsetManifest, declared: ToolDeclaration | None) -> bool:
        """Return whether a tool is enabled; ``declared`` is None for tools of locks."""
        own = declared.enabled if declared else None
        return bool(self.value("enabled", own, manifest.defaults.enabled))

    def renderer(self, declared: LegacyRenderer | None = None) -> Renderer | None:
        """Return the renderer of the tool's results."""
        kind: RendererType | None = None
        config = None
        if declared is not None:
            kind, config = declared.type, declared.config
        for override in self:
            if override.renderer is not None:
                kind, config = override.renderer, override.renderer_config or {}
            elif override.renderer_config is not None:
                config = override.renderer_config
        if kind is None:
            return None
        resolved: RendererType = "document" if kind in ALIASES else kind
        return Renderer(type=resolved, config=config or {})

    def confirmation(
        self,
        source: ToolDefinition | None,
        *,
        by_toolset: bool,
        destructive: bool,
        by_default: bool = False,
    ) -> JsonObject:
        """Return everything that requires approval of the tool's calls, and whether the project decides it."""
        own = self.project.requires_confirmation
        required: dict[ConfirmationSource, bool] = {
            "toolset": by_toolset,
            "server_default": by_default,
            "decorator": source is not None and source.requires_confirmation,
            "override": self.toolset.requires_confirmation is True,
        }
        sources = tuple(name for name, requires in required.items() if requires)
        sources = sources or (("destructive",) if destructive else ())
        if own is not None:
            sources = ("project",) if own else ()
        return {"confirmation": sources, "confirmation_is_settled": own is not None}


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def effective_tools(
    manifest: ToolsetManifest,
    state: ToolsetState,
    sources: Mapping[str, ToolDefinition],
    digest: str,
) -> tuple[Tool, ...]:
    """Return the effective tools that a toolset declares; ``sources`` are by the tools' ids."""
    overrides = {
        override_key(manifest.id, override.tool_id): override
        for override in manifest.tool_overrides
    }
    tools = []
    for declared in manifest.tools:
        tool_id = str(ToolId(manifest.id, declared.id))
        both = Overrides(overrides.get(tool_id, _NONE), state.overrides.get(declared.id, _NONE))
        tools.append(_tool(manifest, state, declared, sources.get(declared.id), both, digest))
    return tuple(tools)


class SourceLock(NamedTuple):
    """The lock of a server or a document, and the names of its tools that cannot be enabled.

    The digests of tools in ``untrue`` do not match their definitions.  The input schemas of tools in
    ``unusable`` are invalid.  Tools of documents have their request in ``requests``.
    """

    lock: ToolLock
    requests: Mapping[str, HttpRequest] = {}
    untrue: frozenset[str] = frozenset()
    unusable: frozenset[str] = frozenset()

    def held_back(self, name: str, state: ToolsetState) -> HeldBack | None:
        """Return why a tool is disabled regardless of all settings, or None if it is not."""
        if self.lock.tools[name].is_task:
            return "task"
        accepted = state.accepted.get(f"{self.lock.namespace}:{name}")
        if accepted is None:
            return "new"
        # The digest in the file is not enough: a pull can change a definition and leave the accepted digest beside it
        # (test_an_entry_that_no_longer_matches_its_digest_is_off).
        if accepted != self.lock.tools[name].digest or name in self.untrue:
            return "changed"
        return "schema" if name in self.unusable else None


def effective_locked_tools(
    manifest: ToolsetManifest,
    state: ToolsetState,
    locks: Mapping[str, SourceLock],
    hashes: Mapping[str, str],
) -> tuple[Tool, ...]:
    """Return the tools of the toolset's MCP servers and documents, including those that are held back.

    ``locks`` are by the id of the server or source; ``hashes`` are the hexadecimal SHA-256 digests of the toolset's
    files.
    """
    return tuple(
        tool
        for source in manifest.tool_sources
        if source.id in locks and locks[source.id].lock.kind == source.lock_kind
        for tool in _locked_tools(manifest, state, source, locks[source.id], hashes)
    )


def _locked_tools(
    manifest: ToolsetManifest,
    state: ToolsetState,
    source: McpServer | Source,
    source_lock: SourceLock,
    hashes: Mapping[str, str],
) -> Iterator[Tool]:
    overrides = {
        overridden_tool(manifest.id, override.tool_id, state): override
        for override in manifest.tool_overrides
    }
    lock = source_lock.lock
    own = {tool.id for tool in manifest.tools} if lock.namespace == manifest.id else set()
    definitions = Definitions(lock.definitions)
    for name, locked in sorted(lock.tools.items()):
        if name in own:  # check_lock reports this error
            continue
        tool_id = str(ToolId(lock.namespace, name))
        both = Overrides(overrides.get(tool_id, _NONE), state.overrides.get(tool_id, _NONE))
        if isinstance(source, Source):
            request = source_lock.requests.get(name)
            if request is None:  # check_lock reports this error
                continue
            tool = _document_tool(manifest, source, tool_id, locked, request, both, definitions)
            # The definition has the request, so the rest of the declaration decides nothing.
            facts: JsonObject = {"source": source.id, "definition": locked.digest}
            own_words = not state.imported
            tool = tool.model_copy(update={"annotations_are_own": own_words})
        else:
            tool = _server_tool(manifest, source, tool_id, locked, both)
            # The server's definition is a part of it: the same tool of another program or URL needs a new approval
            # (test_the_definition_digest_covers_the_server_and_not_the_rest_of_the_toolset).
            server = grant_facts(source, hashes)["digest"]
            facts = {"server": server, "definition": locked.digest}
        digest = canonical_json.digest(facts)
        reason = source_lock.held_back(name, state)
        on = tool.enabled and is_on(state) and reason is None
        yield tool.model_copy(update={"enabled": on, "held_back": reason, "toolset_digest": digest})


def _server_tool(
    manifest: ToolsetManifest,
    server: McpServer,
    tool_id: str,
    locked: LockedTool,
    overrides: Overrides,
) -> Tool:
    """Return a tool after all overrides, as if its definition were accepted."""
    is_stated = "requires_confirmation" in server.model_fields_set
    title = locked.title or _annotated_title(locked) or locked.upstream or tool_id
    return Tool(
        tool_id=tool_id,
        toolset_id=manifest.id,
        name=overrides.value("name_override", title),
        description=overrides.value("description_override", locked.description),
        kind="mcp",
        version=manifest.version,
        server=server.id,
        upstream=locked.upstream,
        input_schema=locked.input_schema,
        schema_is_declared=True,
        output_schema=locked.output_schema,
        annotations=locked.annotations,
        callers=overrides.value("callers", EVERY_CALLER),
        renderer=overrides.renderer(),
        enabled=server.enabled and overrides.enabled(manifest, None),
        meta=locked.meta,
        icons=locked.icons,
        **overrides.confirmation(
            None,
            by_toolset=server.requires_confirmation and is_stated,
            by_default=server.requires_confirmation and not is_stated,
            # The default of MCP is true. It would make each tool of a server that says nothing require approval.
            destructive=locked.annotations.destructive is True,
        ),
    )


def _document_tool(
    manifest: ToolsetManifest,
    source: Source,
    tool_id: str,
    locked: LockedTool,
    request: HttpRequest,
    overrides: Overrides,
    definitions: Definitions,
) -> Tool:
    """Return a tool of a document after all overrides, as if its definition were accepted."""
    output = locked.output_schema
    if output is not None and locked.fields:
        output = field_projection.projected_schema(output, locked.fields, definitions.schemas)
    default = manifest.defaults.requires_confirmation
    return Tool(
        tool_id=tool_id,
        toolset_id=manifest.id,
        name=overrides.value("name_override", locked.title or locked.upstream),
        description=overrides.value("description_override", locked.description),
        kind="http",
        version=manifest.version,
        http=request,
        source=source.id,
        upstream=locked.upstream,
        fields=locked.fields,
        input_schema=definitions.within(locked.input_schema),
        schema_is_declared=True,
        output_schema=None if output is None else definitions.within(definitions.opened(output)),
        annotations=locked.annotations,
        callers=overrides.value("callers", EVERY_CALLER),
        renderer=overrides.renderer(),
        enabled=source.enabled and overrides.enabled(manifest, None),
        tags=(locked.upstream,),  # an operationId is searchable
        **overrides.confirmation(
            None,
            by_toolset=_first(source.requires_confirmation, default),
            destructive=_may_write(source, locked, request),
        ),
    )


def _may_write(source: Source, locked: LockedTool, request: HttpRequest) -> bool:
    """Return whether a request of a document may change something at the server, whatever the document says."""
    if source.type == "graphql":  # queries are sent by POST too
        return locked.annotations.read_only is not True
    return request.method in WRITES


def _annotated_title(locked: LockedTool) -> str:
    """Return the title in the annotations, where servers wrote it before MCP 2025-06-18."""
    annotations = locked.more.get("annotations")
    title = annotations.get("title") if isinstance(annotations, dict) else None
    return title if isinstance(title, str) else ""


def _tool(
    manifest: ToolsetManifest,
    state: ToolsetState,
    declared: ToolDeclaration,
    source: ToolDefinition | None,
    overrides: Overrides,
    digest: str,
) -> Tool:
    source_name = source.name if source else None
    source_description = source.description if source else None
    inferred = source.input_schema if source else ANY_ARGUMENTS
    if declared.http is not None:
        inferred = inferred_schema(declared.http)
    title = declared.name or source_name or re.sub(r"[_.-]+", " ", declared.id).title()
    description = declared.description or source_description or ""
    return Tool(
        tool_id=str(ToolId(manifest.id, declared.id)),
        toolset_id=manifest.id,
        name=overrides.value("name_override", title),
        description=overrides.value("description_override", description),
        kind="python" if declared.entrypoint else "http",
        version=declared.version or manifest.version,
        entrypoint=_entrypoint(declared, source),
        http=declared.http,
        input_schema=inferred if declared.input_schema is None else declared.input_schema,
        schema_is_declared=declared.input_schema is not None,
        function_schema=_function_schema(declared, source),
        output_schema=_output_schema(declared, source),
        annotations=declared.annotations,
        # Other systems write registered entries, and the author of an imported toolset is not the project: a rule
        # about annotations must not waive an approval by their words.
        annotations_are_own=not state.imported and manifest.id != REGISTRY_NAMESPACE,
        limits=declared.limits,
        callers=overrides.value("callers", declared.callers),
        task_support=declared.task_support,
        examples=tuple(example for example in declared.examples if isinstance(example, Example)),
        free_examples=tuple(
            example for example in declared.examples if not isinstance(example, Example)
        ),
        extensions=declared.extensions,
        tags=declared.tags,
        security=declared.security,
        renderer=overrides.renderer(declared.renderer),
        enabled=is_on(state) and overrides.enabled(manifest, declared),
        icons=_icons(declared.icon or manifest.icon),
        toolset_digest=digest,
        **overrides.confirmation(
            source,
            by_toolset=_first(
                declared.requires_confirmation, manifest.defaults.requires_confirmation
            ),
            destructive=asks_by_default(declared, source, imported=state.imported),
        ),
    )


def _function_schema(declared: ToolDeclaration, source: ToolDefinition | None) -> JsonObject | None:
    """Return the schema of the values that a Python function gets, if it differs from the input schema."""
    is_listed = declared.input_schema is None and source is not None
    if source is None or (is_listed and not source.unread and not source.same_names):
        return None
    return source.values_schema


def _entrypoint(declared: ToolDeclaration, source: ToolDefinition | None) -> str | None:
    """Return the entrypoint with the module relative to the toolset, whichever file it names."""
    if declared.entrypoint is None or source is None or not source.module:
        return declared.entrypoint
    return f"{source.module}:{declared.entrypoint.partition(':')[2]}"


def _icons(path: str | None) -> tuple[JsonObject, ...]:
    """Return a tool's icon in MCP's form; empty if the file type is not supported."""
    if path is None:
        return ()
    media = ICON_TYPES.get(PurePosixPath(path).suffix.lower())
    icon = {"src": f"{ICON_OF_TOOLSET}{path.removeprefix('./')}", "mimeType": media}
    return (icon,) if media else ()


def _output_schema(declared: ToolDeclaration, source: ToolDefinition | None) -> JsonObject | None:
    if declared.output_schema is None and source is not None and declared.http is None:
        return source.output_schema
    return declared.output_schema
