"""The format ``tools.yaml`` of genai-toolbox, of which tools of the kind ``http`` are read.

Tools of other kinds run statements in a database, which covalt-git does not do: they are reported.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from covalt_git.formats.http_texts import escaped, with_arguments
from covalt_git.formats.model import Format, Imported, Part
from covalt_git.formats.shapes import are_objects, schema_of
from covalt_git.models.base import HTTP_URL
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
_SHAPE: Final = {
    "sources": {str: {"baseUrl": str, "headers": {str: str}}},
    "tools!": {str: _TOOL_SHAPE},
    "toolsets": dict,
}


def _recognize(document: Document) -> bool:
    tools = document.value.get("tools") if isinstance(document.value, dict) else None
    return isinstance(tools, dict) and bool(tools) and are_objects([*tools.values()], "kind")


def _read(document: Document, imported: Imported) -> None:
    source = Part(document.value)
    toolset = imported.toolset(document.stem)
    names = local_names(source.value["tools"])
    used: set[str] = set()
    for name, tool in source.entries("tools"):
        kind, source_name = tool.peek("kind"), str(tool.peek("source"))
        base = source["sources"].get(source_name) if "sources" in source else None
        url = f"{base.peek('baseUrl', '') if base else ''}{tool.peek('path', '')}"
        if kind != "http":
            imported.lost[tool.loc] = f"the kind {kind!r} has no counterpart; only http has"
        elif re.match(HTTP_URL, url) is None:
            imported.lost[tool.loc] = f"the source {source_name!r} has no baseUrl of http or https"
        else:
            used.add(source_name)
            made = _read_tool(toolset, tool, base, names[name])
            merged = [tool[key] for key in ("kind", "source") if key in tool]
            merged += [base[key] for key in ("kind", "baseUrl") if base is not None and key in base]
            imported.merged |= {one.loc: (*made.loc, "http", "url") for one in merged}
    for name, one in source.entries("sources"):
        if name not in used:
            imported.lost[one.loc] = "no tool of the kind http uses this source"
    if "toolsets" in source:
        imported.lost[source["toolsets"].loc] = (
            "covalt-git has one toolset for a file; use roles to choose tools"
        )


def _read_tool(toolset: Node, tool: Part, base: Part | None, name: str) -> Node:
    made = toolset.item("tools", {"id": name})
    made.copy(tool, {"description": "description"})
    http = made.node("http")
    http.copy(tool, {"method": "method"})
    places = _read_parameters(made, http, tool)
    path = _TEMPLATE.sub(r"{\1}", tool.peek("path", ""))
    url = (base.peek("baseUrl", "") if base else "") + with_arguments(path, places)
    http.value["url"] = url
    if "path" in tool:
        http.trace(("url",), tool["path"].loc)
    for owner in filter(None, (base, tool)):
        for header, value in owner.entries("headers"):
            http.node("headers").set(header, value, escaped(value.value))
    return made


def _read_parameters(made: Node, http: Node, tool: Part) -> list[str]:
    """Read the parameters; return the names of those in the path."""
    schema: JsonObject = {"type": "object", "properties": {}}
    in_path: list[str] = []
    required: list[str] = []
    for key, place in _PARAMETERS.items():
        for parameter in tool.parts(key):
            name = parameter.peek("name")
            values = {
                one: parameter.peek(one) for one in ("description", "default") if one in parameter
            }
            kind = parameter.peek("type", "string")
            schema["properties"][name] = {"type": _TYPES.get(kind, kind), **values}
            for one in ("type", *values):
                made.trace(("input_schema", "properties", name, one), (*parameter.loc, one))
            if "default" not in parameter:
                required.append(name)
            if place == "path":
                in_path.append(name)
            http.node("parameters").set(name, parameter["name"], {"in": place})
    if required:
        schema["required"] = required
    made.value["input_schema"] = schema
    return in_path


FORMAT: Final = Format(
    name="genai-toolbox",
    title="genai-toolbox",
    kind="yaml",
    file_name="tools.yaml",
    recognize=_recognize,
    read=_read,
    schema=schema_of(_SHAPE),
)
