"""The format of Cognipeer's custom tools: one tool with actions, which are HTTP requests.

``required`` is a boolean inside of each property there, and a list of JSON Schema here.  Arguments are
placed as Cognipeer Console does: ``{name}`` in the URL, ``body`` as the JSON body of POST, PUT and PATCH,
all others in the query.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from covalt_git.formats.documents import FormatError
from covalt_git.formats.http_texts import (
    escaped,
    has_arguments,
    placeholders_to_references,
    references_to_placeholders,
    unescaped,
    with_arguments,
)
from covalt_git.formats.model import Format, Imported, Part
from covalt_git.formats.shapes import TEXT, Schema, are_objects, schema_of
from covalt_git.names import local_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.formats.documents import Document
    from covalt_git.formats.model import Node
    from covalt_git.json_values import JsonObject
    from covalt_git.json_values.pointer import Loc

_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
_URL_NAME = re.compile(r"\{\+?([A-Za-z_][\w.-]*)\}")
_ONE_SCHEMA: Final = frozenset(
    {"items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else"}
)
_SCHEMAS: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_NAMED_SCHEMAS: Final = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
_API_SHAPE: Final = {
    "url!": Schema({"type": "string", "pattern": r"^(https?://|\$\{)\S+$"}),
    "method!": (*_METHODS, *(one.lower() for one in _METHODS)),
    "headers": {str: str},
}
_ACTION_SHAPE: Final = {
    "name!": TEXT,
    "description": str,
    "displayName": TEXT,
    "api!": _API_SHAPE,
    "parameters": dict,
}


def _recognize(document: Document) -> bool:
    return are_objects([document.value], "name", "actions") and are_objects(
        document.value["actions"], "api"
    )


def _read(document: Document, imported: Imported) -> None:
    source = Part(document.value)
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", source.peek("name"))
    toolset = imported.toolset(words, name=source.peek("label"), version="0")
    toolset.trace(("id",), ("name",))
    toolset.trace(("name",), ("label",))
    actions = source.parts("actions")
    ids = local_names(one.peek("name") for one in actions)
    for action in actions:
        tool = toolset.item("tools")
        tool.set("id", action["name"], ids[action.peek("name")])
        tool.copy_texts(action, {"displayName": "name"})
        tool.copy(action, {"description": "description"})
        _read_request(tool, action, imported)


def _read_request(tool: Node, action: Part, imported: Imported) -> None:
    api = action["api"]
    http = tool.node("http")
    method = api.peek("method").upper()
    schema = action.get("parameters")
    names = schema.peek("properties", {}) if schema else {}
    names = names if isinstance(names, dict) else {}
    url = with_arguments(placeholders_to_references(api.peek("url")), names)
    http.set("method", api["method"], method)
    http.set("url", api["url"], url)
    to_reference = placeholders_to_references
    http.copy(api, {"headers": "headers"}, lambda text: to_reference(escaped(text)))
    if schema is not None:
        moved: dict[Loc, Loc] = {}
        if imported.set_schema(tool, schema, _with_list(schema.value, (), moved)):
            for place, flag in moved.items():
                tool.trace(("input_schema", *place), (*schema.loc, *flag))
    in_url = set(_URL_NAME.findall(url))
    for name in names:
        if name == "body" and method in _WITH_BODY:
            http.value["body"] = {"json": "$args.body"}
        elif name not in in_url:
            http.value.setdefault("parameters", {})[name] = {"in": "query"}


def _with_list(schema: Any, loc: Loc, moved: dict[Loc, Loc]) -> Any:
    """Return a schema with a list ``required`` in place of booleans in its properties, at every depth.

    ``moved`` gets the place of each item of a list, and of its boolean.
    """
    if not isinstance(schema, dict):
        return schema
    found = _inner(schema, loc, lambda one, at: _with_list(one, at, moved))
    existing = found.get("required")
    required = list(existing) if isinstance(existing, list) else []
    properties = schema.get("properties")
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        if not isinstance(inner, dict) or not isinstance(inner.get("required"), bool):
            continue
        _remove_flag(found["properties"][name])
        if inner["required"] and name not in required:
            moved[*loc, "required", len(required)] = (*loc, "properties", name, "required")
            required.append(name)
    if required:
        found["required"] = required
    for key in _ONE_SCHEMA:
        _remove_flag(found.get(key))
    return found


def _remove_flag(schema: Any) -> None:
    if isinstance(schema, dict) and isinstance(schema.get("required"), bool):
        del schema["required"]


def _with_booleans(schema: Any) -> Any:
    """Return a schema with a boolean ``required`` in its properties in place of the list."""
    if not isinstance(schema, dict):
        return schema
    found = _inner(schema, (), lambda one, _: _with_booleans(one))
    properties = found.get("properties")
    required = found.get("required")
    if isinstance(properties, dict) and isinstance(required, list):
        rest = [name for name in required if not _takes_flag(properties.get(name))]
        for name in required:
            if name not in rest:
                properties[name]["required"] = True
        if rest:
            found["required"] = rest
        else:
            del found["required"]
    return found


def _takes_flag(schema: Any) -> bool:
    return isinstance(schema, dict) and "required" not in schema


def _inner(schema: JsonObject, loc: Loc, change: Any) -> JsonObject:
    """Return a copy of a schema whose inner schemas are changed."""
    found: JsonObject = {}
    for key, value in schema.items():
        if key in _ONE_SCHEMA and isinstance(value, dict):
            found[key] = change(value, (*loc, key))
        elif key in _SCHEMAS and isinstance(value, list):
            found[key] = [change(one, (*loc, key, at)) for at, one in enumerate(value)]
        elif key in _NAMED_SCHEMAS and isinstance(value, dict):
            found[key] = {name: change(one, (*loc, key, name)) for name, one in value.items()}
        else:
            found[key] = value
    return found


def _write(toolsets: Sequence[Part], _imported: Imported) -> Any:
    if len(toolsets) != 1:
        message = f"a document of Cognipeer is one tool, and the input has {len(toolsets)} toolsets"
        raise FormatError(message, hint="convert each toolset on its own")
    manifest = toolsets[0]
    manifest.take("secrets")
    actions = []
    for tool in manifest.parts("tools"):
        if "http" in tool:
            actions.append(_action(tool))
        else:
            tool.drop("an action is an HTTP request, and this tool is a function or a definition")
    return {"name": manifest.take("id"), "label": manifest.take("name"), "actions": actions}


def _action(tool: Part) -> JsonObject:
    schema = tool.take("input_schema", {"type": "object", "properties": {}})
    api, schema = _api(tool["http"], schema)
    name = tool.take("id")
    return {
        "name": name,
        "description": tool.take("description", ""),
        "displayName": tool.take("name", name),
        "api": api,
        "parameters": _with_booleans(schema),
    }


def _api(http: Part, schema: JsonObject) -> tuple[JsonObject, JsonObject]:
    method = http.take("method", "GET")
    url = references_to_placeholders(http.take("url"))
    fixed = [
        (name, value.use())
        for name, value in http.entries("query")
        if not _is_argument(value, name) and not _depends(value)
    ]
    url += ("&" if "?" in url else "?") * bool(fixed) + urlencode(fixed)
    api = {"url": url, "method": method}
    headers = {
        name: references_to_placeholders(unescaped(value.use()))
        for name, value in http.entries("headers")
        if not _depends(value)
    }
    if headers:
        api["headers"] = headers
    placed = set(_URL_NAME.findall(url)) | http.peek("query", {}).keys()
    for name, parameter in http.entries("parameters"):
        wire = parameter.peek("name", name)
        if parameter.peek("in") in {"query", "path"} and wire == name and "style" not in parameter:
            parameter.use()
            placed.add(name)
        else:
            parameter.drop("Cognipeer sends arguments only in the URL, and as the argument `body`")
    return api, _body(http, method, schema, placed)


def _is_argument(value: Part, name: str) -> bool:
    """Return whether a query parameter is the argument with the same name, which Cognipeer sends there."""
    if value.value != f"$args.{name}":
        return False
    value.use()
    return True


def _depends(value: Part) -> bool:
    """Return whether a text contains arguments, which Cognipeer cannot send at this place."""
    if isinstance(value.value, str) and has_arguments(value.value):
        value.drop("Cognipeer cannot insert arguments here")
        return True
    return False


def _body(http: Part, method: str, schema: JsonObject, placed: set[str]) -> JsonObject:
    """Return the schema of the arguments, with those of a JSON body in one argument ``body``."""
    body = http.peek("body", "json")
    properties = schema.get("properties", {})
    if body == {"json": "$args.body"}:
        http.take("body")
        return schema
    if body != "json":
        http["body"].drop("Cognipeer sends a JSON body that is one argument")
        return schema
    http.take("body")
    inner = [name for name in properties if name not in placed]
    if method not in _WITH_BODY or not inner:
        return schema
    required = schema.get("required", [])
    wrapped: JsonObject = {
        "type": "object",
        "properties": {name: properties[name] for name in inner},
    }
    if needed := [name for name in required if name in inner]:
        wrapped["required"] = needed
    outer = {name: one for name, one in properties.items() if name in placed}
    names = [name for name in required if name in placed] + ["body"] * bool(needed)
    return {**schema, "properties": {**outer, "body": wrapped}, "required": names}


FORMAT: Final = Format(
    name="cognipeer",
    title="Cognipeer",
    kind="json",
    file_name="tool.json",
    recognize=_recognize,
    read=_read,
    write=_write,
    schema=schema_of({"name!": TEXT, "label!": TEXT, "actions!": [_ACTION_SHAPE]}),
    unique=(("actions", "name"),),
)
