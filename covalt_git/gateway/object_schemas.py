"""Schemas of the objects that the gateway's own tools and the built-in ones take and give."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covalt_git.json_values import JsonObject


def object_schema(properties: JsonObject, required: Sequence[str] | None = None) -> JsonObject:
    """Return the schema of an object with these properties and no others; without ``required``, all are."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties] if required is None else [*required],
        "additionalProperties": False,
    }
