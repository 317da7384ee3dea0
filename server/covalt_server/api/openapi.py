"""The API's OpenAPI 3.1 document, made from the operations themselves."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from covalt_git import __version__
from covalt_git.json_values import pointer
from covalt_git.operations.registry import Events, File
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
    "description": "One thing wrong in one place.",
    "properties": {
        "path": {"type": "string", "description": "A file, or a value of the request."},
        "line": {"type": "integer", "description": "From 1; 0 where it has none."},
        "col": {"type": "integer"},
        "code": {"type": "string"},
        "severity": {"enum": ["error", "warning"]},
        "message": {"type": "string"},
        "hint": {"type": "string"},
    },
    "required": ["path", "line", "col", "code", "severity", "message", "hint"],
}

_component = partial(pointer.reference_to, "components", "schemas")

ERROR = {
    "type": "object",
    "description": "What every operation answers when it does not do what was asked.",
    "properties": {
        "error": {"type": "string", "description": "The stable name of this kind of error."},
        "error_description": {"type": "string"},
        "hint": {"type": "string", "description": "What to do next."},
        "problems": {"type": "array", "items": _component("Problem")},
    },
    "required": ["error", "error_description", "hint", "problems"],
    "additionalProperties": False,
}


EVENT = {
    "type": "object",
    "description": "One server-sent event; comments fill the silence.",
    "properties": {
        "id": {"type": "string", "description": "A number from 1, or `end` of the last one."},
        "event": {"type": "string"},
        "data": {"type": "string", "description": "A JSON object."},
    },
    "required": ["id", "event", "data"],
}


def document(operations: Iterable[Operation[Any, Any]], server: str) -> JsonObject:
    """Return the document of the operations of the server at an address."""
    every = list(operations)
    references, schemas = _models(every)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "covalt-git",
            "version": __version__,
            "description": "Toolsets, chats and their workspaces, as files and git keep them.",
        },
        "servers": [{"url": server}],
        "security": [{"bearer": []}],
        "paths": {
            path_of(one): {method(one).lower(): _operation(one, references)} for one in every
        },
        "components": {
            "schemas": {**schemas, "Problem": PROBLEM, "Error": ERROR},
            "securitySchemes": {
                "bearer": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token that covalt-git serve printed; browsers hold it "
                    "in a cookie.",
                },
            },
        },
    }


def _models(every: list[Operation[Any, Any]]) -> tuple[dict[Any, JsonObject], JsonObject]:
    """Return where each body's and answer's schema is, and those schemas by name."""
    bodies: list[Side] = [
        (asks, "validation")
        for one in every
        if method(one) == "POST"
        for asks in _bodies(one).values()
    ]
    answers: list[Side] = [
        (one.result, "serialization") for one in every if issubclass(one.result, BaseModel)
    ]
    references, found = models_json_schema([*bodies, *answers], ref_template=REFERENCE)
    return dict(references), found.get("$defs", {})


def _operation(one: Operation[Any, Any], references: dict[Any, JsonObject]) -> JsonObject:
    told: JsonObject = {
        "operationId": one.name,
        "summary": one.summary,
        "description": one.description,
        "responses": _responses(one, references),
    }
    if method(one) == "GET":
        told["parameters"] = _parameters(one)
    else:
        content = {
            media: {"schema": references[asks, "validation"]}
            for media, asks in _bodies(one).items()
        }
        told["requestBody"] = {"required": True, "content": content}
    return told


def _bodies(one: Operation[Any, Any]) -> dict[str, type[BaseModel]]:
    """Return what the body of a request may be, by its media type."""
    if one.upload_limit is None:
        return {"application/json": one.request}
    as_json = {} if one.alternative is None else {"application/json": one.alternative}
    return {"multipart/form-data": one.request, **as_json}


def path_of(one: Operation[Any, Any]) -> str:
    """Return the path of an operation, with variables as OpenAPI writes them."""
    return f"/api/{path(one)}".replace("<", "{").replace(">", "}")


def _parameters(one: Operation[Any, Any]) -> list[JsonObject]:
    schema = one.request.model_json_schema()
    required = schema.get("required", ())
    parameters: list[JsonObject] = []
    for name, told in schema.get("properties", {}).items():
        kind = {key: value for key, value in _sayable(told).items() if key != "description"}
        where = "path" if f"{{{name}}}" in path_of(one) else "query"
        parameter = {"name": name, "in": where, "required": name in required, "schema": kind}
        if "description" in told:
            parameter["description"] = told["description"]
        parameters.append(parameter)
    return parameters


def _sayable(told: JsonObject) -> JsonObject:
    """Return the schema of a value as a query can say it: it has no null, only nothing at all."""
    choices = [choice for choice in told.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) != 1:
        return told
    rest = {key: value for key, value in told.items() if key not in {"anyOf", "default"}}
    return {**choices[0], **rest}


def _responses(one: Operation[Any, Any], references: dict[Any, JsonObject]) -> JsonObject:
    schema: JsonObject = {"type": "string", "format": "binary"}
    media: tuple[str, ...] = SENT
    if issubclass(one.result, BaseModel):
        media = ("application/json",)
        schema = references[one.result, "serialization"]
    elif issubclass(one.result, Events):
        media = ("text/event-stream",)
        schema = EVENT
    content = {name: {"schema": schema} for name in media}
    answers: JsonObject = {"200": {"description": "Done.", "content": content}}
    is_get = method(one) == "GET"
    if is_get and not issubclass(one.result, Events):
        answers["200"]["headers"] = {"ETag": {"schema": {"type": "string"}}}
        answers["304"] = {"description": "As the If-None-Match of the request has it."}
    if is_get and issubclass(one.result, Events):
        answers["204"] = {"description": "There are no more events."}
    if issubclass(one.result, File):
        answers["206"] = {"description": "The range that was asked for.", "content": content}
    refused = {*REFUSALS, *one.errors, *TROUBLE}
    refused |= {*BODY_REFUSALS} if not is_get else set()
    for status in sorted(refused):
        answers[str(status)] = {
            "description": phrase(status),
            "content": {"application/json": {"schema": _component("Error")}},
        }
    return answers
