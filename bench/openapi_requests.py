"""Eight requests and eight hostile values, whose right bytes were written by hand from the OpenAPI specification.

It does not import covalt-git, so that :mod:`bench.fastmcp_openapi` can import it in an environment of its own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

_TEXTS: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
_POINT: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "integer"}}}
_BOX: dict[str, Any] = {
    "type": "object",
    "properties": {"lower": {"type": "integer"}, "upper": {"type": "integer"}},
}


class Case(NamedTuple):
    """A call, and what is right: any of the values at ``place`` (``target``, ``body`` or a header), or a refusal."""

    title: str
    operation: str
    args: dict[str, Any]
    right: tuple[str, ...]
    place: str = "target"
    may_refuse: bool = False


def _parameter(place: str, name: str, schema: dict[str, Any], **style: Any) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": schema, **style}


def document() -> dict[str, Any]:
    """Return a document with the operation of each case."""
    form = {"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}}
    parameters = {
        "list": _parameter("path", "ids", _TEXTS),
        "matrix": _parameter("path", "ids", _TEXTS, style="matrix", explode=True),
        "repeated": _parameter("query", "tags", _TEXTS),
        "commas": _parameter("query", "tags", _TEXTS, explode=False),
        "pipes": _parameter("query", "tags", _TEXTS, style="pipeDelimited", explode=False),
        "deep": _parameter("query", "box", _BOX, style="deepObject", explode=True),
        "header": _parameter("header", "X-Ids", _TEXTS),
        "item": _parameter("path", "id", {"type": "string"}),
        "search": _parameter("query", "q", {"type": "string"}),
    }
    paths: dict[str, Any] = {}
    for name, parameter in parameters.items():
        path = f"/{name}/{{{parameter['name']}}}" if parameter["in"] == "path" else f"/{name}"
        paths[path] = {"get": _operation(name, parameters=[parameter])}
    content = {"application/x-www-form-urlencoded": {"schema": form}}
    paths["/form"] = {"post": _operation("form", requestBody={"content": content})}
    return {
        "openapi": "3.0.3",
        "info": {"title": "Requests", "version": "1"},
        "servers": [{"url": "https://api.example.com/v1"}],
        "paths": paths,
    }


def _operation(name: str, **more: Any) -> dict[str, Any]:
    return {"operationId": name, "responses": {"200": {"description": "-"}}, **more}


REQUESTS = (
    Case("a list in the path", "list", {"ids": ["a", "b"]}, ("/v1/list/a,b", "/v1/list/a%2Cb")),
    Case("a matrix list", "matrix", {"ids": ["a", "b"]}, ("/v1/matrix/;ids=a;ids=b",)),
    Case("a list, repeated", "repeated", {"tags": ["a", "b"]}, ("/v1/repeated?tags=a&tags=b",)),
    Case(
        "a list with commas",
        "commas",
        {"tags": ["a", "b"]},
        ("/v1/commas?tags=a,b", "/v1/commas?tags=a%2Cb"),
    ),
    Case("a list with pipes", "pipes", {"tags": ["a", "b"]}, ("/v1/pipes?tags=a%7Cb",)),
    Case(
        "a deep object",
        "deep",
        {"box": {"lower": 1, "upper": 2}},
        ("/v1/deep?box%5Blower%5D=1&box%5Bupper%5D=2", "/v1/deep?box[lower]=1&box[upper]=2"),
    ),
    Case("a list in a header", "header", {"X-Ids": ["a", "b"]}, ("a,b", "a, b"), "x-ids"),
    Case(
        "a form",
        "form",
        {"name": "a b&c", "n": 1},
        ("name=a+b%26c&n=1", "name=a%20b%26c&n=1"),
        "body",
    ),
)
"""Calls with the request that the specification's table of styles has for them."""

_IN_PATH: dict[str, tuple[str, ...]] = {
    "..": (),
    "%2e%2e": ("/v1/item/%252e%252e", "/v1/item/%252E%252E"),
    "a/../../b": ("/v1/item/a%2F..%2F..%2Fb",),
    "a?x=1#f": ("/v1/item/a%3Fx%3D1%23f", "/v1/item/a%3Fx=1%23f"),
    "a\r\nX: 1": ("/v1/item/a%0D%0AX%3A%201", "/v1/item/a%0D%0AX:%201"),
    "\0": ("/v1/item/%00",),
}

HOSTILE = (
    *(
        Case(f"{value!r} in the path", "item", {"id": value}, right, may_refuse=True)
        for value, right in _IN_PATH.items()
    ),
    Case("'a&admin=1' in the query", "search", {"q": "a&admin=1"}, ("/v1/search?q=a%26admin%3D1",)),
    Case(
        "'a,b' in a list with commas",
        "commas",
        {"tags": ["a,b", "c"]},
        ("/v1/commas?tags=a%2Cb,c",),
    ),
)
"""Values that must not become another path, parameter, element or header: encoded, or refused."""


def verdict(case: Case, sent: dict[str, str] | str) -> str:
    """Return ``right`` or ``wrong`` for what was sent, or for the message of a refusal."""
    if isinstance(sent, str):
        return "right" if case.may_refuse else "wrong"
    return "right" if sent.get(case.place) in case.right else "wrong"
