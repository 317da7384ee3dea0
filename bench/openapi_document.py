"""A large OpenAPI document from a seed, for ``bench/sources.py`` and tests: 1,200 operations in 912 kB by default.

    python -m bench.openapi_document [--operations N] [--seed N] > api.json

Each of its resources has five operations, which share schemas that refer to each other in a circle, as in documents of
large APIs.  Equal arguments give equal bytes.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from typing import Any

PER_RESOURCE = 5
_WORDS = (
    *(
        "account",
        "alert",
        "booking",
        "bucket",
        "channel",
        "cluster",
        "deployment",
        "device",
        "domain",
        "event",
    ),
    *("export", "file", "group", "image", "invoice", "key", "label", "lease", "member", "message"),
    *(
        "network",
        "node",
        "note",
        "order",
        "payment",
        "policy",
        "project",
        "query",
        "queue",
        "region",
    ),
)
_KINDS: tuple[dict[str, Any], ...] = (
    {"type": "string", "maxLength": 200},
    {"type": "integer", "format": "int64", "minimum": 0},
    {"type": "boolean", "default": False},
    {"type": "string", "format": "date-time", "nullable": True},
    {"type": "string", "enum": ["active", "paused", "archived"]},
    {"type": "array", "items": {"type": "string"}, "maxItems": 50},
)


def document(operations: int = 1200, seed: int = 1) -> dict[str, Any]:
    """Return a document of version 3.0 with a number of operations."""
    choice = random.Random(seed)
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {"Error": _error()}
    names = [
        f"{_WORDS[number % len(_WORDS)]}{number}"
        for number in range(-(-operations // PER_RESOURCE))
    ]
    for number, name in enumerate(names):
        schemas |= _schemas(choice, names, number)
        of_all, of_one = _operations(name, operations - PER_RESOURCE * number)
        paths[f"/v1/projects/{{project}}/{name}s"] = of_all
        if of_one:
            paths[f"/v1/projects/{{project}}/{name}s/{{id}}"] = of_one
    return {
        "openapi": "3.0.3",
        "info": {"title": "A large API", "version": "1.0.0"},
        "servers": [{"url": "https://api.example.com"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _error() -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["code", "message"],
        "properties": {
            "code": {"type": "integer"},
            "message": {"type": "string"},
            "details": {"type": "array", "items": {"$ref": "#/components/schemas/Error"}},
        },
    }


def _schemas(choice: random.Random, names: list[str], number: int) -> dict[str, Any]:
    """Return the schemas of a resource, which refer to those of others."""
    title = names[number].capitalize()
    properties: dict[str, Any] = {"id": {"type": "string", "readOnly": True}}
    for field in range(5):
        word = choice.choice(_WORDS)
        kind = choice.choice(_KINDS)
        properties[f"{word}_{field}"] = {
            "description": f"The {word} of this {names[number]}.",
            **kind,
        }
    for other in choice.sample(names, min(2, len(names))):
        properties[f"{other}_ref"] = {"$ref": f"#/components/schemas/{other.capitalize()}"}
    properties["next"] = {
        "$ref": f"#/components/schemas/{names[(number + 1) % len(names)].capitalize()}"
    }
    page = {
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": {"$ref": f"#/components/schemas/{title}"}},
            "next_page": {"type": "string"},
        },
    }
    return {
        title: {"type": "object", "required": ["id"], "properties": properties},
        f"{title}Page": page,
    }


def _operations(name: str, most: int) -> tuple[dict[str, Any], dict[str, Any]]:
    title = name.capitalize()
    schema = {"$ref": f"#/components/schemas/{title}"}
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    project = {"name": "project", "in": "path", "required": True, "schema": {"type": "string"}}
    one = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
    page = [
        {
            "name": "limit",
            "in": "query",
            "schema": {"type": "integer", "minimum": 1, "maximum": 100},
        },
        {"name": "sort", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
    ]
    rows = [
        ("list", "get", [project, *page], None, {"$ref": f"#/components/schemas/{title}Page"}),
        ("create", "post", [project], body, schema),
        ("get", "get", [project, one], None, schema),
        ("replace", "put", [project, one], body, schema),
        ("delete", "delete", [project, one], None, None),
    ]
    items: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for action, method, parameters, content, answer in rows[:most]:
        operation: dict[str, Any] = {
            "operationId": f"{action}{title}",
            "summary": f"{action.capitalize()} a {name} of a project.",
            "parameters": parameters,
            "responses": {
                "200": _response(answer),
                "default": _response({"$ref": "#/components/schemas/Error"}),
            },
        }
        if content is not None:
            operation["requestBody"] = content
        items[one in parameters][method] = operation
    return items


def _response(schema: dict[str, Any] | None) -> dict[str, Any]:
    content = {"content": {"application/json": {"schema": schema}}} if schema else {}
    return {"description": "Answer", **content}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=1200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    json.dump(document(arguments.operations, arguments.seed), sys.stdout)
