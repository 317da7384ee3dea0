"""The format of Starfly's tool registry: a ToolEntry, or a list of them.

An entry describes the requirements of a tool on its callers.  It becomes a tool if
``protocol_meta.http`` has its request; other entries are carried as they are.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from covalt_git.formats.http_texts import escaped, has_arguments, unescaped
from covalt_git.formats.model import Format, Imported, Part, duplicates, legal_tool_names
from covalt_git.models.base import HTTP_URL
from covalt_git.names import suggest_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.formats.documents import Document
    from covalt_git.formats.model import Node, Problems
    from covalt_git.json_values import JsonObject

_PROTOCOLS: Final = frozenset({"mcp", "http", "a2a/2025-draft-01"})
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SECURITY: Final = (
    "resource_uri",
    "required_capabilities",
    "max_blast_radius",
    "requires_execution",
    "allowed_operations",
    "allowed_targets",
)
_TEXTS: Final = {"type": "array", "items": {"type": "string"}}
_ENTRY: Final[JsonObject] = {
    "type": "object",
    "required": ["tool_id", "name"],
    "properties": {
        "tool_id": {"type": "string", "minLength": 1},
        "name": {"type": "string"},
        "description": {"type": "string"},
        "version": {"type": "string"},
        "resource_uri": {"type": "string"},
        "protocols": _TEXTS,
        "protocol_meta": {"type": "object", "additionalProperties": {"type": "object"}},
        "required_capabilities": _TEXTS,
        "max_blast_radius": {"type": "string"},
        "requires_execution": {"type": "boolean"},
        "allowed_operations": _TEXTS,
        "allowed_targets": _TEXTS,
    },
}
_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "if": {"required": ["tools"]},
    "then": {
        "properties": {
            "tools": {"type": "array", "items": _ENTRY},
            "count": {"type": "integer"},
        }
    },
    "else": _ENTRY,
}


def _recognize(document: Document) -> bool:
    value = document.value
    if document.kind != "json" or not isinstance(value, dict):
        return False
    tools = value.get("tools")
    entries = tools if isinstance(tools, list) and tools else [value]
    return all(isinstance(one, dict) and {"tool_id", "name"} <= one.keys() for one in entries)


def _check(value: Any) -> Problems:
    return duplicates(value.get("tools"), "tool_id", ("tools",), "tool id")


def _read(document: Document, imported: Imported) -> None:
    source = Part(document.value)
    entries = source.parts("tools") if "tools" in source else [source]
    toolset = imported.toolset(document.stem if "tools" in source else source.peek("tool_id"))
    names = legal_tool_names([one.peek("tool_id") for one in entries])
    for entry in entries:
        meta = entry.get("protocol_meta")
        http = meta.get("http") if meta else None
        if http is not None and _is_request(http.value):
            _read_tool(toolset, entry, http, names[entry.peek("tool_id")])


def _is_request(http: JsonObject) -> bool:
    headers = http.get("headers", {})
    return (
        isinstance(http.get("url"), str)
        and re.match(HTTP_URL, http["url"]) is not None
        and str(http.get("method", "GET")) in _METHODS
        and isinstance(headers, dict)
        and all(isinstance(one, str) for one in headers.values())
    )


def _read_tool(toolset: Node, entry: Part, http: Part, name: str) -> None:
    tool = toolset.item("tools")
    tool.set("id", entry["tool_id"], name)
    tool.copy_texts(entry, {"name": "name"})
    tool.copy(entry, {"description": "description"})
    request = tool.node("http")
    request.copy(http, {"method": "method", "url": "url"})
    for header, value in http.entries("headers"):
        request.node("headers").set(header, value, escaped(value.value))
    security = tool.node("security")
    security.copy(entry, {key: key for key in _SECURITY})
    if entry.peek("protocols") and _PROTOCOLS.issuperset(entry.peek("protocols")):
        security.set("protocols", entry["protocols"])
    if not security.value:
        tool.remove("security")


def _write(toolsets: Sequence[Part], imported: Imported) -> Any:
    entries = [
        _entry(tool, imported, position)
        for position, manifest in enumerate(toolsets)
        for tool in _tools(manifest)
    ]
    if len(entries) == 1 and toolsets[0].peek("id") == suggest_id(entries[0]["tool_id"]):
        return entries[0]
    return {"tools": entries, "count": len(entries)}


def _tools(manifest: Part) -> list[Part]:
    for key in ("manifest_version", "secrets", "id"):
        manifest.take(key)
    return manifest.parts("tools")


def _entry(tool: Part, imported: Imported, position: int) -> JsonObject:
    definition = imported.python_definition(position, tool)
    name = tool.take("id")
    made: JsonObject = {"tool_id": name, "name": tool.take("name", definition.get("name", name))}
    description = tool.take("description", definition.get("description"))
    if description is not None:
        made["description"] = description
    security = tool.get("security")
    if security is not None:
        keys = (*_SECURITY, "protocols")
        made |= {key: security.take(key) for key in keys if key in security}
    if "entrypoint" in tool:
        tool["entrypoint"].drop("other programs cannot call a Python function of a toolset")
    if "http" in tool:
        made["protocol_meta"] = {"http": _request(tool["http"])}
    return made


def _request(http: Part) -> JsonObject:
    made = {key: http.take(key) for key in ("method", "url") if key in http}
    headers = {}
    for name, value in http.entries("headers"):
        if has_arguments(value.value):
            value.drop("a header of an entry has no arguments")
        else:
            headers[name] = unescaped(value.use())
    return {**made, **({"headers": headers} if headers or "headers" in http else {})}


FORMAT: Final = Format(
    name="tool-entry",
    title="a ToolEntry",
    kind="json",
    file_name="tools.json",
    recognize=_recognize,
    read=_read,
    write=_write,
    schema=_SCHEMA,
    check=_check,
)
