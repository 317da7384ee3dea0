"""The format of Starfly's tool registry: a ToolEntry, or a list of them.

An entry describes the requirements of a tool on its callers.  It becomes a tool if
``protocol_meta.http`` has its request; other entries are carried as they are.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from covalt_git.formats.http_texts import escaped, has_arguments, unescaped
from covalt_git.formats.model import Format, Imported, Part
from covalt_git.formats.shapes import TEXT, are_objects, schema_of
from covalt_git.models.base import HTTP_URL
from covalt_git.names import local_names, suggest_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.formats.documents import Document
    from covalt_git.formats.model import Node
    from covalt_git.json_values import JsonObject

_PROTOCOLS: Final = frozenset({"mcp", "http", "a2a/2025-draft-01"})
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_SECURITY_SHAPE: Final = {
    "resource_uri": str,
    "required_capabilities": [str],
    "max_blast_radius": str,
    "requires_execution": bool,
    "allowed_operations": [str],
    "allowed_targets": [str],
}
_SECURITY: Final = {key: key for key in _SECURITY_SHAPE}
_ENTRY: Final = {
    "tool_id!": TEXT,
    "name!": str,
    "description": str,
    "version": str,
    "protocols": [str],
    "protocol_meta": {str: dict},
    **_SECURITY_SHAPE,
}
_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "if": {"required": ["tools"]},
    "then": schema_of({"tools": [_ENTRY], "count": int}),
    "else": schema_of(_ENTRY),
}


def _recognize(document: Document) -> bool:
    value = document.value
    tools = value.get("tools") if isinstance(value, dict) else None
    return are_objects(tools if isinstance(tools, list) and tools else [value], "tool_id", "name")


def _read(document: Document, imported: Imported) -> None:
    source = Part(document.value)
    entries = source.parts("tools") if "tools" in source else [source]
    toolset = imported.toolset(document.stem if "tools" in source else source.peek("tool_id"))
    names = local_names(one.peek("tool_id") for one in entries)
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
    request.copy(http, {"headers": "headers"}, escaped)
    security = tool.node("security")
    security.copy(entry, _SECURITY)
    if entry.peek("protocols") and _PROTOCOLS.issuperset(entry.peek("protocols")):
        security.set("protocols", entry["protocols"])
    if not security.value:
        tool.remove("security")


def _write(toolsets: Sequence[Part], _imported: Imported) -> Any:
    entries = []
    for manifest in toolsets:
        manifest.taken({"id": "id", "secrets": "secrets"})
        entries += [_entry(tool) for tool in manifest.parts("tools")]
    if len(entries) == 1 and toolsets[0].peek("id") == suggest_id(entries[0]["tool_id"]):
        return entries[0]
    return {"tools": entries, "count": len(entries)}


def _entry(tool: Part) -> JsonObject:
    name = tool.take("id")
    made = {"tool_id": name, "name": name}
    made |= tool.taken({"name": "name", "description": "description"})
    if "security" in tool:
        made |= tool["security"].taken({**_SECURITY, "protocols": "protocols"})
    if "entrypoint" in tool:
        tool["entrypoint"].drop("other programs cannot call a Python function of a toolset")
    if "http" in tool:
        made["protocol_meta"] = {"http": _request(tool["http"])}
    return made


def _request(http: Part) -> JsonObject:
    made = http.taken({"method": "method", "url": "url"})
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
    unique=(("tools", "tool_id"),),
)
