"""The schemas that apply to a part of a value, wherever a JSON Schema has them.

A schema applies if it could apply: of ``anyOf``, ``if`` or ``patternProperties``, each schema counts, and keywords
beside ``$ref`` do too.  So a mark in any of them is found, which is what checks of a call need.  ``true`` is ``{}``:
both say that there is a value, and nothing about it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from covalt_git.json_values import pointer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from covalt_git.json_values import JsonObject

_ANYTHING: Final[dict[str, Any]] = {}
"""The schema that means the same as ``true``.  It is one object, because schemas are told apart by their identity."""

_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLE = ("if", "then", "else", "not")
_BY_NAME = ("dependentSchemas", "dependencies")
_OF_OTHER_KEYS = ("additionalProperties", "unevaluatedProperties")
_OF_ITEMS = ("items", "additionalItems", "unevaluatedItems", "contains")


class Subschemas:
    """The schemas of one document."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root

    def of_all(self) -> list[JsonObject]:
        """Return the schemas that apply to all of a value.

        Raises:
            BadReferenceError: if a reference cannot be followed.
        """
        return self._with_parts([self._root])

    def below(self, schemas: Iterable[JsonObject], name: str) -> list[JsonObject]:
        """Return the schemas of the property or item ``name`` of a value to which ``schemas`` apply.

        Raises:
            BadReferenceError: if a reference cannot be followed.
        """
        return self._with_parts([inner for schema in schemas for inner in _below(schema, name)])

    def of_names(self, schemas: Iterable[JsonObject]) -> list[JsonObject]:
        """Return the schemas of the keys of a value to which ``schemas`` apply.

        Raises:
            BadReferenceError: if a reference cannot be followed.
        """
        keyed = [schema for schema in schemas if "propertyNames" in schema]
        return self._with_parts([schema["propertyNames"] for schema in keyed])

    def _with_parts(self, schemas: list[Any]) -> list[JsonObject]:
        """Return schemas, and the schemas in them that apply to the same value."""
        reached: dict[int, JsonObject] = {}
        waiting = list(reversed(schemas))
        while waiting:
            schema = waiting.pop()
            if schema is True:
                schema = _ANYTHING
            if not isinstance(schema, dict) or id(schema) in reached:  # references can be a circle
                continue
            # What these lead to cannot be known here.  Callers then assume the strictest schema, such as that of a command.
            if "$dynamicRef" in schema or "$recursiveRef" in schema:
                raise pointer.BadReferenceError("a dynamic reference can lead to several schemas")
            if "$id" in schema and schema is not self._root:
                raise pointer.BadReferenceError("references in a schema with $id begin there")
            reached[id(schema)] = schema
            waiting += _alternatives(schema)
            reference = schema.get(pointer.REF)
            if reference is not None:
                waiting.append(pointer.target(self._root, str(reference)))
        return list(reached.values())


def _alternatives(schema: JsonObject) -> Iterator[Any]:
    """Yield the schemas in a schema that apply to the same value."""
    for key in _LISTS:
        inner = schema.get(key)
        yield from inner if isinstance(inner, list) else ()
    for key in _SINGLE:
        yield schema.get(key)
    for key in _BY_NAME:
        inner = schema.get(key)
        yield from inner.values() if isinstance(inner, dict) else ()


def _below(schema: JsonObject, name: str) -> Iterator[Any]:
    """Yield the schemas in a schema that apply to a property or an item."""
    properties = schema.get("properties")
    if isinstance(properties, dict) and name in properties:
        yield properties[name]
    else:
        yield from (schema.get(key) for key in _OF_OTHER_KEYS)
    patterns = schema.get("patternProperties")
    yield from patterns.values() if isinstance(patterns, dict) else ()
    if not name.isdecimal():
        return
    for key in ("prefixItems", *_OF_ITEMS):
        inner = schema.get(key)
        # A list has a schema for each position; before draft 2020-12, `items` may be one.
        items = enumerate(inner) if isinstance(inner, list) else [(name, inner)]
        yield from (item for position, item in items if str(position) == name)
