"""Order of the keys of a value: that of the properties in its JSON Schema.

Stored values are canonical JSON, whose keys are sorted.  The author of a tool has declared the properties in the order in
which people read them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from covalt_git.json_values import pointer

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNIONS = ("allOf", "anyOf", "oneOf")

_MOST_PARTS = 100
"""Parts of a schema, such as members of a union, in which the properties of an object are searched."""

_DEEPEST = 50
"""Levels of a value that are ordered: a schema can refer to itself, and a value can be as deep as its tool likes."""


class _Shape(NamedTuple):
    """The schemas of the parts of a value: by property, of other properties, and of items; None if unknown."""

    properties: dict[str, Any]
    others: Any
    items: Any


def in_order(value: Any, schema: Any) -> Any:
    """Return an equal value whose objects have their keys in the order of the schema; other keys follow as they are."""
    return _SchemaOrder(schema).apply(value, schema, 0)


class _SchemaOrder:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._shapes: dict[int, _Shape] = {}

    def apply(self, value: Any, schema: Any, depth: int) -> Any:
        if not isinstance(value, (dict, list)) or not isinstance(schema, dict) or depth > _DEEPEST:
            return value
        shape = self._shapes.get(id(schema)) or self._shape(schema)
        if isinstance(value, list):
            if shape.items is None:
                return value
            return [self.apply(item, shape.items, depth + 1) for item in value]
        names = [name for name in shape.properties if name in value]
        names += [name for name in value if name not in shape.properties]
        return {
            name: self.apply(value[name], shape.properties.get(name, shape.others), depth + 1)
            for name in names
        }

    def _shape(self, schema: dict[str, Any]) -> _Shape:
        properties: dict[str, Any] = {}
        others = items = None
        for part in self._parts(schema):
            if isinstance(part.get("properties"), dict):
                # A member of a union can repeat a property of the schema. Its place is where the author wrote it first.
                properties = properties | {
                    name: inner
                    for name, inner in part["properties"].items()
                    if name not in properties
                }
            others = part.get("additionalProperties") if others is None else others
            items = part.get("items") if items is None else items
        self._shapes[id(schema)] = shape = _Shape(properties, others, items)
        return shape

    def _parts(self, schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield a schema, the target of its reference, and the members of its unions, each once."""
        waiting: list[Any] = [schema]
        visited: set[int] = set()
        while waiting and len(visited) < _MOST_PARTS:
            part = waiting.pop(0)
            if not isinstance(part, dict) or id(part) in visited:
                continue
            visited.add(id(part))
            yield part
            if (reference := pointer.reference_of(part)) is not None:
                try:
                    waiting.append(pointer.target(self._root, reference))
                except pointer.BadReferenceError:
                    continue
            for union in _UNIONS:
                if isinstance(part.get(union), list):
                    waiting += part[union]
