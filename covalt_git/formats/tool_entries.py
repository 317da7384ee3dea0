"""The format of Starfly's tool registry: a ToolEntry, or a list of them.

An entry describes the requirements of a tool on its callers.  It becomes a tool if
``protocol_meta.http`` has its request; other entries are carried as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from covalt_git.formats.http_texts import METHODS, escaped, plain_headers
from covalt_git.formats.model import Imported, Part
from covalt_git.formats.shapes import TEXT, Schema, are_objects, schema_of
from covalt_git.json_values.json_schema import value_problems
from covalt_git.models.base import HTTP_URL
from covalt_git.names import suggest_id

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.formats.documents import Document
    from covalt_git.formats.model import Node
    from covalt_git.json_values import JsonObject

_PROTOCOLS: Final = frozenset({"mcp", "http", "a2a/2025-draft-01"})
_REQUEST_SCHEMA: Final = schema_of(
    {
        "url!": Schema({"type": "string", "pattern": HTTP_URL}),
        "method": METHODS,
        "headers": {str: str},
    }
)
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
SCHEMA: Final[JsonObject] = {
    "type": "object",
    "if": {"required": ["tools"]},
    "then": schema_of({"tools": [_ENTRY], "count": int}),
    "else": schema_of(_ENTRY),
}


def recognize(document: Document) -> bool:
    """Return whether a document has this format."""
    value = document.value
    tools = value.get("tools") if isinstance(value, dict) else None
    return are_objects(tools if isinstance(tools, list) and tools else [value], "tool_id", "name")


def read(document: Document, imported: Imported) -> None:
    """Add the toolsets of a document."""
    source = Part(document.value)
    entries = source.parts("tools") if "tools" in source else [source]
    toolset = imported.toolset(document.stem if "tools" in source else source.peek("tool_id"))
    with_requests = [
        entry for entry in entries if _is_request(entry.peek("protocol_meta", {}).get("http"))
    ]
    for entry, tool in toolset.tools(with_requests, "tool_id"):
        _read_tool(tool, entry, entry["protocol_meta"]["http"])


def _is_request(http: Any) -> bool:
    return http is not None and not value_problems(_REQUEST_SCHEMA, http)


def _read_tool(tool: Node, entry: Part, http: Part) -> None:
    tool.copy_texts(entry, {"name": "name"})
    tool.copy(entry, {"description": "description"})
    request = tool.node("http")
    request.copy(http, {"method": "method", "url": "url"})
    request.copy(http, {"headers": "headers"}, escaped)
    names = {**_SECURITY}
    # With a protocol that covalt-git does not know, no call would match the list, and none could be made.
    if entry.peek("protocols") and _PROTOCOLS.issuperset(entry.peek("protocols")):
        names["protocols"] = "protocols"
    if names.keys() & entry.value.keys():
        tool.node("security").copy(entry, names)


def write(toolsets: Sequence[Part], _imported: Imported) -> Any:
    """Return the document of toolsets."""
    entries = []
    for manifest in toolsets:
        manifest.taken({"id": "id", "secrets": "secrets"})
        entries += [_entry(tool) for tool in manifest.parts("tools")]
    if len(entries) == 1 and toolsets[0].peek("id") == suggest_id(entries[0]["tool_id"]):
        return entries[0]
    return {"tools": entries, "count": len(entries)}


def _entry(tool: Part) -> JsonObject:
    name = tool.take("id")
    output = {"tool_id": name, "name": name}
    output |= tool.taken({"name": "name", "description": "description"})
    if "security" in tool:
        output |= tool["security"].taken({**_SECURITY, "protocols": "protocols"})
    tool.drop_keys("other programs cannot call a Python function of a toolset", "entrypoint")
    if "http" in tool:
        output["protocol_meta"] = {"http": _request(tool["http"])}
    return output


def _request(http: Part) -> JsonObject:
    request = http.taken({"method": "method", "url": "url"})
    headers = plain_headers(http, "a header of an entry has no arguments")
    return {**request, **({"headers": headers} if headers or "headers" in http else {})}
