"""The tool registry at ``/v1/tools``, with the paths and answers of Starfly's registry.

``/v1/mcp/tools`` is an older name of the same routes; its ``DELETE`` also accepts the tool's id in the query.
The operations at ``/api/`` return more fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from flask import jsonify, request
from pydantic.json_schema import models_json_schema

from covalt_git.manifests.project_config import BrokenConfigError
from covalt_git.manifests.tool_entries import ToolEntry
from covalt_git.operations import audit
from covalt_git.operations import tool_registry as registry
from covalt_git.operations.registry import InvalidRequestError
from covalt_git.text.media_types import TEXT
from covalt_git.toolsets.tool_registry import RegistryUnavailableError, ToolNotFoundError
from covalt_server.api import openapi
from covalt_server.api.errors import phrase
from covalt_server.api.http import BODY_REFUSALS, REFUSALS, TROUBLE, json_object, send, single
from covalt_server.request_context import ask, project

if TYPE_CHECKING:
    from collections.abc import Callable

    from flask import Flask
    from werkzeug.wrappers import Response

    from covalt_git.json_values import JsonObject

PATHS = ("/v1/tools", "/v1/mcp/tools")
_CREATED = 201

_ENTRY = openapi.component("ToolEntry")
_NAMED_ENTRY = openapi.component("NamedToolEntry")
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
_IN_PATH = {
    "name": "tool_id",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "minLength": 1},
}
_OF_TOOL = "/<path:tool_id>"
_SINCE = {"name": "since", "in": "query", "schema": {"type": "string", "format": "date-time"}}


class _Route(NamedTuple):
    """A route: its method, its path below those of PATHS, its view, and how the OpenAPI document describes it."""

    method: str
    path: str
    view: Callable[..., Response]
    summary: str
    schema: JsonObject
    parameters: tuple[JsonObject, ...] = ()
    status: int = 200
    sends: bool = False
    media: str = "application/json"


def install(app: Flask) -> None:
    """Add the routes of the registry."""
    for path, route in _routes():
        # Without merge_slashes=False, the id a//b would be redirected to a/b.
        endpoint = f"registry {route.method} {path}"
        view = _answering(route.view)
        app.add_url_rule(path, endpoint, view, methods=[route.method], merge_slashes=False)


def _routes() -> list[tuple[str, _Route]]:
    routes = [(f"{path}{route.path}", route) for path in PATHS for route in _ROUTES]
    return [*routes, (PATHS[1], _REMOVE_NAMED)]


def _answering(view: Callable[..., Response]) -> Callable[..., Response]:
    def respond(**variables: str) -> Response:
        try:
            project()
        except BrokenConfigError as error:
            # Clients of this format know the code `registry_not_configured`, and no codes of covalt-git.
            raise RegistryUnavailableError(f"covalt.yaml cannot be used: {error.message}") from None
        return view(**variables)

    return respond


def documented_schemas() -> JsonObject:
    """Return the schemas of the registry for the OpenAPI document."""
    entry = [(ToolEntry, "validation")]
    schemas = models_json_schema(entry, ref_template=openapi.REFERENCE)[1]  # type: ignore[arg-type]
    error = {
        "type": "object",
        "description": "The answer of the tool registry to a request that failed.",
        "properties": {"error": {"type": "string"}, "error_description": {"type": "string"}},
        "required": ["error", "error_description"],
        "additionalProperties": False,
    }
    definitions: JsonObject = schemas["$defs"]
    whole = definitions["ToolEntry"]
    # The path has its id, so the entry need not.
    named = {**whole, "required": [key for key in whole["required"] if key != "tool_id"]}
    return {**definitions, "NamedToolEntry": named, "RegistryError": error}


def documented_paths() -> JsonObject:
    """Return the routes of the registry for the OpenAPI document."""
    paths: JsonObject = {}
    for path, route in _routes():
        documented = path.replace(_OF_TOOL, "/{tool_id}")
        paths.setdefault(documented, {})[route.method.lower()] = _documented(route)
    return paths


def _documented(route: _Route) -> JsonObject:
    def answer(status: int, schema: JsonObject, media: str = "application/json") -> JsonObject:
        content = {media: {"schema": schema}}
        return {str(status): {"description": phrase(status), "content": content}}

    operation: JsonObject = {
        "tags": ["tool registry"],
        "summary": route.summary,
        "responses": answer(route.status, route.schema, route.media),
    }
    refused = {*REFUSALS, *TROUBLE}
    if route.sends:
        refused |= {409, *BODY_REFUSALS}
    if _IN_PATH in route.parameters or not route.sends:
        refused.add(404)
    for status in sorted(refused):
        operation["responses"] |= answer(status, _ERROR)
    if route.parameters:
        operation["parameters"] = list(route.parameters)
    if route.sends:
        sent = _NAMED_ENTRY if _IN_PATH in route.parameters else _ENTRY
        content = {"application/json": {"schema": sent}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _register() -> Response:
    answer = jsonify(ask(registry.register_tool, entry=json_object()).entry)
    answer.status_code = _CREATED
    return answer


def _list() -> Response:
    fields = {name: text for name, text in single(request.args).items() if name == "protocol"}
    tools = [tool.entry for tool in ask(registry.list_registered_tools, **fields).tools]
    return jsonify({"tools": tools, "count": len(tools)})


def _show(tool_id: str) -> Response:
    return jsonify(ask(registry.get_registered_tool, tool_id=tool_id).entry)


def _audit(tool_id: str) -> Response:
    """Return what was done with a tool, or the entry of a tool whose id ends with ``/audit``."""
    # So that each entry can be read, the registered id comes first.
    try:
        return _show(f"{tool_id}/audit")
    except ToolNotFoundError:
        pass
    fields = {name: text for name, text in single(request.args).items() if name == "since"}
    # The id is not looked up: the entries of a tool stay readable after it was removed.
    return send(ask(audit.export_audit, tool_id=registry.full_id(tool_id), **fields))


def _replace(tool_id: str) -> Response:
    tool = ask(registry.replace_registered_tool, tool_id=tool_id, entry=json_object())
    return jsonify(tool.entry)


def _remove(tool_id: str) -> Response:
    result = ask(registry.remove_registered_tool, tool_id=tool_id)
    return jsonify({"status": "deregistered", "tool_id": result.tool_id})


def _remove_named() -> Response:
    tool_id = single(request.args).get("tool_id")
    if not tool_id:
        raise InvalidRequestError("the query must name the tool: ?tool_id=ID")
    return _remove(tool_id)


_ROUTES = (
    _Route("GET", "", _list, "List the registered tools.", _LIST, (_PROTOCOL,)),
    _Route("POST", "", _register, "Register a tool.", _ENTRY, status=_CREATED, sends=True),
    _Route("GET", _OF_TOOL, _show, "Return a registered tool.", _ENTRY, (_IN_PATH,)),
    _Route("PUT", _OF_TOOL, _replace, "Replace the entry of a registered tool.", _ENTRY, (_IN_PATH,), sends=True),
    _Route("GET", f"{_OF_TOOL}/audit", _audit, "Export the calls of a registered tool, their approvals and refusals, as JSON lines.", {"type": "string"}, (_IN_PATH, _SINCE), media=TEXT),
    _Route("DELETE", _OF_TOOL, _remove, "Remove a registered tool.", _REMOVED, (_IN_PATH,)),
)  # fmt: skip
_REMOVE_NAMED = _Route(
    "DELETE",
    "",
    _remove_named,
    "Remove a registered tool.",
    _REMOVED,
    (_IN_PATH | {"in": "query"},),
)
