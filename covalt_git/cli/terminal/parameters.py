"""Parameters of a tool with their types, limits, defaults and nested fields, for ``tool show``."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from covalt_git.json_values import pointer
from covalt_git.json_values.limits_in_words import limits_in_words
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.json_values import JsonObject

_MAX_DEPTH = 4
_MAX_BRANCHES = 8
_MAX_FIELDS = 200
"""Limits of the output, because a schema can be recursive."""


class ParameterLine(NamedTuple):
    """One line: a parameter, or at a ``depth`` above 0 a field within one."""

    name: str
    kind: str
    needed: str
    description: str
    depth: int


def parameters(schema: JsonObject) -> Iterator[ParameterLine]:
    """Yield the parameters of a tool's schema, each before the fields within it."""
    return islice(_fields(schema, schema, 0), _MAX_FIELDS)


def _fields(root: JsonObject, schema: JsonObject, depth: int) -> Iterator[ParameterLine]:
    required = schema.get("required", [])
    for name, written in schema.get("properties", {}).items():
        part = _resolved(root, written)
        own = written if isinstance(written, dict) else {}
        text = str(own.get("description", part.get("description", "")))
        needed = "required" if name in required else f"optional{_default(own)}"
        yield ParameterLine(name, _kind(root, part), needed, text, depth)
        for inner in _objects(root, part) if depth < _MAX_DEPTH else ():
            yield from _fields(root, inner, depth + 1)


def _objects(root: JsonObject, schema: JsonObject, steps: int = 0) -> Iterator[JsonObject]:
    """Yield the object schemas of a value, of its items, and of the branches of its union."""
    if "properties" in schema:
        yield schema
    elif steps < _MAX_DEPTH:
        for inner in (*_branches(schema), schema.get("items")):
            yield from _objects(root, _resolved(root, inner), steps + 1)


def _kind(root: JsonObject, schema: JsonObject, steps: int = 0) -> str:
    if values := schema.get("enum"):
        return shorten(" | ".join(map(str, values)))
    branches, kinds = _branches(schema), schema.get("type", "any")
    if steps < _MAX_DEPTH and branches:
        parts = [_kind(root, _resolved(root, branch), steps + 1) for branch in branches]
        return " or ".join(dict.fromkeys(parts))
    kinds = kinds if isinstance(kinds, list) else [kinds]
    words = " or ".join(f"{kind}{_limits(schema, str(kind))}" for kind in kinds)
    if steps < _MAX_DEPTH and kinds == ["array"] and "items" in schema:
        return f"{words} of {_kind(root, _resolved(root, schema['items']), steps + 1)}"
    return words


def _limits(schema: JsonObject, kind: str) -> str:
    words = ", ".join(map(shorten, limits_in_words(schema, kind)))
    return f" ({words})" if words else ""


def _default(schema: JsonObject) -> str:
    value = schema.get("default")
    return "" if value is None else f", default: {shorten(json.dumps(value, ensure_ascii=False))}"


def _branches(schema: JsonObject) -> list[Any]:
    return [*schema.get("anyOf", []), *schema.get("oneOf", [])][:_MAX_BRANCHES]


def _resolved(root: JsonObject, schema: Any) -> JsonObject:
    with suppress(pointer.BadReferenceError):
        schema = pointer.resolve(root, schema)
    return schema if isinstance(schema, dict) else {}
