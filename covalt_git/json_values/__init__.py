"""JSON values: canonical bytes, JSON Schema, pointers and differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

JsonObject = dict[str, Any]
"""A JSON object with any keys."""


def with_texts(value: Any, change: Callable[[str], str], *, keys: bool = False) -> Any:
    """Return a JSON value with each text replaced by ``change(text)``; with ``keys``, also the keys of objects."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {
            change(key) if keys else key: with_texts(one, change, keys=keys)
            for key, one in value.items()
        }
    return (
        [with_texts(one, change, keys=keys) for one in value] if isinstance(value, list) else value
    )


def object_schema(properties: JsonObject, required: Sequence[str] | None = None) -> JsonObject:
    """Return the schema of an object with only these properties, by default all of them required."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties] if required is None else [*required],
        "additionalProperties": False,
    }
