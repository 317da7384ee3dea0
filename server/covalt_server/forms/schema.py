"""Flat schema of one part of a value, with references resolved and ``allOf`` merged.

Schemas come from third parties and may be invalid.  A keyword with a value of the wrong type is ignored here;
:mod:`covalt_git.json_values.json_schema` reports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from covalt_git.json_values import pointer
from covalt_git.json_values.keywords import list_at, object_at

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject

_MAX_PARTS = 200
"""Most references, parts of ``allOf`` and branches that are followed for one place."""


class Flattening:
    """Resolver of the references of one part, up to a limit."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._left = _MAX_PARTS

    def flat(self, schema: Any) -> JsonObject | None:
        """Return a schema with its references resolved and its ``allOf`` merged.

        None if a reference leads outside the document, in a circle, or beyond the limit.
        """
        # A schema of a few lines can refer to itself, or double its parts at each reference
        # (test_references_that_multiply_are_followed_to_a_limit).
        self._left -= 1
        if self._left < 0:
            return None
        if not isinstance(schema, dict):
            return {}
        # Its target depends on the references that led to it, which a flat schema no longer has.
        if "$dynamicRef" in schema:
            return None
        parts = list_at(schema, "allOf")
        if pointer.REF in schema:
            try:
                target = pointer.target(self._root, str(schema[pointer.REF]))
            except pointer.BadReferenceError:
                return None
            parts = [target, *parts]
        flat: JsonObject = {}
        for part in parts:
            more = self.flat(part)
            if more is None:
                return None
            flat = merged(flat, more)
        own = {key: value for key, value in schema.items() if key not in {pointer.REF, "allOf"}}
        return merged(flat, own)


def merged(under: JsonObject, over: JsonObject) -> JsonObject:
    """Merge two schemas: properties and required names of both, other keywords of the second one."""
    both = {**under, **over}
    if "properties" in under and "properties" in over:
        both["properties"] = {**object_at(under, "properties"), **object_at(over, "properties")}
    if "required" in under and "required" in over:
        both["required"] = [*list_at(under, "required"), *list_at(over, "required")]
    return both


def types_of(schema: JsonObject) -> list[str]:
    """Return the types that a schema names; a schema with ``properties`` is one of objects."""
    named = schema.get("type", "object" if "properties" in schema else [])
    names = named if isinstance(named, list) else [named]
    return [name for name in names if isinstance(name, str)]
