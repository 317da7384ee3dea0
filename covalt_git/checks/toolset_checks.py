"""Checks of a valid manifest against the toolset's files and Python source, which runs no code.

Ids are unique, entrypoints exist and match the declared arguments, schemas are valid, examples match
the schemas, and files exist.
"""

from __future__ import annotations

import re
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from covalt_git.checks.http_requests import check_http
from covalt_git.checks.imported_modules import check_imported_modules, dotted_name
from covalt_git.checks.module_names import PROVIDED
from covalt_git.checks.overrides import check_config, check_named_file, check_overrides
from covalt_git.checks.page_calls import check_page_calls
from covalt_git.checks.parameters import check_parameters
from covalt_git.checks.prompts import check_prompts
from covalt_git.checks.references import check_references
from covalt_git.checks.sign_ins import check_sign_ins
from covalt_git.checks.stored_schemas import check_stored_schemas, current_schema
from covalt_git.errors import Problem, nearest_name
from covalt_git.json_values import json_schema, pointer
from covalt_git.manifests.override_keys import override_key
from covalt_git.manifests.stored_schemas import KEYS, schema_file
from covalt_git.models.tool_properties import Example
from covalt_git.names import BUILTIN_NAMESPACE, RESERVED_TOOLSET_IDS, SCRIPT_NAMES, id_key, is_id
from covalt_git.problems import codes
from covalt_git.python_reader.module_text import MAX_SOURCE_BYTES
from covalt_git.python_reader.modules import Modules, ModuleSource
from covalt_git.python_reader.source import (
    NoFunctionError,
    PythonSyntaxError,
    ToolDefinition,
    imported_from,
    imported_packages,
    read_tool,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from covalt_git.manifests.model_errors import Loc
    from covalt_git.manifests.reading import Reading
    from covalt_git.manifests.toolset_files import BundleFiles, Contents
    from covalt_git.models.stored_schemas import StoredSchema, StoredSchemas
    from covalt_git.models.toolset_manifest import ToolDeclaration, ToolsetManifest

Sources = dict[str, ToolDefinition]


def read_sources(
    manifest: Reading[ToolsetManifest],
    stored: Reading[StoredSchemas],
    files: BundleFiles,
    contents: Contents,
) -> tuple[Sources, list[Problem]]:
    """Read the definitions of the manifest's tools from their Python source, without running it."""
    sources: Sources = {}
    problems: list[Problem] = []
    modules = Modules(partial(_module_source, files, contents))
    imports: dict[str, tuple[Loc, str, str]] = {}
    tools: dict[str, list[str]] = {}
    display_path = manifest.path.rpartition("/")[0]
    for position, tool in enumerate(manifest.value.tools if manifest.value else ()):
        if tool.entrypoint is None:
            continue
        loc: Loc = ("tools", position, "entrypoint")
        declared, _, function = tool.entrypoint.partition(":")
        # The specification allows a module to be relative to tools/, too.
        paths = {
            module: path
            for module in (declared, f"tools.{declared}")
            if (path := files.module_path(module)) is not None
        }
        if not paths:
            problems.append(_no_module(manifest, loc, declared, files.modules))
            continue
        (module, path), *others = paths.items()
        problems += [_ambiguous(manifest, loc, path, other, function) for other in others]
        tools.setdefault(module, []).append(tool.id)
        try:
            # One byte more than the parser takes, so that it refuses a larger file instead of reading a part.
            source = contents.read(path, MAX_SOURCE_BYTES + 1)
            definition = read_tool(source, function, modules, module)._replace(module=module)
            sources[tool.id] = definition
            if definition.defect:
                message = f"no call can run {function!r} of {path}: it {definition.defect}"
                problems.append(
                    manifest.problem(codes.NOT_CALLABLE, loc, message, hint=definition.remedy)
                )
            for name in imported_packages(source):
                imports.setdefault(name, (loc, f"{path} imports {name!r}", "its package"))
            for name, type_name in definition.packages.items():
                words = f"the type {type_name} of {function}() imports {name!r}"
                imports.setdefault(name, (loc, words, name.replace("_", "-")))
            origin = imported_from(source, function)
            if origin and origin.partition(".")[0] in sys.stdlib_module_names:
                message = f"{function!r} is {origin}, a function of Python's standard library"
                hint = f"write a function in {path} that calls it"
                problems.append(manifest.problem(codes.FOREIGN_ENTRYPOINT, loc, message, hint=hint))
            # Calls check a declared schema too, so that it says all that they check.
            elif definition.unread and not definition.defect and tool.input_schema is None:
                entry = current_schema(stored, tool.id, definition, files)
                problems += _unread(manifest, loc, tool.id, function, definition, entry)
        except PythonSyntaxError as error:
            place = f"{display_path}/{path}"
            problems.append(
                Problem(place, error.line, error.col, codes.PYTHON_SYNTAX, error.message)
            )
        except NoFunctionError as error:
            message = f"{path} has no function {function!r}"
            problems.append(manifest.problem(codes.NO_FUNCTION, loc, message, hint=error.hint))
        except OSError as error:
            message = f"{path} cannot be read: {(error.strerror or str(error)).lower()}"
            problems.append(manifest.problem(codes.UNREADABLE, loc, message))
    problems += _check_imports(manifest, imports, files.modules)
    problems += check_imported_modules(manifest, files, modules, tools)
    return sources, problems


def _module_source(files: BundleFiles, contents: Contents, module: str) -> ModuleSource | None:
    """Return the text of a module of a toolset; that of a folder without ``__init__.py`` is empty."""
    path = files.module_path(module)
    if path is None:
        is_package = any(file.startswith(f"{module.replace('.', '/')}/") for file in files.modules)
        return ModuleSource(b"", is_package=True) if is_package else None
    try:
        source = contents.read(path, MAX_SOURCE_BYTES + 1)
    except OSError:
        return None
    return ModuleSource(source, is_package=path.endswith("/__init__.py"))


def _unread(
    reading: Reading[ToolsetManifest],
    loc: Loc,
    tool_id: str,
    function: str,
    source: ToolDefinition,
    entry: StoredSchema | None,
) -> Iterator[Problem]:
    """Warn that a call may refuse, or accept, other arguments than the listed schema of a function says.

    A stored schema says a type that was not read, but no validator.
    """
    unread = dict(source.unread)
    command = f"covalt-git tool describe {reading.valid.id}:{tool_id} --write"
    declare = f"declare input_schema for {tool_id} in toolset.yaml, which calls then check too"
    hint, stored = f"{declare}, or store the schema that runs: {command}", ""
    if entry is not None and entry.input_schema is not None:
        hint, stored = f"{declare}; no schema that runs says it", "stored "
        if entry.unsaid is None:  # an older version of covalt-git made it
            hint = f"{declare}, or store the schema again: {command}"
        elif "" in unread:
            unread = dict.fromkeys(entry.unsaid, "")
        else:
            unread = {name: what for name, what in unread.items() if name in entry.unsaid}
    if unread:
        said = [
            f"{name} ({what})" if name and what else name or what for name, what in unread.items()
        ]
        message = f"the {stored}schema of {function}() does not say all that calls check: {', '.join(said)}"
        yield reading.warning(codes.UNREAD_TYPE, loc, message, hint=hint)


def _check_imports(
    manifest: Reading[ToolsetManifest],
    imports: Mapping[str, tuple[Loc, str, str]],
    modules: Collection[str],
) -> Iterator[Problem]:
    """Find imported packages that are not declared as dependencies; ``imports`` has the place, the words and the package of each.

    A requirement can provide packages of other names, as Pillow provides PIL.  Therefore all imports are
    accepted if there is a requirement whose name is not imported.
    """
    own = {path.partition("/")[0].removesuffix(".py") for path in modules}
    unknown = imports.keys() - sys.stdlib_module_names - PROVIDED - own
    python = manifest.value.python if manifest.value else None
    names = (
        {re.split(r"[^\w.-]", requirement)[0] for requirement in python.dependencies}
        if python
        else set()
    )
    declared = {re.sub("[-.]", "_", name).lower() for name in names}
    if declared <= {name.lower() for name in unknown}:
        for name in sorted(name for name in unknown if name.lower() not in declared):
            loc, words, package = imports[name]
            message = f"{words}, which is not installed for this toolset"
            hint = f"name {package} under python.dependencies"
            yield manifest.warning(codes.UNDECLARED_IMPORT, loc, message, hint=hint)


def check_manifest(
    manifest: Reading[ToolsetManifest],
    stored: Reading[StoredSchemas],
    toolset_id: str,
    files: BundleFiles,
    sources: Sources,
) -> list[Problem]:
    """Return the problems of a manifest that matches its model, and of the stored schemas in it."""
    return [
        *_check_ids(manifest, toolset_id),
        *_check_tools(manifest, stored, files, sources),
        *check_stored_schemas(manifest, stored, files, sources),
        *check_overrides(manifest, files, sources),
        *check_references(manifest),
        *check_sign_ins(manifest),
        *_check_named_files(manifest, files),
        *check_prompts(manifest, files),
    ]


def _check_ids(reading: Reading[ToolsetManifest], toolset_id: str) -> Iterator[Problem]:
    manifest = reading.valid
    if manifest.id in RESERVED_TOOLSET_IDS:
        built_in = manifest.id == BUILTIN_NAMESPACE
        owner = "the built-in tools" if built_in else "a folder of covalt-git"
        if manifest.id in SCRIPT_NAMES:
            owner = "what describes tools in scripts"
        message = f"{manifest.id!r} is the name of {owner}"
        yield reading.problem(codes.BAD_ID, ("id",), message, hint=f"write id: {toolset_id}")
    elif manifest.id != toolset_id and is_id(toolset_id):
        message = f"the id {manifest.id!r} must equal the name of the folder, {toolset_id!r}"
        hint = f"write id: {toolset_id}, or rename the folder"
        yield reading.problem(codes.BAD_ID, ("id",), message, hint=hint)
    lists = {
        ("tools", "id"): [tool.id for tool in manifest.tools],
        ("prompts", "id"): [prompt.id for prompt in manifest.prompts],
        ("resources", "id"): [resource.id for resource in manifest.resources],
        ("mcp_servers", "id"): [id_key(server.id) for server in manifest.mcp_servers],
        ("sources", "id"): [id_key(source.id) for source in manifest.sources],
        ("auth", "id"): [auth.id for auth in manifest.auth],
        ("tool_overrides", "tool_id"): [
            override_key(manifest.id, override.tool_id) for override in manifest.tool_overrides
        ],
    }
    for (key, field), ids in lists.items():
        yield from _duplicates(reading, key, field, ids)
    for list_key in ("mcp_servers", "sources"):
        for position, entry in enumerate(getattr(manifest, list_key)):
            if entry.id == BUILTIN_NAMESPACE:
                message = f"{entry.id!r} is the namespace of the built-in tools"
                at = (list_key, position, "id")
                yield reading.problem(codes.BAD_ID, at, message, hint=f"write id: my-{entry.id}")
    # The tools of servers and sources share one namespace: `weather:today` would name a tool of each.
    servers = {id_key(server.id) for server in manifest.mcp_servers}
    for position, source in enumerate(manifest.sources):
        if id_key(source.id) in servers:
            message = f"{source.id!r} is also an MCP server of this toolset"
            at = ("sources", position, "id")
            yield reading.problem(codes.DUPLICATE_ID, at, message, hint="rename one of them")


def _duplicates(
    reading: Reading[ToolsetManifest], key: str, field: str, ids: list[str]
) -> Iterator[Problem]:
    """Find duplicate ids; ``ids`` are the normalized ids of the entries of a list."""
    first: dict[str, int] = {}
    for position, name in enumerate(ids):
        if first.setdefault(name, position) == position or reading.document is None:
            continue
        line, _ = reading.document.locate((key, first[name], field))
        duplicate = reading.document.data[key][position][field]
        message = f"{duplicate!r} already has an entry, in line {line}"
        hint = "remove or rename one of them"
        yield reading.problem(codes.DUPLICATE_ID, (key, position, field), message, hint=hint)


def _check_tools(
    reading: Reading[ToolsetManifest],
    stored: Reading[StoredSchemas],
    files: BundleFiles,
    sources: Sources,
) -> Iterator[Problem]:
    for position, tool in enumerate(reading.valid.tools):
        loc: Loc = ("tools", position)
        places = {key: schema_file(reading, stored, position, key) for key in KEYS}
        # A broken schema is reported once, not again for each example and argument
        # (test_a_broken_schema_is_reported_once_and_not_for_its_examples).
        broken = list(_check_schemas(places, tool))
        yield from broken
        if not broken:
            yield from check_http(reading, loc, tool, reading.valid)
        source = sources.get(tool.id)
        if source and tool.input_schema and not broken:
            yield from check_parameters(places["input_schema"], tool, source)
        schema = tool.input_schema or (source.input_schema if source else None)
        if schema and not broken:
            hint = ""
            if source and tool.input_schema is None:
                command = f"covalt-git tool describe {reading.valid.id}:{tool.id} --write"
                hint = f"correct it, or store the schema that runs, if that accepts it: {command}"
            yield from _check_examples(reading, loc, tool, schema, hint=hint)
        if tool.renderer is not None:
            here = reading.below(*loc, "renderer")
            kind, config = tool.renderer.type, tool.renderer.config
            message = "this place of a renderer is deprecated"
            override = f"{{tool_id: {tool.id}, renderer: {kind}, renderer_config: {{...}}}}"
            hint = f"move it to the list tool_overrides: - {override}"
            yield here.warning(codes.LEGACY_KEY, (), message, hint=hint, key=True)
            yield from check_config(here, kind, config, tool, files, sources)
            yield from check_page_calls(here, config, reading.valid)


def _check_schemas(places: Mapping[str, Reading[Any]], tool: ToolDeclaration) -> Iterator[Problem]:
    """Check the schemas of a tool, each at the place of its file."""
    for key, reading in places.items():
        schema = getattr(tool, key)
        if schema is None:
            continue
        problems = json_schema.schema_problems(schema)
        for place, message in problems:
            outside = place[-1:] == (pointer.REF,)
            hint = 'write it under $defs, and refer to it as "#/$defs/name"' if outside else ""
            yield reading.problem(codes.BAD_SCHEMA, place, message, hint=hint)
        if not problems and key == "input_schema" and schema.get("type", "object") != "object":
            message = "the schema of the arguments must be of type object"
            yield reading.problem(codes.BAD_SCHEMA, ("type",), message, hint="write type: object")


def _check_examples(
    reading: Reading[ToolsetManifest],
    loc: Loc,
    tool: ToolDeclaration,
    schema: dict[str, Any],
    *,
    hint: str,
) -> Iterator[Problem]:
    """Find examples that do not match the schemas of a tool; ``hint`` is that of wrong arguments."""
    for position, example in enumerate(tool.examples):
        if not isinstance(example, Example):
            continue
        for place, message in json_schema.value_problems(schema, example.args):
            at = (*loc, "examples", position, "args", *place)
            yield reading.problem(codes.BAD_EXAMPLE, at, message, hint=hint)
        if tool.output_schema is None or "expected" not in example.model_fields_set:
            continue
        for place, message in json_schema.value_problems(tool.output_schema, example.expected):
            at = (*loc, "examples", position, "expected", *place)
            yield reading.problem(codes.BAD_EXAMPLE, at, message)


def _check_named_files(reading: Reading[ToolsetManifest], files: BundleFiles) -> Iterator[Problem]:
    for position, source in enumerate(reading.valid.sources):
        for key, path in (("spec", source.spec), ("schema", source.schema_file)):
            if path is not None and "://" not in path:
                yield from check_named_file(reading, ("sources", position, key), path, files)


def _ambiguous(
    reading: Reading[ToolsetManifest], loc: Loc, path: str, other: tuple[str, str], function: str
) -> Problem:
    """Return the warning that an entrypoint names ``path``, and could also name ``other``."""
    module, other_path = other
    message = f"this is {path}; {other_path} has the same name"
    hint = f"write {module}:{function} for the other file, or rename one of them"
    return reading.warning(codes.AMBIGUOUS_ENTRYPOINT, loc, message, hint=hint)


def _no_module(
    reading: Reading[ToolsetManifest], loc: Loc, module: str, modules: Collection[str]
) -> Problem:
    dotted = [*map(dotted_name, modules)]
    if module.partition(".")[0] in sys.stdlib_module_names:
        message = f"the module {module!r} is in Python's standard library, not in the toolset"
        hint = "write a function in tools/ that calls it, and name that function"
        return reading.problem(codes.FOREIGN_ENTRYPOINT, loc, message, hint=hint)
    near = nearest_name(module, dotted)
    hint = f"did you mean {near}?" if near else f"create {module.replace('.', '/')}.py"
    return reading.problem(codes.NO_MODULE, loc, f"there is no module {module!r}", hint=hint)
