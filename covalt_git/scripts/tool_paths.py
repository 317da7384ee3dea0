"""Tools as scripts name them: ``tools.a.b.c`` is the path ``a.b.c``, and ``search`` and ``describe.tool`` find tools."""

from __future__ import annotations

import difflib
import json
import re
from typing import TYPE_CHECKING, Any

from covalt_git.catalog.accepted_tools import without_pulled
from covalt_git.catalog.catalog import DisabledToolError
from covalt_git.checks.effects import may_destroy
from covalt_git.errors import CovaltError, UnknownNameError
from covalt_git.index.database import IndexUnusableError
from covalt_git.index.tool_queries import ToolQueries
from covalt_git.json_values import json_schema, object_schema
from covalt_git.json_values.pointer import json_path
from covalt_git.names import BadNameError, ToolId
from covalt_git.toolsets.builtin_tools import BUILTINS

if TYPE_CHECKING:
    from covalt_git.catalog.catalog import Catalog, Found
    from covalt_git.json_values import JsonObject
    from covalt_git.models.tool import Tool

SEARCH, DESCRIBE = "search", "describe.tool"
"""The paths that find tools, and call none."""

_WORD = re.compile(r"\w+")
_EVERY = "*"
"""Placeholder for tools that cannot be read: only roles that see everything see it."""

_MOST_FOUND = 50
_NEAR = 3
SCHEMAS: dict[str, JsonObject] = {
    SEARCH: object_schema(
        {
            "query": {"type": "string"},
            "limit": {"type": "integer", "minimum": 1, "maximum": _MOST_FOUND},
        },
        ["query"],
    ),
    DESCRIBE: object_schema({"path": {"type": "string"}}, ["path"]),
}
"""The schemas of their arguments."""


class UnknownToolError(CovaltError):
    """No tool has the path for the principal of a script; the same for hidden, disabled and missing tools."""

    code = "unknown_tool"
    http_status = 404
    near: tuple[str, ...] = ()


def find(catalog: Catalog, path: str) -> Found:
    """Return the tool that a script calls as ``path``; ``_`` also means ``-``, which Python does not allow in names.

    Raises:
        UnknownToolError: with near paths of tools that the principal can call.
        CovaltError: as :meth:`.Catalog.find_callable`, except for hidden, disabled and missing tools.
    """
    try:
        return catalog.find_callable(_tool_id(path))
    except (UnknownNameError, DisabledToolError, BadNameError):
        pass
    tools = callable_tools(catalog)
    same = [own for own in tools if own.replace("-", "_") == path.replace("-", "_")]
    if len(same) == 1:
        return catalog.find_callable(tools[same[0]].tool_id)
    # An agent calls what is proposed, so something destructive is called by its own name only.
    harmless = [own for own, tool in tools.items() if not may_destroy(tool)]
    near = difflib.get_close_matches(path.replace("_", "-"), harmless, n=_NEAR, cutoff=0.4)
    near += [own for own in harmless if own.rpartition(".")[2] == path.rpartition(".")[2]]
    proposed = tuple(dict.fromkeys(near))[:_NEAR]
    error = UnknownToolError(
        f"unknown tool {path!r}" + (f"; near: {', '.join(proposed)}" if proposed else ""),
        hint="tools.search({query}) finds tools",
    )
    error.near = proposed
    raise error


def recorded_id(catalog: Catalog, path: str) -> str:
    """Return the id under which a refused call of ``path`` is recorded: that of the tool, which may be hidden.

    For a tool that does not exist, it is the path with the name of its toolset.
    """
    try:
        with ToolQueries.open(catalog.root, catalog.config.workspace) as index:
            index.sync_toolsets()
            ids = sorted(tool.tool_id for tool in index.tools())
    except IndexUnusableError:
        ids = sorted(BUILTINS)
    paths = {own.replace(":", ".", 1): own for own in ids}
    if path in paths:
        return paths[path]
    key = path.replace("-", "_")
    namespace, _, name = path.partition(".")
    for own_path, own in paths.items():
        if own_path.replace("-", "_") == key:
            return own
    for own_path in paths:
        toolset = own_path.partition(".")[0]
        if toolset.replace("-", "_") == namespace.replace("-", "_"):
            return f"{toolset}.{name}"
    return path


def named_in(catalog: Catalog, script: JsonObject) -> tuple[str, ...]:
    """Return the paths of the tools that the source or the arguments of a script name, of those that the principal sees.

    A path counts if all its parts are words of the text, wherever they are: a comment and a branch that does not run
    show the name as a call does.
    """
    text = json.dumps(script, ensure_ascii=False).replace("\\n", " ")
    words = {*_WORD.findall(text), *_WORD.findall(text.replace("-", "_"))}
    try:
        with ToolQueries.open(catalog.root, catalog.config.workspace) as index:
            index.sync_toolsets()
            listed = [own for ids in index.toolset_tools().values() for own in ids or ()]
    except IndexUnusableError:
        return (_EVERY,)
    paths = [own.replace(":", ".", 1) for own in (*listed, *BUILTINS) if catalog.sees(own)]
    return tuple(
        sorted(path for path in paths if words.issuperset(path.replace("-", "_").split(".")))
    )


def search(catalog: Catalog, args: JsonObject) -> JsonObject:
    """Return what the MCP tool ``search_tools`` returns, with the path of each tool.

    Raises:
        InvalidArgumentsError: if the arguments are not those of a search.
    """
    _check(SEARCH, args)
    limit = args.get("limit", 10)
    tools = callable_tools(catalog)
    with ToolQueries.open(catalog.root, catalog.config.workspace) as index:
        index.sync_toolsets()
        matches = catalog.search(index, args["query"], limit=2 * limit)
    listed = [tool for tool in matches if tool.path in tools][:limit]
    return {
        "tools": [
            {
                "name": tool.path,
                "path": tool.path,
                "title": tool.name,
                "description": tool.description,
            }
            for tool in listed
        ]
    }


def describe(catalog: Catalog, args: JsonObject) -> JsonObject:
    """Return what the MCP tool ``read_tool`` returns, with the path of the tool.

    Raises:
        InvalidArgumentsError: if the arguments are not those of a description.
        UnknownToolError: as :func:`find`.
    """
    _check(DESCRIBE, args)
    entry = find(catalog, args["path"])
    tool = catalog.with_target(entry.alias or entry.tool)
    if not without_pulled(catalog.root, [entry.tool]):
        raise UnknownToolError(
            f"unknown tool {args['path']!r}", hint="tools.search({query}) finds tools"
        )
    hints = tool.annotations
    facts: JsonObject = {
        "name": tool.path,
        "path": tool.path,
        "title": tool.name,
        "description": tool.description,
        "inputSchema": {"type": "object", **tool.input_schema},
        "annotations": {
            name: value
            for name, value in {
                "readOnlyHint": hints.read_only,
                "destructiveHint": hints.destructive,
                "idempotentHint": hints.idempotent,
                "openWorldHint": hints.open_world,
            }.items()
            if value is not None
        },
    }
    if tool.output_schema is not None:
        facts["outputSchema"] = tool.output_schema
    return facts


def _check(path: str, args: JsonObject) -> None:
    problems = json_schema.value_problems(SCHEMAS[path], args)
    if problems:
        at_paths: list[tuple[str, Any]] = [
            (json_path(place), message) for place, message in problems
        ]
        raise json_schema.InvalidArgumentsError(path, at_paths)


def _tool_id(path: str) -> str:
    return str(ToolId.parse(path.replace(".", ":", 1)))


def callable_tools(catalog: Catalog) -> dict[str, Tool]:
    """Return the tools that a script of the principal can call, by their paths, sorted."""
    try:
        with ToolQueries.open(catalog.root, catalog.config.workspace) as index:
            index.sync_toolsets()
            listed = index.tools()
    except IndexUnusableError:
        listed = [*BUILTINS.values()]
    return {
        tool.path: tool
        for tool in without_pulled(catalog.root, listed)
        if catalog.may_call(tool).allowed and "script" in tool.callers
    }
