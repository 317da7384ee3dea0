"""Shapes of documents: a short notation for the JSON Schemas that they are checked against.

A shape is a type (``str``), a tuple of allowed texts, a list with the shape of its items, or an object.
A key of an object that ends with ``!`` is required; the key ``str`` has the shape of all values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.json_values import JsonObject
    from covalt_git.json_values.pointer import Loc

_TYPES: Final = {str: "string", bool: "boolean", int: "integer", dict: "object", list: "array"}


class Schema(NamedTuple):
    """A JSON Schema inside a shape, for rules that the notation does not have."""

    value: JsonObject


TEXT: Final = Schema({"type": "string", "minLength": 1})
"""The shape of a text that is not empty."""


def schema_of(shape: Any) -> JsonObject:
    """Return the JSON Schema of a shape."""
    if isinstance(shape, Schema):
        return shape.value
    if isinstance(shape, tuple):
        return {"enum": list(shape)}
    if isinstance(shape, list):
        return {"type": "array", "items": schema_of(shape[0])}
    if not isinstance(shape, dict):
        return {"type": _TYPES[shape]}
    if str in shape:
        return {"type": "object", "additionalProperties": schema_of(shape[str])}
    properties = {key.removesuffix("!"): schema_of(inner) for key, inner in shape.items()}
    required = [key[:-1] for key in shape if key.endswith("!")]
    return {"type": "object", "required": required, "properties": properties}


def has_servers_at(document: Any, path: Sequence[str]) -> bool:
    """Return whether a document has an object of servers at a path, and not one server with the last key as its name."""
    for key in path:
        document = document.get(key) if isinstance(document, dict) else None
    # The type of a server, its command and its URL are no objects.
    return isinstance(document, dict) and not any(
        isinstance(document.get(key), str | list) for key in ("type", "command", "url")
    )


def are_objects(items: Any, *keys: str) -> bool:
    """Return whether a value is a list of objects that have these keys."""
    return isinstance(items, list) and all(
        isinstance(item, dict) and item.keys() >= set(keys) for item in items
    )


def duplicates(value: JsonObject, path: tuple[str, ...], loc: Loc = ()) -> list[tuple[Loc, str]]:
    """Return the place and a message for each repeated text that must be unique.

    ``path`` leads through lists: ``("toolsets", "tools", "name")`` are the names of the tools of each toolset.
    """
    first, *rest = path
    items = list(enumerate(value.get(first, ())))
    if len(rest) > 1:
        inner = [duplicates(item, tuple(rest), (*loc, first, at)) for at, item in items]
        return [problem for problems in inner for problem in problems]
    (key,) = rest
    seen: dict[str, int] = {}
    return [
        ((*loc, first, at, key), f"the {key} {item[key][:60]!r} is used twice")
        for at, item in items
        if seen.setdefault(item[key], at) != at
    ]
