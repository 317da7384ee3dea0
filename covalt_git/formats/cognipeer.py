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
    METHODS,
    escaped,
    has_arguments,
    placeholders_to_references,
    plain_headers,
    references_to_placeholders,
    with_arguments,
)
from covalt_git.formats.model import Imported, Part, changed
from covalt_git.formats.shapes import TEXT, Schema, are_objects, schema_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from covalt_git.formats.documents import Document
    from covalt_git.formats.model import Node
    from covalt_git.json_values import JsonObject
    from covalt_git.json_values.pointer import Loc

_NO_ARGUMENTS: Final = "Cognipeer cannot insert arguments here"
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
    "method!": (*METHODS, *(method.lower() for method in METHODS)),
    "headers": {str: str},
}
_ACTION_SHAPE: Final = {
    "name!": TEXT,
    "description": str,
    "displayName": TEXT,
    "api!": _API_SHAPE,
    "parameters": dict,
}
SCHEMA: Final = schema_of({"name!": TEXT, "label!": TEXT, "actions!": [_ACTION_SHAPE]})


def recognize(document: Document) -> bool:
    """Return whether a document has this format."""
    return are_objects([document.value], "name", "actions") and are_objects(
        document.value["actions"], "api"
    )


def read(document: Document, imported: Imported) -> None:
    """Add the toolsets of a document."""
    source = Part(document.value)
    # Names there are in camel case, and ids of toolsets are in lower case.
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", source.peek("name"))
    toolset = imported.toolset(words, name=source.peek("label"))
    toolset.trace(("id",), ("name",))
    toolset.trace(("name",), ("label",))
    for action, tool in toolset.tools(source.parts("actions")):
        tool.copy_texts(action, {"displayName": "name"})
        tool.copy(action, {"description": "description"})
        _read_request(tool, action, imported)


def _read_request(tool: Node, action: Part, imported: Imported) -> None:
    api = action["api"]
    http = tool.node("http")
    method = api.peek("method").upper()
    names = action.peek("parameters", {}).get("properties")
    names = names if isinstance(names, dict) else {}
    url = with_arguments(placeholders_to_references(api.peek("url")), names)
    http.set("method", api["method"], method)
    http.set("url", api["url"], url)
    http.copy(api, {"headers": "headers"}, lambda text: placeholders_to_references(escaped(text)))
    if "parameters" in action:
        schema = action["parameters"]
        moved: dict[Loc, Loc] = {}
        if imported.set_schema(tool, schema, _with_list(schema.value, moved)):
            for place, flag in moved.items():
                tool.trace(("input_schema", *place), (*schema.loc, *flag))
    in_url = set(_URL_NAME.findall(url))
    for name in names:
        if name == "body" and method in _WITH_BODY:
            http.value["body"] = {"json": "$args.body"}
        elif name not in in_url:
            http.value.setdefault("parameters", {})[name] = {"in": "query"}


def _with_list(schema: JsonObject, moved: dict[Loc, Loc]) -> JsonObject:
    """Return a schema with a list ``required`` in place of booleans in its properties, at every depth.

    ``moved`` gets the place of each item of a list, and of its boolean.
    """
    copied: JsonObject = changed(schema, str)  # a copy
    for loc, part in _schemas(copied):
        if isinstance(part.get("required"), bool):
            del part["required"]  # the schema around it has it
        properties = part.get("properties")
        for name, inner in properties.items() if isinstance(properties, dict) else ():
            required = part["required"] if isinstance(part.get("required"), list) else []
            if isinstance(inner, dict) and inner.get("required") is True and name not in required:
                moved[*loc, "required", len(required)] = (*loc, "properties", name, "required")
                part["required"] = [*required, name]
    return copied


def _with_booleans(schema: JsonObject) -> JsonObject:
    """Return a schema with a boolean ``required`` in its properties in place of the list."""
    copied: JsonObject = changed(schema, str)  # a copy
    # The inner ones first: the boolean of a property replaces the list of the schema around it.
    for _, part in reversed([*_schemas(copied)]):
        properties, required = part.get("properties"), part.get("required")
        if not isinstance(properties, dict) or not isinstance(required, list):
            continue
        for name in [*required]:
            inner = properties.get(name)
            if isinstance(inner, dict) and "required" not in inner:
                inner["required"] = True
                required.remove(name)
        if not required:
            del part["required"]
    return copied


def _schemas(schema: Any, loc: Loc = ()) -> Iterator[tuple[Loc, JsonObject]]:
    """Yield a schema and all schemas in it, each with its place and after the schema around it."""
    if not isinstance(schema, dict):
        return
    yield loc, schema
    for key, value in schema.items():
        if key in _ONE_SCHEMA:
            yield from _schemas(value, (*loc, key))
        elif key in _SCHEMAS and isinstance(value, list):
            for position, inner in enumerate(value):
                yield from _schemas(inner, (*loc, key, position))
        elif key in _NAMED_SCHEMAS and isinstance(value, dict):
            for name, inner in value.items():
                yield from _schemas(inner, (*loc, key, name))


def write(toolsets: Sequence[Part], _imported: Imported) -> Any:
    """Return the document of toolsets."""
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
    fixed = []
    for name, value in http.entries("query"):
        if value.value == f"$args.{name}":  # Cognipeer sends the argument there
            value.use()
        elif isinstance(value.value, str) and has_arguments(value.value):
            value.drop(_NO_ARGUMENTS)
        else:
            fixed.append((name, value.use()))
    url += ("&" if "?" in url else "?") * bool(fixed) + urlencode(fixed)
    api = {"url": url, "method": method}
    headers = plain_headers(http, _NO_ARGUMENTS)
    if headers:
        api["headers"] = changed(headers, references_to_placeholders)
    placed = set(_URL_NAME.findall(url)) | http.peek("query", {}).keys()
    for name, parameter in http.entries("parameters"):
        wire = parameter.peek("name", name)
        if parameter.peek("in") in {"query", "path"} and wire == name and "style" not in parameter:
            parameter.use()
            placed.add(name)
        else:
            parameter.drop("Cognipeer sends arguments only in the URL, and as the argument `body`")
    return api, _body(http, method, schema, placed)


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
    outer = {name: inner_schema for name, inner_schema in properties.items() if name in placed}
    names = [name for name in required if name in placed] + ["body"] * bool(needed)
    return {**schema, "properties": {**outer, "body": wrapped}, "required": names}
