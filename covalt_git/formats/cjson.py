"""The format of CJSON toolsets 0.1: a document with toolsets of the kinds builtin, mcp and uri.

A toolset of kind ``mcp`` becomes an MCP server and overrides of its tools.  CJSON does not define ``uri``:
if ``server.url`` is a URL, each tool is a request to it, with the tool's name at the end of the path.
Other toolsets are carried as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from covalt_git.formats.http_texts import escaped, is_url, unescaped, with_arguments
from covalt_git.formats.model import Imported, Note, Part, changed, with_values
from covalt_git.formats.shapes import are_objects, schema_of
from covalt_git.json_values.json_schema import value_problems
from covalt_git.names import local_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.formats.documents import Document
    from covalt_git.formats.model import Node
    from covalt_git.json_values import JsonObject
    from covalt_git.json_values.pointer import Loc

_SCHEMA_URL: Final = "https://schema.cjson.dev/0/toolsets/cjson-toolsets-0.1.0-SNAPSHOT.schema.json"
_MEDIA_TYPE: Final = "application/vnd.cjson-toolsets+json"
_FLAGS: Final = {"enabled": "enabled", "requiresApproval": "requires_confirmation"}
_TOOL: Final = {
    "name": "id",
    "summary": "description",
    "argsSchema": "input_schema",
    "examples": "examples",
    **_FLAGS,
}
_SERVER: Final = {key: key for key in ("command", "args", "cwd", "env", "url")}
_SERVER_SCHEMA: Final = schema_of(
    {"command": str, "args": [str], "cwd": str, "env": {str: str}, "url": str}
)
_TRANSPORTS: Final = {
    "stdio": "stdio",
    "sse": "sse",
    "http": "streamable-http",
    "streamable-http": "streamable-http",
    "streamableHttp": "streamable-http",
}
HTTP_EXTENSION: Final = "dev.covalt:http"
"""The key of an HTTP tool's request in the ``extensions`` of a tool."""

_BOOLEANS: Final = dict.fromkeys(_FLAGS, bool)
_TOOL_SHAPE: Final = {
    "name!": str,
    "summary": str,
    "argsSchema": dict,
    "examples": [dict],
    "extensions": dict,
    **_BOOLEANS,
}
_TOOLSET_SHAPE: Final = {
    "id!": str,
    "kind!": ("builtin", "mcp", "uri"),
    "version": str,
    "server": dict,
    "headers": {str: str},
    "extensions": dict,
    "toolsetDefaults": _BOOLEANS,
    "tools": [_TOOL_SHAPE],
}
SCHEMA: Final = schema_of({"schema!": str, "mediaType": str, "toolsets": [_TOOLSET_SHAPE]})
UNIQUE: Final = (("toolsets", "id"), ("toolsets", "tools", "name"))


def recognize(document: Document) -> bool:
    """Return whether a document has this format."""
    value = document.value
    if not are_objects([value], "schema") or not isinstance(value["schema"], str):
        return False
    named = "cjson-toolsets" in value["schema"] or value.get("mediaType") == _MEDIA_TYPE
    return named or are_objects(value.get("toolsets"), "kind")


def correct(value: Any) -> tuple[Any, list[Note]]:
    """Replace the texts "true" and "false", which validators insert: the schema's defaults are texts."""
    flags: dict[Loc, bool] = {}
    for at, toolset in _objects(value, "toolsets"):
        owners: list[tuple[Loc, Any]] = [(("toolsetDefaults",), toolset.get("toolsetDefaults"))]
        owners += [(("tools", tool_at), tool) for tool_at, tool in _objects(toolset, "tools")]
        for place, owner in owners:
            for key in _FLAGS if isinstance(owner, dict) else ():
                if owner.get(key) in ("true", "false"):
                    flags["toolsets", at, *place, key] = owner[key] == "true"
    notes = [Note(loc, "the text was corrected to a boolean") for loc in flags]
    return with_values(value, flags), notes


def _objects(value: Any, key: str) -> list[tuple[int, JsonObject]]:
    listed = value.get(key) if isinstance(value, dict) else None
    items = enumerate(listed if isinstance(listed, list) else ())
    return [(at, item) for at, item in items if isinstance(item, dict)]


def read(document: Document, imported: Imported) -> None:
    """Add the toolsets of a document."""
    for source in Part(document.value).parts("toolsets"):
        toolset = imported.toolset(source.peek("id"))
        toolset.trace(("id",), source["id"].loc)
        toolset.copy_texts(source, {"version": "version"})
        if _FLAGS.keys() & source.peek("toolsetDefaults", {}).keys():
            toolset.node("defaults").copy(source["toolsetDefaults"], _FLAGS)
        kind, server = source.peek("kind"), source.peek("server", {})
        if kind == "mcp" and _is_server(server):
            _read_server(toolset, source, source["server"])
        elif kind == "uri" and is_url(server.get("url")):
            _read_requests(toolset, source, imported)
        elif kind == "builtin" and "tools" in source:
            message = "tools of kind builtin belong to their application; they are carried, and cannot be called"
            imported.notes.append(Note(source["kind"].loc, message))


def _is_server(server: JsonObject) -> bool:
    """Return whether a server has either a command or a URL, and values of the types of MCP."""
    is_program = "command" in server
    is_complete = "url" not in server if is_program else is_url(server.get("url"))
    return is_complete and not value_problems(_SERVER_SCHEMA, server)


def _read_server(toolset: Node, source: Part, server: Part) -> None:
    output = toolset.item("mcp_servers")
    output.set("id", source["id"], toolset.value["id"])
    output.copy(server, {"url": "url"} if "url" in server else _SERVER)
    for key in ("transport", "type"):
        transport = _TRANSPORTS.get(str(server.peek(key)))
        # A transport that contradicts the command or the URL is carried, not believed.
        if transport and (transport == "stdio") == ("command" in server):
            output.set("transport", server[key], transport)
            break
    if "url" in server:
        output.copy(source, {"headers": "headers"})
    if "toolsetDefaults" in source:
        output.copy(source["toolsetDefaults"], {"requiresApproval": "requires_confirmation"})
    names = local_names(tool.peek("name") for tool in source.parts("tools"))
    for tool in source.parts("tools"):
        override = toolset.item("tool_overrides")
        override.set("tool_id", tool["name"], f"{toolset.value['id']}:{names[tool.peek('name')]}")
        override.copy(tool, {"summary": "description_override", **_FLAGS})


def _read_requests(toolset: Node, source: Part, imported: Imported) -> None:
    base = source["server"]["url"]
    for tool, output in toolset.tools(source.parts("tools")):
        output.copy(tool, {"summary": "description", **_FLAGS})
        own = tool.peek("extensions", {}).get(HTTP_EXTENSION)
        if isinstance(own, dict) and is_url(own.get("url")):
            output.set("http", tool["extensions"][HTTP_EXTENSION])
        else:
            properties = tool.peek("argsSchema", {}).get("properties")
            names = properties if isinstance(properties, dict) else ()
            http = output.node("http")
            http.value["method"] = "POST"
            http.set("url", base, with_arguments(_url_of(base.value, output.value["id"]), names))
            http.copy(source, {"headers": "headers"}, escaped)
        imported.set_schema(output, tool.get("argsSchema"))


def _url_of(base: str, name: str) -> str:
    return f"{base.rstrip('/')}/{name}"


def write(toolsets: Sequence[Part], _imported: Imported) -> Any:
    """Return the document of toolsets."""
    documents: list[JsonObject] = []
    for manifest in toolsets:
        manifest.take("secrets")
        servers = manifest.parts("mcp_servers")
        if "tools" in manifest or not servers:
            documents.append(_own_tools(manifest, manifest.parts("tools")))
        for server in servers:
            name = server.take("id")
            existing = {toolset["id"] for toolset in documents}
            # The ids of CJSON's toolsets are unique, and a server may be named as its toolset.
            server_id = name if name not in existing else f"{name}-mcp"
            documents.append(_server(manifest, server, name, server_id))
    return {"schema": _SCHEMA_URL, "mediaType": _MEDIA_TYPE, "toolsets": documents}


def _common(manifest: Part, toolset_id: str, kind: str) -> JsonObject:
    manifest.take("id")
    toolset: JsonObject = {"id": toolset_id, "kind": kind, "version": manifest.take("version")}
    if "defaults" in manifest:
        toolset["toolsetDefaults"] = manifest["defaults"].taken(_FLAGS)
    return toolset


def _server(manifest: Part, server: Part, name: str, server_id: str) -> JsonObject:
    toolset = _common(manifest, server_id, "mcp")
    toolset["server"] = server.taken({"transport": "transport", **_SERVER})
    toolset |= server.taken({"headers": "headers"})
    defaults = server.taken({"requiresApproval": "requires_confirmation"})
    if server.peek("enabled") is False:
        defaults["enabled"] = server.take("enabled")
    if defaults:
        toolset["toolsetDefaults"] = toolset.get("toolsetDefaults", {}) | defaults
    tools = []
    for override in manifest.parts("tool_overrides"):
        namespace, _, tool = override.peek("tool_id").rpartition(":")
        if namespace == name:
            override.take("tool_id")
            fields = override.taken({"summary": "description_override", **_FLAGS})
            tools.append({"name": tool, **fields})
    return {**toolset, "tools": tools} if tools else toolset


def _own_tools(manifest: Part, tools: list[Part]) -> JsonObject:
    requests = [tool.peek("http") for tool in tools if "http" in tool]
    toolset = _common(manifest, manifest.peek("id"), "uri" if requests else "builtin")
    base = requests[0]["url"].rpartition("/")[0] if requests else ""
    shared = requests[0].get("headers", {}) if requests else {}
    if base.partition("://")[2]:
        toolset["server"] = {"url": base}
    # CJSON has headers for a toolset only, so only those that all of its tools send can be there.
    if shared and all(request.get("headers", {}) == shared for request in requests):
        toolset["headers"] = changed(shared, unescaped)
    return {**toolset, "tools": [_tool(tool, toolset) for tool in tools]} if tools else toolset


def _tool(tool: Part, toolset: JsonObject) -> JsonObject:
    output = tool.taken(_TOOL)
    tool.drop_keys("CJSON has no kind for Python functions", "entrypoint")
    if "http" in tool:
        http = tool.take("http")
        base = toolset.get("server", {}).get("url", "")
        plain: JsonObject = {"method": "POST", "url": _url_of(base, output["name"])}
        if "headers" in toolset:
            plain["headers"] = changed(toolset["headers"], escaped)
        # The rest of a request has no place in CJSON; without it, the tool would send another request when it
        # comes back.
        if http != plain:
            output["extensions"] = {HTTP_EXTENSION: http}
    return output
