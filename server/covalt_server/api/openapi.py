"""OpenAPI 3.1 document of the API, generated from the operations."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from covalt_git import __version__
from covalt_git.json_values import pointer
from covalt_git.operations.registry import Events, ResultFile
from covalt_git.text.media_types import SENT
from covalt_server.api.errors import phrase
from covalt_server.api.http import BODY_REFUSALS, REFUSALS, TROUBLE, method, path

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.json_values import JsonObject
    from covalt_git.operations.registry import Operation

Side = tuple[type[BaseModel], Literal["validation", "serialization"]]
REFERENCE = "#/components/schemas/{model}"

PROBLEM = {
    "type": "object",
    "description": "A problem at a place.",
    "properties": {
        "path": {"type": "string", "description": "A file, or a value of the request."},
        "line": {"type": "integer", "description": "From 1; 0 for the whole file."},
        "col": {"type": "integer"},
        "code": {"type": "string"},
        "severity": {"enum": ["error", "warning"]},
        "message": {"type": "string"},
        "hint": {"type": "string"},
    },
    "required": ["path", "line", "col", "code", "severity", "message", "hint"],
}

component = partial(pointer.reference_to, "components", "schemas")
"""Return a reference to a schema of the document by its name."""

ERROR = {
    "type": "object",
    "description": "The answer of an operation that failed.",
    "properties": {
        "error": {"type": "string", "description": "The stable name of this kind of error."},
        "error_description": {"type": "string"},
        "hint": {"type": "string", "description": "What to do next."},
        "problems": {"type": "array", "items": component("Problem")},
    },
    "required": ["error", "error_description", "hint", "problems"],
    "additionalProperties": False,
}


EVENT = {
    "type": "object",
    "description": "A server-sent event; comments keep an idle connection open.",
    "properties": {
        "id": {"type": "string", "description": "A number from 1; `end` for the last one."},
        "event": {"type": "string"},
        "data": {"type": "string", "description": "A JSON object."},
    },
    "required": ["id", "event", "data"],
}


def document(operations: Iterable[Operation[Any, Any]], server: str) -> JsonObject:
    """Return the document of the operations of the server at a URL."""
    every = list(operations)
    references, schemas = _models(every)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "covalt-git",
            "version": __version__,
            "description": "Toolsets, chats and their workspaces.",
        },
        "servers": [{"url": server}],
        "security": [{"bearer": []}],
        "paths": {
            path_of(operation): {method(operation).lower(): _operation(operation, references)}
            for operation in every
        },
        "components": {
            "schemas": {**schemas, "Problem": PROBLEM, "Error": ERROR},
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token that covalt-git serve printed; browsers send it "
                    "in a cookie.",
                },
            },
        },
    }


def _models(every: list[Operation[Any, Any]]) -> tuple[dict[Any, JsonObject], JsonObject]:
    """Return a reference for each request and result, and the referenced schemas by name."""
    bodies: list[Side] = [
        (asks, "validation")
        for operation in every
        if method(operation) == "POST"
        for asks in _bodies(operation).values()
    ]
    answers: list[Side] = [
        (operation.result, "serialization")
        for operation in every
        if issubclass(operation.result, BaseModel)
    ]
    references, schema = models_json_schema([*bodies, *answers], ref_template=REFERENCE)
    return dict(references), schema.get("$defs", {})


def _operation(operation: Operation[Any, Any], references: dict[Any, JsonObject]) -> JsonObject:
    entry: JsonObject = {
        "operationId": operation.name,
        "tags": [operation.run.__module__.rpartition(".")[2].replace("_", " ")],
        "summary": operation.summary,
        "description": operation.description,
        "responses": _responses(operation, references),
    }
    if method(operation) == "GET":
        entry["parameters"] = _parameters(operation)
    else:
        content = {
            media: {"schema": references[asks, "validation"]}
            for media, asks in _bodies(operation).items()
        }
        entry["requestBody"] = {"required": True, "content": content}
    return entry


def _bodies(operation: Operation[Any, Any]) -> dict[str, type[BaseModel]]:
    """Return the models of the body of a request, by media type."""
    if operation.upload_limit is None:
        return {"application/json": operation.request}
    as_json = {} if operation.alternative is None else {"application/json": operation.alternative}
    return {"multipart/form-data": operation.request, **as_json}


def path_of(operation: Operation[Any, Any]) -> str:
    """Return the path of an operation, with variables in OpenAPI's syntax."""
    return f"/api/{path(operation)}".replace("<", "{").replace(">", "}")


def _parameters(operation: Operation[Any, Any]) -> list[JsonObject]:
    schema = operation.request.model_json_schema()
    required = schema.get("required", ())
    parameters: list[JsonObject] = []
    for name, field in schema.get("properties", {}).items():
        kind = {key: value for key, value in _without_null(field).items() if key != "description"}
        where = "path" if f"{{{name}}}" in path_of(operation) else "query"
        parameter = {"name": name, "in": where, "required": name in required, "schema": kind}
        if "description" in field:
            parameter["description"] = field["description"]
        parameters.append(parameter)
    return parameters


def _without_null(schema: JsonObject) -> JsonObject:
    """Return the schema of a parameter without null, which a query cannot represent."""
    choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) != 1:
        return schema
    rest = {key: value for key, value in schema.items() if key not in {"anyOf", "default"}}
    return {**choices[0], **rest}


def _responses(operation: Operation[Any, Any], references: dict[Any, JsonObject]) -> JsonObject:
    schema: JsonObject = {"type": "string", "format": "binary"}
    media: tuple[str, ...] = SENT
    if issubclass(operation.result, BaseModel):
        media = ("application/json",)
        schema = references[operation.result, "serialization"]
    elif issubclass(operation.result, Events):
        media = ("text/event-stream",)
        schema = EVENT
    content = {name: {"schema": schema} for name in media}
    answers: JsonObject = {"200": {"description": "Done.", "content": content}}
    is_get = method(operation) == "GET"
    if is_get and not issubclass(operation.result, Events):
        answers["200"]["headers"] = {"ETag": {"schema": {"type": "string"}}}
        answers["304"] = {"description": "The ETag is the one in If-None-Match."}
    if is_get and issubclass(operation.result, Events):
        answers["204"] = {"description": "There are no more events."}
    if issubclass(operation.result, ResultFile):
        answers["206"] = {"description": "The requested range.", "content": content}
    refused = {*REFUSALS, *operation.errors, *TROUBLE}
    refused |= {*BODY_REFUSALS} if not is_get else set()
    for status in sorted(refused):
        answers[str(status)] = {
            "description": phrase(status),
            "content": {"application/json": {"schema": component("Error")}},
        }
    return answers
