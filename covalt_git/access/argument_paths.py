"""Paths of arguments in rules: keys and list indexes with dots between them, or in them.

A key can have dots itself, as the argument ``a.b`` of a search API.  So a path has several readings: ``a.b`` is that key,
and the key ``b`` in the argument ``a``.  Only keys that a schema declares or a call has are read so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from covalt_git.json_values.pointer import BadReferenceError
from covalt_git.json_values.subschemas import Subschemas

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from covalt_git.json_values import JsonObject
    from covalt_git.models.tool import Tool

    Names = tuple[str, ...]


def readings(path: str, keys: Collection[str] = ()) -> list[Names]:
    """Return the keys and indexes that a path means, with the reading at each dot first.

    ``keys`` are the keys that can have dots; others are divided.
    """
    return list(_readings(path.split("."), keys))


def _readings(parts: Sequence[str], keys: Collection[str]) -> Iterator[Names]:
    if not parts:
        yield ()
    for end in range(1, len(parts) + 1):
        name = ".".join(parts[:end])
        if end == 1 or name in keys:
            yield from ((name, *rest) for rest in _readings(parts[end:], keys))


def readings_of(tool: Tool, path: str) -> list[Names]:
    """Return the readings of a path that the schemas of a tool declare; all of them if it declares none."""
    if "." not in path:
        return [(path,)]
    every = readings(path, keys_with_dots(*schemas_of(tool)))
    if len(every) == 1:
        return every
    declared = [names for names in every if any(_declares(one, names) for one in schemas_of(tool))]
    return declared or every


def schemas_of(tool: Tool) -> list[JsonObject]:
    """Return the schemas of the arguments of a tool: the listed one, and that of its function."""
    return [schema for schema in (tool.input_schema, tool.function_schema) if schema is not None]


def keys_with_dots(*values: Any) -> set[str]:
    """Return the keys with dots anywhere in JSON values or schemas, also in lists of names."""
    keys: set[str] = set()
    waiting: list[Any] = [*values]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            keys.update(key for key in value if "." in key)
            waiting += value.values()
        elif isinstance(value, list):
            keys.update(item for item in value if isinstance(item, str) and "." in item)
            waiting += [item for item in value if isinstance(item, dict | list)]
    return keys


def _declares(schema: JsonObject, names: Names) -> bool:
    try:
        subschemas = Subschemas(schema)
        parts = subschemas.of_all()
        for name in names:
            if not any(name in part.get("properties", ()) for part in parts) and not name.isdigit():
                return False
            parts = subschemas.below(parts, name)
    except BadReferenceError:
        return True
    return bool(parts)
