"""The format of CJSON toolsets 0.1: a document with toolsets of the kinds builtin, mcp and uri.

A toolset of kind ``mcp`` becomes an MCP server and overrides of its tools.  CJSON does not define ``uri``:
if ``server.url`` is a URL, each tool is a request to it, with the tool's name at the end of the path.
Other toolsets are carried as they are.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from covalt_git.formats.http_texts import escaped, unescaped, with_arguments
from covalt_git.formats.model import Format, Imported, Note, Part, duplicates, legal_tool_names
from covalt_git.models.base import HTTP_URL

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.formats.documents import Document
    from covalt_git.formats.model import Node, Problems
    from covalt_git.json_values import JsonObject
    from covalt_git.json_values.pointer import Loc

_SCHEMA_URL: Final = "https://schema.cjson.dev/0/toolsets/cjson-toolsets-0.1.0-SNAPSHOT.schema.json"
_MEDIA_TYPE: Final = "application/vnd.cjson-toolsets+json"
_FLAGS: Final = {"enabled": "enabled", "requiresApproval": "requires_confirmation"}
_TRANSPORTS: Final = {
    "stdio": "stdio",
    "sse": "sse",
    "http": "streamable-http",
    "streamable-http": "streamable-http",
    "streamableHttp": "streamable-http",
}
HTTP_EXTENSION: Final = "dev.covalt:http"
"""The key of an HTTP tool's request in the ``extensions`` of a tool."""

_TEXTS: Final = {"type": "object", "additionalProperties": {"type": "string"}}
_BOOLEANS: Final = {key: {"type": "boolean"} for key in _FLAGS}
_DEFAULTS: Final = {"type": "object", "properties": _BOOLEANS}
_SCHEMA: Final[JsonObject] = {
    "type": "object",
    "required": ["schema"],
    "properties": {
        "schema": {"type": "string"},
        "mediaType": {"type": "string"},
        "toolsets": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["id", "kind"],
                "properties": {
                    "id": {"type": "string"},
                    "kind": {"enum": ["builtin", "mcp", "uri"]},
                    "version": {"type": "string"},
                    "server": {"type": "object"},
                    "headers": _TEXTS,
                    "extensions": {"type": "object"},
                    "toolsetDefaults": _DEFAULTS,
                    "tools": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["name"],
                            "properties": {
                                "name": {"type": "string"},
                                "summary": {"type": "string"},
                                "argsSchema": {"type": "object"},
                                "examples": {"type": "array", "items": {"type": "object"}},
                                "extensions": {"type": "object"},
                                **_BOOLEANS,
                            },
                        },
                    },
                },
            },
        },
    },
}


def _recognize(document: Document) -> bool:
    value = document.value
    if (
        document.kind != "json"
        or not isinstance(value, dict)
        or not isinstance(value.get("schema"), str)
    ):
        return False
    toolsets = value.get("toolsets")
    named = "cjson-toolsets" in value["schema"] or value.get("mediaType") == _MEDIA_TYPE
    return named or (
        isinstance(toolsets, list)
        and all(isinstance(one, dict) and "kind" in one for one in toolsets)
    )


def _correct(value: Any) -> list[Note]:
    """Replace the texts "true" and "false", which validators insert: the schema's defaults are texts."""
    notes: list[Note] = []
    for at, toolset in enumerate(_objects(value, "toolsets")):
        if not isinstance(toolset, dict):
            continue
        loc: Loc = ("toolsets", at)
        flags = [((*loc, "toolsetDefaults"), toolset.get("toolsetDefaults"))]
        flags += [
            ((*loc, "tools", one), tool) for one, tool in enumerate(_objects(toolset, "tools"))
        ]
        for place, owner in flags:
            for key in _FLAGS if isinstance(owner, dict) else ():
                if isinstance(owner, dict) and owner.get(key) in ("true", "false"):
                    owner[key] = owner[key] == "true"
                    notes.append(Note((*place, key), "the text was corrected to a boolean"))
    return notes


def _objects(value: Any, key: str) -> list[Any]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def _check(value: Any) -> Problems:
    found = duplicates(value.get("toolsets", []), "id", ("toolsets",), "toolset id")
    for at, toolset in enumerate(value.get("toolsets", [])):
        found += duplicates(
            toolset.get("tools", []), "name", ("toolsets", at, "tools"), "tool name"
        )
    return found


def _read(document: Document, imported: Imported) -> None:
    for source in Part(document.value).parts("toolsets"):
        toolset = imported.toolset(source.peek("id"))
        toolset.trace(("id",), source["id"].loc)
        toolset.copy_texts(source, {"version": "version"})
        if "toolsetDefaults" in source:
            toolset.node("defaults").copy(source["toolsetDefaults"], _FLAGS)
            if not toolset.value["defaults"]:
                toolset.remove("defaults")
        server = source.get("server")
        if source.peek("kind") == "mcp" and server is not None and _is_server(server.value):
            _read_server(toolset, source, server)
        elif source.peek("kind") == "uri" and server is not None and _is_url(server.peek("url")):
            _read_requests(toolset, source, server, imported)
        elif source.peek("kind") == "builtin" and "tools" in source:
            message = "tools of kind builtin belong to their application; they are carried, and cannot be called"
            imported.notes.append(Note(source["kind"].loc, message))


def _is_url(value: Any) -> bool:
    return isinstance(value, str) and re.match(HTTP_URL, value) is not None


def _is_server(server: JsonObject) -> bool:
    """Return whether a server has a command or a URL, and values of the types of MCP."""
    command, args = server.get("command"), server.get("args", [])
    env = server.get("env", {})
    texts = (
        isinstance(args, list)
        and isinstance(env, dict)
        and all(isinstance(one, str) for one in [*args, *env.values()])
    )
    if not texts or not isinstance(server.get("cwd", ""), str):
        return False
    return (isinstance(command, str) and "url" not in server) or (
        command is None and _is_url(server.get("url"))
    )


def _read_server(toolset: Node, source: Part, server: Part) -> None:
    made = toolset.item("mcp_servers")
    made.set("id", source["id"], toolset.value["id"])
    made.copy(
        server, {"command": "command", "args": "args", "cwd": "cwd", "env": "env", "url": "url"}
    )
    for key in ("transport", "type"):
        transport = _TRANSPORTS.get(str(server.peek(key)))
        if transport and (transport == "stdio") == ("command" in server):
            made.set("transport", server[key], transport)
            break
    if "url" in server and "headers" in source:
        made.set("headers", source["headers"], dict(source.peek("headers")))
    defaults = source.get("toolsetDefaults")
    if defaults is not None and "requiresApproval" in defaults:
        made.set("requires_confirmation", defaults["requiresApproval"])
    names = legal_tool_names([one.peek("name") for one in source.parts("tools")])
    for tool in source.parts("tools"):
        override = toolset.item("tool_overrides")
        override.set("tool_id", tool["name"], f"{toolset.value['id']}:{names[tool.peek('name')]}")
        override.copy(tool, {"summary": "description_override", **_FLAGS})


def _read_requests(toolset: Node, source: Part, server: Part, imported: Imported) -> None:
    names = legal_tool_names([one.peek("name") for one in source.parts("tools")])
    for tool in source.parts("tools"):
        made = toolset.item("tools")
        made.set("id", tool["name"], names[tool.peek("name")])
        made.copy(tool, {"summary": "description", **_FLAGS})
        own = tool.peek("extensions", {}).get(HTTP_EXTENSION)
        if isinstance(own, dict) and _is_url(own.get("url")):
            made.set("http", tool["extensions"][HTTP_EXTENSION])
        else:
            http = made.node("http")
            http.value["method"] = "POST"
            properties = tool.peek("argsSchema", {}).get("properties")
            url = _url_of(server.peek("url"), made.value["id"])
            http.set(
                "url",
                server["url"],
                with_arguments(url, properties if isinstance(properties, dict) else ()),
            )
            for name, value in source.entries("headers"):
                http.node("headers").set(name, value, escaped(value.value))
        if "argsSchema" in tool:
            imported.set_schema(made, tool["argsSchema"], tool.peek("argsSchema"))


def _url_of(base: str, name: str) -> str:
    return f"{base.rstrip('/')}/{name}"


def _write(toolsets: Sequence[Part], imported: Imported) -> Any:
    found: list[JsonObject] = []
    for position, manifest in enumerate(toolsets):
        manifest.take("manifest_version")
        manifest.take("secrets")
        servers = manifest.parts("mcp_servers")
        tools = manifest.parts("tools")
        if tools or not servers:
            found.append(_own_tools(manifest, tools, imported, position))
        for server in servers:
            name = server.take("id")
            taken = {one["id"] for one in found}
            server_id = name if name not in taken else f"{name}-mcp"
            found.append(_server(manifest, server, name, server_id))
    return {"schema": _SCHEMA_URL, "mediaType": _MEDIA_TYPE, "toolsets": found}


def _common(manifest: Part, toolset_id: str, kind: str) -> JsonObject:
    manifest.take("id")
    made: JsonObject = {"id": toolset_id, "kind": kind, "version": manifest.take("version")}
    if "defaults" in manifest:
        made["toolsetDefaults"] = _flags(manifest["defaults"])
    return made


def _flags(part: Part) -> JsonObject:
    return {theirs: part.take(ours) for theirs, ours in _FLAGS.items() if ours in part}


def _server(manifest: Part, server: Part, name: str, server_id: str) -> JsonObject:
    made = _common(manifest, server_id, "mcp")
    keys = ("transport", "command", "args", "cwd", "env", "url")
    made["server"] = {key: server.take(key) for key in keys if key in server}
    if "headers" in server:
        made["headers"] = server.take("headers")
    if "requires_confirmation" in server:
        made.setdefault("toolsetDefaults", {})["requiresApproval"] = server.take(
            "requires_confirmation"
        )
    if server.peek("enabled") is False:
        made.setdefault("toolsetDefaults", {})["enabled"] = server.take("enabled")
    tools = []
    for override in manifest.parts("tool_overrides"):
        namespace, _, tool = override.peek("tool_id").rpartition(":")
        if namespace == name:
            override.take("tool_id")
            summary = (
                {"summary": override.take("description_override")}
                if "description_override" in override
                else {}
            )
            tools.append({"name": tool, **summary, **_flags(override)})
    if tools:
        made["tools"] = tools
    return made


def _own_tools(manifest: Part, tools: list[Part], imported: Imported, position: int) -> JsonObject:
    requests = [tool["http"] for tool in tools if "http" in tool]
    made = _common(manifest, manifest.peek("id"), "uri" if requests else "builtin")
    base = requests[0].peek("url").rpartition("/")[0] if requests else ""
    shared = requests[0].peek("headers", {}) if requests else {}
    if base.partition("://")[2]:
        made["server"] = {"url": base}
    if shared and all(one.peek("headers", {}) == shared for one in requests):
        made["headers"] = {name: unescaped(value) for name, value in shared.items()}
    if tools:
        made["tools"] = [
            _tool(one, made, imported.python_definition(position, one)) for one in tools
        ]
    return made


def _tool(tool: Part, toolset: JsonObject, definition: JsonObject) -> JsonObject:
    name = tool.take("id")
    made: JsonObject = {"name": name}
    description = tool.take("description", definition.get("description"))
    if description is not None:
        made["summary"] = description
    schema = tool.take("input_schema", definition.get("input_schema"))
    if schema is not None:
        made["argsSchema"] = schema
    made |= _flags(tool)
    if "examples" in tool:
        made["examples"] = tool.take("examples")
    if "entrypoint" in tool:
        tool["entrypoint"].drop("CJSON has no kind for Python functions")
    if "http" in tool:
        http = tool.take("http")
        base = toolset.get("server", {}).get("url", "")
        plain: JsonObject = {"method": "POST", "url": _url_of(base, name)}
        if "headers" in toolset:
            plain["headers"] = {key: escaped(value) for key, value in toolset["headers"].items()}
        if http != plain:
            made["extensions"] = {HTTP_EXTENSION: http}
    return made


FORMAT: Final = Format(
    name="cjson",
    title="CJSON",
    kind="json",
    file_name="toolsets.cjson.json",
    recognize=_recognize,
    read=_read,
    write=_write,
    schema=_SCHEMA,
    correct=_correct,
    check=_check,
)
