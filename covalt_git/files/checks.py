"""What must hold of a toolset beyond the form of its manifest, found by reading only.

Ids are unique, entrypoints exist and take what is declared, schemas are schemas, examples satisfy
them, and every file that is named is there.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from covalt_git import json_schema
from covalt_git.errors import Problem, nearest_name
from covalt_git.files.python_source import (
    NoFunctionError,
    PythonSyntaxError,
    ToolSource,
    read_tool,
)
from covalt_git.files.reading import Loc, Reading, part_problems
from covalt_git.files.tools_in_force import override_key
from covalt_git.models import problems as codes
from covalt_git.models.renderers import config_model
from covalt_git.names import RESERVED_TOOLSET_IDS, ToolId
from covalt_git.paths import check_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from covalt_git.files.bundle_files import BundleFiles
    from covalt_git.models.toolset_manifest import ToolDeclaration, ToolsetManifest

Sources = dict[str, ToolSource]


def read_sources(
    manifest: Reading[ToolsetManifest], folder: Path, shown: str
) -> tuple[Sources, list[Problem]]:
    """Read what the manifest's Python tools say of themselves, without running them."""
    sources: Sources = {}
    problems: list[Problem] = []
    for position, tool in enumerate(manifest.value.tools if manifest.value else ()):
        if tool.entrypoint is None:
            continue
        loc: Loc = ("tools", position, "entrypoint")
        module, _, function = tool.entrypoint.partition(":")
        path = module_path(folder, module)
        if path is None:
            problems.append(_no_module(manifest, loc, folder, module))
            continue
        try:
            sources[tool.id] = read_tool((folder / path).read_bytes(), function)
        except PythonSyntaxError as error:
            problems.append(
                Problem(
                    f"{shown}/{path}", error.line, error.col, codes.PYTHON_SYNTAX, error.message
                )
            )
        except NoFunctionError as error:
            message = f"{path} has no function {function!r}"
            problems.append(manifest.problem(codes.NO_FUNCTION, loc, message, hint=error.hint))
        except OSError as error:
            message = f"{path} cannot be read: {error.strerror}"
            problems.append(manifest.problem(codes.UNREADABLE, loc, message))
    return sources, problems


def module_path(folder: Path, module: str) -> str | None:
    """Return the file of a module, relative to the toolset; None where there is none."""
    stem = module.replace(".", "/")
    for path in (f"{stem}.py", f"{stem}/__init__.py"):
        if (folder / path).is_file() and not (folder / path).is_symlink():
            return path
    return None


def check_manifest(
    manifest: Reading[ToolsetManifest], toolset_id: str, files: BundleFiles, sources: Sources
) -> list[Problem]:
    """Return all that is wrong with a manifest whose form is right."""
    if manifest.value is None:
        return []
    return [
        *_check_ids(manifest, manifest.value, toolset_id),
        *_check_tools(manifest, manifest.value, files, sources),
        *_check_overrides(manifest, manifest.value, files),
        *_check_named_files(manifest, manifest.value, files),
    ]


def _check_ids(
    reading: Reading[ToolsetManifest], manifest: ToolsetManifest, toolset_id: str
) -> Iterator[Problem]:
    if manifest.id in RESERVED_TOOLSET_IDS:
        message = f"{manifest.id!r} is the name of a folder that the machine writes"
        yield reading.problem(codes.BAD_ID, ("id",), message, hint="choose another id")
    if manifest.id != toolset_id:
        message = f"{manifest.id!r} is not the name of its folder, {toolset_id!r}"
        yield reading.problem(codes.BAD_ID, ("id",), message, hint=f"write id: {toolset_id}")
    lists: dict[str, Iterable[str]] = {
        "tools": (tool.id for tool in manifest.tools),
        "mcp_servers": (server.id for server in manifest.mcp_servers),
        "sources": (source.id for source in manifest.sources),
        "auth": (auth.id for auth in manifest.auth),
    }
    for key, ids in lists.items():
        yield from _duplicates(reading, key, "id", list(ids))
    targets = [override_key(manifest.id, one.tool_id) for one in manifest.tool_overrides]
    yield from _duplicates(reading, "tool_overrides", "tool_id", targets)
    servers = {server.id for server in manifest.mcp_servers}
    for position, source in enumerate(manifest.sources):
        if source.id in servers:
            message = f"{source.id!r} is an MCP server of this toolset as well"
            yield reading.problem(
                codes.DUPLICATE_ID, ("sources", position, "id"), message, hint="rename one of them"
            )


def _duplicates(
    reading: Reading[ToolsetManifest], key: str, field: str, ids: list[str]
) -> Iterator[Problem]:
    twice = {name for name, count in Counter(ids).items() if count > 1}
    for position, name in enumerate(ids):
        if name in twice and ids.index(name) != position:
            message = f"{name!r} stands here for the second time"
            yield reading.problem(
                codes.DUPLICATE_ID, (key, position, field), message, hint="remove or rename one"
            )


def _check_tools(
    reading: Reading[ToolsetManifest],
    manifest: ToolsetManifest,
    files: BundleFiles,
    sources: Mapping[str, ToolSource],
) -> Iterator[Problem]:
    for position, tool in enumerate(manifest.tools):
        loc: Loc = ("tools", position)
        broken = list(_check_schemas(reading, loc, tool))
        yield from broken
        source = sources.get(tool.id)
        if source and tool.input_schema and not broken:
            yield from _check_parameters(reading, loc, tool, source)
        schema = tool.input_schema or (source.input_schema if source else None)
        if schema and not broken:
            yield from _check_examples(reading, loc, tool, schema)
        if tool.renderer is not None:
            yield reading.problem(
                codes.LEGACY_KEY,
                (*loc, "renderer"),
                "'renderer' here is the old form",
                hint=f"write it under tool_overrides, with tool_id: {tool.id}",
                key=True,
                severity="warning",
            )
            yield from _check_config(
                reading, (*loc, "renderer"), tool.renderer.type, tool.renderer.config, files
            )


def _check_schemas(
    reading: Reading[ToolsetManifest], loc: Loc, tool: ToolDeclaration
) -> Iterator[Problem]:
    for key, schema in (("input_schema", tool.input_schema), ("output_schema", tool.output_schema)):
        if schema is None:
            continue
        for place, message in json_schema.schema_problems(schema):
            yield reading.problem(codes.BAD_SCHEMA, (*loc, key, *place), message)
        if key == "input_schema" and schema.get("type", "object") != "object":
            yield reading.problem(
                codes.BAD_SCHEMA,
                (*loc, key, "type"),
                "arguments are an object",
                hint="write type: object",
            )


def _check_parameters(
    reading: Reading[ToolsetManifest], loc: Loc, tool: ToolDeclaration, source: ToolSource
) -> Iterator[Problem]:
    declared = (tool.input_schema or {}).get("properties", {})
    takes = source.input_schema
    known = list(takes.get("properties", {}))
    function = str(tool.entrypoint).partition(":")[2]
    if takes.get("additionalProperties") is False:
        for name in declared:
            if name not in known:
                message = f"{function}() takes no argument {name!r}"
                near = nearest_name(name, known)
                hint = (
                    f"did you mean {near!r}?" if near else f"it takes {', '.join(known) or 'none'}"
                )
                place = (*loc, "input_schema", "properties", name)
                yield reading.problem(codes.WRONG_PARAMETERS, place, message, hint=hint, key=True)
    for name in takes.get("required", []):
        if name not in declared:
            message = f"{function}() needs an argument {name!r} that is not declared"
            place = (*loc, "input_schema", "properties")
            yield reading.problem(
                codes.WRONG_PARAMETERS, place, message, hint=f"add {name} to properties", key=True
            )


def _check_examples(
    reading: Reading[ToolsetManifest], loc: Loc, tool: ToolDeclaration, schema: dict[str, Any]
) -> Iterator[Problem]:
    for position, example in enumerate(tool.examples):
        for place, message in json_schema.value_problems(schema, example.args):
            at = (*loc, "examples", position, "args", *place)
            yield reading.problem(codes.BAD_EXAMPLE, at, message)


def _check_overrides(
    reading: Reading[ToolsetManifest], manifest: ToolsetManifest, files: BundleFiles
) -> Iterator[Problem]:
    tools = {str(ToolId(manifest.id, tool.id)): tool for tool in manifest.tools}
    servers = {server.id for server in manifest.mcp_servers}
    servers |= {source.id for source in manifest.sources}
    for position, override in enumerate(manifest.tool_overrides):
        loc: Loc = ("tool_overrides", position)
        target = override_key(manifest.id, override.tool_id)
        if target not in tools and target.partition(":")[0] not in servers:
            near = nearest_name(override.tool_id, [*(tool.id for tool in manifest.tools), *servers])
            yield reading.problem(
                codes.BAD_VALUE,
                (*loc, "tool_id"),
                f"there is no tool {override.tool_id!r} here",
                hint=f"did you mean {near!r}?" if near else "declare it under tools",
            )
        declared = tools.get(target)
        legacy = declared.renderer if declared else None
        kind = override.renderer or (legacy.type if legacy else None)
        if override.renderer_config is None:
            continue
        if kind is None:
            yield reading.problem(
                codes.MISSING_KEY,
                (*loc, "renderer_config"),
                "there is no renderer that it configures",
                hint="add renderer: code",
                key=True,
            )
            continue
        place = (*loc, "renderer_config")
        yield from _check_config(reading, place, kind, override.renderer_config, files)


def _check_config(
    reading: Reading[ToolsetManifest],
    loc: Loc,
    renderer: str,
    config: dict[str, Any],
    files: BundleFiles,
) -> Iterator[Problem]:
    if reading.document is not None:
        yield from part_problems(reading.document, loc, config, config_model(renderer))
    artifact = config.get("artifact")
    if isinstance(artifact, str) and not artifact.startswith("$"):
        yield from _named_file(reading, (*loc, "artifact"), artifact, files)


def _check_named_files(
    reading: Reading[ToolsetManifest], manifest: ToolsetManifest, files: BundleFiles
) -> Iterator[Problem]:
    for position, source in enumerate(manifest.sources):
        for key, path in (("spec", source.spec), ("schema", source.schema_file)):
            if path is not None and "://" not in path:
                yield from _named_file(reading, ("sources", position, key), path, files)


def _named_file(
    reading: Reading[ToolsetManifest], loc: Loc, path: str, files: BundleFiles
) -> Iterator[Problem]:
    plain = path.removeprefix("./")
    if check_path(plain).kind != "good":
        message = f"{path!r} does not stay in the toolset"
        yield reading.problem(codes.NO_FILE, loc, message, hint="name a file of the toolset")
    elif files.get(plain) is None:
        near = nearest_name(plain, [file.path for file in files.files])
        hint = f"did you mean {near}?" if near else "add the file"
        yield reading.problem(codes.NO_FILE, loc, f"there is no file {path!r}", hint=hint)


def _no_module(reading: Reading[ToolsetManifest], loc: Loc, folder: Path, module: str) -> Problem:
    modules = [
        str(path.relative_to(folder).with_suffix("")).replace("/", ".")
        for path in sorted(folder.rglob("*.py"))
    ]
    near = nearest_name(module, modules)
    hint = f"did you mean {near}?" if near else f"write it: {module.replace('.', '/')}.py"
    return reading.problem(codes.NO_MODULE, loc, f"there is no module {module!r}", hint=hint)
