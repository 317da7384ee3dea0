"""The format ``tools.yaml`` of genai-toolbox, of which tools of the kind ``http`` are read.

Tools of other kinds run statements in a database, which covalt-git does not do: they are reported.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from covalt_git.formats.http_texts import escaped, is_url, with_arguments
from covalt_git.formats.model import Imported, Part
from covalt_git.formats.shapes import are_objects, schema_of
from covalt_git.names import local_names

if TYPE_CHECKING:
    from covalt_git.formats.documents import Document
    from covalt_git.formats.model import Node
    from covalt_git.json_values import JsonObject

_PARAMETERS: Final = {
    "pathParams": "path",
    "queryParams": "query",
    "bodyParams": "body",
    "headerParams": "header",
}
_TYPES: Final = {"float": "number", "map": "object"}
_TEMPLATE = re.compile(r"\{\{\s*\.(\w+)\s*\}\}")
_PARAMETER_SHAPE: Final = {"name!": str, "type": str, "description": str}
_TOOL_SHAPE: Final = {
    "kind!": str,
    "path": str,
    "description": str,
    "method": ("GET", "POST", "PUT", "PATCH", "DELETE"),
    "headers": {str: str},
    **{key: [_PARAMETER_SHAPE] for key in _PARAMETERS},
}
SCHEMA: Final = schema_of(
    {
        "sources": {str: {"baseUrl": str, "headers": {str: str}}},
        "tools!": {str: _TOOL_SHAPE},
        "toolsets": dict,
    }
)


def recognize(document: Document) -> bool:
    """Return whether a document has this format."""
    tools = document.value.get("tools") if isinstance(document.value, dict) else None
    return isinstance(tools, dict) and bool(tools) and are_objects([*tools.values()], "kind")


def read(document: Document, imported: Imported) -> None:
    """Add the toolsets of a document."""
    source = Part(document.value)
    toolset = imported.toolset(document.stem)
    names = local_names(source.value["tools"])
    sources = dict(source.entries("sources"))
    unused = {**sources}
    for name, tool in source.entries("tools"):
        kind, source_name = tool.peek("kind"), str(tool.peek("source"))
        base = sources.get(source_name, Part({}))
        if kind != "http":
            imported.lost[tool.loc] = f"the kind {kind!r} has no counterpart; only http has"
        elif not is_url(base.peek("baseUrl", "") + tool.peek("path", "")):
            imported.lost[tool.loc] = f"the source {source_name!r} has no baseUrl of http or https"
        else:
            unused.pop(source_name, None)
            _read_tool(toolset.item("tools", id=names[name]), tool, base)
    for one in unused.values():
        imported.lost[one.loc] = "no tool of the kind http uses this source"
    reason = "covalt-git has one toolset for a file; use roles to choose tools"
    imported.lost["toolsets",] = reason


def _read_tool(made: Node, tool: Part, base: Part) -> None:
    made.copy(tool, {"description": "description"})
    http = made.node("http")
    http.copy(tool, {"method": "method"})
    places = _read_parameters(made, http, tool)
    path = _TEMPLATE.sub(r"{\1}", tool.peek("path", ""))
    http.value["url"] = base.peek("baseUrl", "") + with_arguments(path, places)
    for owner, key in (
        (tool, "kind"),
        (tool, "source"),
        (tool, "path"),
        (base, "kind"),
        (base, "baseUrl"),
    ):
        if key in owner:
            http.trace(("url",), owner[key].loc)
    for owner in (base, tool):
        for header, value in owner.entries("headers"):
            http.node("headers").set(header, value, escaped(value.value))


def _read_parameters(made: Node, http: Node, tool: Part) -> list[str]:
    """Read the parameters; return the names of those in the path."""
    schema: JsonObject = {"type": "object", "properties": {}}
    in_path: list[str] = []
    required: list[str] = []
    for key, place in _PARAMETERS.items():
        for parameter in tool.parts(key):
            name = parameter.peek("name")
            values = parameter.taken({"description": "description", "default": "default"})
            kind = parameter.peek("type", "string")
            schema["properties"][name] = {"type": _TYPES.get(kind, kind), **values}
            made.trace(("input_schema", "properties", name), parameter.loc)
            if "default" not in parameter:
                required.append(name)
            if place == "path":
                in_path.append(name)
            http.node("parameters").node(name).set("in", parameter["name"], place)
    if required:
        schema["required"] = required
    made.value["input_schema"] = schema
    return in_path
