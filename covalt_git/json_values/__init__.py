"""JSON values: canonical bytes, JSON Schema, pointers and differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

JsonObject = dict[str, Any]
"""A JSON object with any keys."""


def object_schema(properties: JsonObject, required: Sequence[str] | None = None) -> JsonObject:
    """Return the schema of an object with only these properties, by default all of them required."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties] if required is None else [*required],
        "additionalProperties": False,
    }
