"""Checks of overrides of the toolset and of the project: the tool, the renderer, its configuration.

Problems have their place in ``toolset.yaml`` or in the state file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from covalt_git.checks.expressions import check_expressions
from covalt_git.checks.page_calls import check_page_calls
from covalt_git.errors import Problem, nearest_name
from covalt_git.manifests.override_keys import override_key
from covalt_git.manifests.reading import Reading, part_problems
from covalt_git.models.renderers import CONFIGS, config_model
from covalt_git.names import BUILTIN_NAMESPACE, ToolId
from covalt_git.paths import check_path
from covalt_git.problems import codes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from covalt_git.json_values import JsonObject
    from covalt_git.manifests.model_errors import Loc
    from covalt_git.manifests.toolset_files import BundleFiles
    from covalt_git.models.renderers import RendererType
    from covalt_git.models.tool import Tool
    from covalt_git.models.toolset_manifest import ToolDeclaration, ToolOverride, ToolsetManifest
    from covalt_git.models.toolset_state import LocalOverride, ToolsetState
    from covalt_git.python_reader.source import ToolDefinition

_REQUIRED = {
    "html": (("artifact", "content"), "{artifact: artifacts/page.html}"),
    "frame": (("url", "port"), '{port: "$return.port"}'),
}
"""Renderers that require one of several keys, and an example of a configuration."""


def check_overrides(
    reading: Reading[ToolsetManifest], files: BundleFiles, sources: Mapping[str, ToolDefinition]
) -> Iterator[Problem]:
    """Find problems of the toolset's own overrides."""
    manifest = reading.valid
    tools = {str(ToolId(manifest.id, tool.id)): tool for tool in manifest.tools}
    servers = {server.id for server in manifest.mcp_servers}
    ids = [tool.id for tool in manifest.tools]
    servers |= {source.id for source in manifest.sources}
    for position, override in enumerate(manifest.tool_overrides):
        here = reading.below("tool_overrides", position)
        target = override_key(manifest.id, override.tool_id)
        if target not in tools and target.partition(":")[0] not in servers:
            server, _, name = override.tool_id.rpartition(":")
            near = nearest_name(name, ids)
            owner = f"{server!r} under mcp_servers" if server else "it under tools"
            message = f"there is no tool {override.tool_id!r}"
            hint = f"did you mean {near!r}?" if near else f"declare {owner}"
            yield here.problem(codes.BAD_VALUE, ("tool_id",), message, hint=hint)
        declared = tools.get(target)
        default = declared.renderer.type if declared and declared.renderer else None
        yield from _check_override(here, override, default, declared, files, sources)
        config = here.below("renderer_config")
        yield from check_page_calls(config, override.renderer_config, manifest)


def check_local_overrides(
    reading: Reading[ToolsetState],
    manifest: ToolsetManifest,
    files: BundleFiles,
    sources: Mapping[str, ToolDefinition],
    server_tools: Collection[Tool] = (),
    offers: Collection[str] = (),
) -> Iterator[Problem]:
    """Find problems of the project's overrides, including overrides of ``server_tools``.

    ``offers`` are the ids of resources, templates and prompts of servers, which have no renderer.
    """
    if reading.value is None:
        return
    of_servers = {tool.tool_id: tool for tool in server_tools}
    tools = {tool.id: tool for tool in manifest.tools}
    theirs = {
        override_key(manifest.id, override.tool_id): override
        for override in manifest.tool_overrides
    }
    for name, override in reading.value.overrides.items():
        here = reading.below("overrides", name)
        config = here.below("renderer_config")
        yield from check_page_calls(
            config, override.renderer_config, manifest, reading.value.aliases.values()
        )
        if name in of_servers:
            renderer = of_servers[name].renderer
            default = renderer.type if renderer else None
            yield from _check_override(here, override, default, None, files, sources)
            continue
        if name in offers:
            continue
        declared = tools.get(name)
        if declared is None:
            near = nearest_name(name, [*tools, *of_servers, *offers])
            hint = f"did you mean {near!r}? otherwise remove it" if near else "remove it"
            message = "the toolset has no such tool"
            yield here.warning(codes.ORPHAN_STATE, (), message, hint=hint, key=True)
            continue
        default = declared.renderer.type if declared.renderer else None
        own = theirs.get(str(ToolId(manifest.id, name)))
        default = (own.renderer if own else None) or default
        yield from _check_override(here, override, default, declared, files, sources)


def check_aliases(reading: Reading[ToolsetState]) -> Iterator[Problem]:
    """Find aliases that are the namespace of the built-in tools."""
    for name, alias in reading.value.aliases.items() if reading.value else ():
        if alias == BUILTIN_NAMESPACE:
            message = f"{alias!r} is the namespace of the built-in tools"
            hint = f"write {name}: my-{alias}"
            yield reading.problem(codes.BAD_ID, ("aliases", name), message, hint=hint)


def check_config(
    reading: Reading[Any],
    renderer: str,
    config: JsonObject,
    tool: ToolDeclaration | None,
    files: BundleFiles,
    sources: Mapping[str, ToolDefinition],
) -> Iterator[Problem]:
    """Find problems of a renderer's configuration, which is at the place of ``reading``.

    Its expressions are checked against the schemas of ``tool``, if it is declared.
    """
    yield from part_problems(reading, config, config_model(renderer))
    yield from _check_required(reading, renderer, config)
    artifact = config.get("artifact")
    # An expression names a file only when a result is rendered.
    if isinstance(artifact, str) and not artifact.startswith("$"):
        yield from check_named_file(reading, ("artifact",), artifact, files)
    if tool is not None:
        source = sources.get(tool.id)
        takes = tool.input_schema or (source.input_schema if source else None)
        gives = tool.output_schema or (source.output_schema if source else None)
        yield from check_expressions(reading, config, takes=takes, gives=gives)


def check_named_file(
    reading: Reading[Any], loc: Loc, path: str, files: BundleFiles
) -> Iterator[Problem]:
    """Report a path that is not a file of the toolset."""
    plain = path.removeprefix("./")
    if check_path(plain).kind == "refused":
        message = f"{path!r} is not a path in the toolset"
        hint = "write it relative to toolset.yaml: artifacts/chart.html"
        yield reading.problem(codes.NO_FILE, loc, message, hint=hint)
    elif files.get(plain) is None:
        near = nearest_name(plain, [file.path for file in files.files])
        hint = f"did you mean {near}?" if near else "add the file, or correct the name"
        yield reading.problem(codes.NO_FILE, loc, f"there is no file {path!r}", hint=hint)


def _check_override(
    reading: Reading[Any],
    override: ToolOverride | LocalOverride,
    default: RendererType | None,
    declared: ToolDeclaration | None,
    files: BundleFiles,
    sources: Mapping[str, ToolDefinition],
) -> Iterator[Problem]:
    """Check the renderer of an override; ``default`` is the renderer if the override has none."""
    config = override.renderer_config
    kind = override.renderer or default
    if config is None:
        if override.renderer is not None:
            yield from _check_required(reading.below("renderer"), override.renderer, {})
        return
    here = reading.below("renderer_config")
    if kind is None:
        message = "renderer_config has no effect without a renderer"
        hint = f"add a line: renderer: {_likely_renderer(config)}"
        yield here.problem(codes.MISSING_KEY, (), message, hint=hint, key=True)
    else:
        yield from check_config(here, kind, config, declared, files, sources)


def _check_required(reading: Reading[Any], renderer: str, config: JsonObject) -> Iterator[Problem]:
    """Report a renderer without a required key, as a warning: calls work without it."""
    keys, example = _REQUIRED.get(renderer, ((), ""))
    # A misspelt key is reported already, and probably is the required one.
    misspelt = config.keys() - config_model(renderer).model_fields.keys()
    if keys and not misspelt and all(config.get(key) is None for key in keys):
        message = f"the renderer {renderer} requires {' or '.join(map(repr, keys))}"
        hint = f"configure it: {example}"
        yield reading.warning(codes.MISSING_KEY, (), message, hint=hint, key=True)


def _likely_renderer(config: JsonObject) -> str:
    """Return the first renderer that has all these keys."""
    fitting = (
        kind for kind, model in CONFIGS.items() if config.keys() <= model.model_fields.keys()
    )
    return next(fitting, "code")
