"""The tool registry at ``/v1/tools``, with the paths and answers of Starfly's registry.

``/v1/mcp/tools`` is an older name of the same routes; its ``DELETE`` also accepts the tool's id in the query.
The operations at ``/api/`` return more fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import jsonify, request
from pydantic.json_schema import models_json_schema

from covalt_git.manifests.project_config import BrokenConfigError
from covalt_git.manifests.tool_entries import ToolEntry
from covalt_git.operations import tool_registry as registry
from covalt_git.operations.registry import InvalidRequestError
from covalt_git.toolsets.tool_registry import RegistryUnavailableError
from covalt_server.api import openapi
from covalt_server.api.errors import phrase
from covalt_server.api.http import REFUSALS, TROUBLE, json_object, single
from covalt_server.request_context import ask, project

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from flask import Flask
    from werkzeug.wrappers import Response

    from covalt_git.json_values import JsonObject

PATHS = ("/v1/tools", "/v1/mcp/tools")
_CREATED = 201

_ENTRY = openapi.component("ToolEntry")
_ERROR = openapi.component("RegistryError")
_LIST: JsonObject = {
    "type": "object",
    "properties": {
        "tools": {"type": "array", "items": _ENTRY},
        "count": {"type": "integer"},
    },
    "required": ["tools", "count"],
}
_REMOVED: JsonObject = {
    "type": "object",
    "properties": {"status": {"const": "deregistered"}, "tool_id": {"type": "string"}},
    "required": ["status", "tool_id"],
}
_PROTOCOL = {"name": "protocol", "in": "query", "schema": {"type": "string"}}
_IN_PATH = {"name": "tool_id", "in": "path", "required": True, "schema": {"type": "string"}}
_IN_QUERY = _IN_PATH | {"in": "query"}


def install(app: Flask) -> None:
    """Add the routes of the registry."""
    collection: dict[str, Callable[[], Response]] = {"GET": _list, "POST": _register}
    one: dict[str, Callable[[str], Response]] = {"GET": _show, "PUT": _replace, "DELETE": _remove}
    for path in PATHS:
        for method, view in collection.items():
            _add(app, path, method, view)
        for method, view_of_one in one.items():
            _add(app, f"{path}/<path:tool_id>", method, view_of_one)
    _add(app, PATHS[1], "DELETE", _remove_named)


def _add(app: Flask, path: str, method: str, view: Callable[..., Response]) -> None:
    def respond(**variables: str) -> Response:
        try:
            project()
        except BrokenConfigError as error:
            raise RegistryUnavailableError(f"covalt.yaml cannot be used: {error.message}") from None
        return view(**variables)

    # Without merge_slashes=False, the id a//b would be redirected to a/b.
    endpoint = f"registry {method} {path}"
    app.add_url_rule(path, endpoint, respond, methods=[method], merge_slashes=False)


def documented_schemas() -> JsonObject:
    """Return the schemas of the registry for the OpenAPI document."""
    entry = [(ToolEntry, "validation")]
    found = models_json_schema(entry, ref_template=openapi.REFERENCE)[1]  # type: ignore[arg-type]
    error = {
        "type": "object",
        "description": "The answer of the tool registry to a request that failed.",
        "properties": {"error": {"type": "string"}, "error_description": {"type": "string"}},
        "required": ["error", "error_description"],
        "additionalProperties": False,
    }
    return {**found["$defs"], "RegistryError": error}


def documented_paths() -> JsonObject:
    """Return the routes of the registry for the OpenAPI document."""
    paths: JsonObject = {}
    for path in PATHS:
        paths[path] = {
            "get": _documented("List the registered tools.", _LIST, parameters=[_PROTOCOL]),
            "post": _documented("Register a tool.", _ENTRY, status=_CREATED, sends=True),
        }
        paths[f"{path}/{{tool_id}}"] = {
            "get": _documented("Return a registered tool.", _ENTRY, parameters=[_IN_PATH]),
            "put": _documented(
                "Replace the entry of a registered tool.", _ENTRY, parameters=[_IN_PATH], sends=True
            ),
            "delete": _documented("Remove a registered tool.", _REMOVED, parameters=[_IN_PATH]),
        }
    removes = _documented("Remove a registered tool.", _REMOVED, parameters=[_IN_QUERY])
    paths[PATHS[1]]["delete"] = removes
    return paths


def _documented(
    summary: str,
    schema: JsonObject,
    *,
    status: int = 200,
    parameters: Sequence[JsonObject] = (),
    sends: bool = False,
) -> JsonObject:
    def answer(status: int, schema: JsonObject) -> JsonObject:
        content = {"application/json": {"schema": schema}}
        return {str(status): {"description": phrase(status), "content": content}}

    found: JsonObject = {"summary": summary, "responses": answer(status, schema)}
    refused = {*REFUSALS, *TROUBLE, 409, 413} if sends else {*REFUSALS, *TROUBLE, 404}
    for one in sorted(refused):
        found["responses"] |= answer(one, _ERROR)
    if parameters:
        found["parameters"] = list(parameters)
    if sends:
        content = {"application/json": {"schema": _ENTRY}}
        found["requestBody"] = {"required": True, "content": content}
    return found


def _register() -> Response:
    answer = jsonify(ask(registry.register_tool, entry=json_object()).entry)
    answer.status_code = _CREATED
    return answer


def _list() -> Response:
    fields = {name: text for name, text in single(request.args).items() if name == "protocol"}
    tools: list[JsonObject] = [
        one.entry for one in ask(registry.list_registered_tools, **fields).tools
    ]
    return jsonify({"tools": tools, "count": len(tools)})


def _show(tool_id: str) -> Response:
    return jsonify(ask(registry.get_registered_tool, tool_id=tool_id).entry)


def _replace(tool_id: str) -> Response:
    done = ask(registry.replace_registered_tool, tool_id=tool_id, entry=json_object())
    return jsonify(done.entry)


def _remove(tool_id: str) -> Response:
    done = ask(registry.remove_registered_tool, tool_id=tool_id)
    return jsonify({"status": "deregistered", "tool_id": done.tool_id})


def _remove_named() -> Response:
    tool_id = single(request.args).get("tool_id")
    if not tool_id:
        raise InvalidRequestError("the query must name the tool: ?tool_id=ID")
    return _remove(tool_id)
