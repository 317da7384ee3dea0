"""The values that an argument of a call can have for the tool: what the call has, or else a default.

A caller chooses the form of the arguments.  So a rule that requires approval must match a value that the tool takes
from a list, from an object, or from the default of a missing argument.  Python also parses: a UUID or a date has many
spellings, and a text can become a number.  Where the value that a function gets is not known, it counts as any value.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from covalt_git.json_values.subschemas import Subschemas

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from covalt_git.json_values import JsonObject
    from covalt_git.models.tool import Tool

MISSING: Final = object()
"""In place of the value of an argument that a call does not have."""

ANY_VALUE: Final = object()
"""In place of a value that Python computes: a default, as in ``path: Path = Path("a")``, or what a type parses."""

_MAX_INDEX_DIGITS = 9
_ANNOTATIONS: Final = frozenset({"title", "description", "default", "examples"})
"""Keys of a schema that permit every value."""

_SPELLED_AS_WRITTEN: Final = frozenset({"path"})
"""Formats of texts that Python does not parse, or whose spellings are compared elsewhere."""

_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def value_at(args: JsonObject, path: str) -> Any:
    """Return the value of the arguments at a dotted path of keys and list indexes, or ``MISSING``."""
    value: Any = args
    for name in path.split("."):
        value = _part(value, name)
    return value


def possible_values(tool: Tool, args: JsonObject, path: str) -> Iterator[Any]:
    """Yield every value that a tool may find at a dotted path of its arguments, and the values inside of each.

    A name on the path also means that part of each item of a list.  The keys of objects count as values.

    Raises:
        BadReferenceError: if a missing argument may have a default in a schema that cannot be followed.
    """
    names = path.split(".")
    for schema in (tool.input_schema, tool.function_schema):
        if schema is not None:
            is_of_function = tool.kind == "python" and (
                schema is tool.function_schema or not tool.schema_is_declared
            )
            yield from _Values(schema, is_of_function=is_of_function).at(args, names)


def _part(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return value.get(name, MISSING)
    if isinstance(value, list) and _is_index(name) and int(name) < len(value):
        return value[int(name)]
    return MISSING


def _is_index(name: str) -> bool:
    return name.isascii() and name.isdigit() and len(name) <= _MAX_INDEX_DIGITS


class _Values:
    """Walks through arguments and their schemas at once."""

    def __init__(self, root: JsonObject, *, is_of_function: bool) -> None:
        self._subschemas = Subschemas(root)
        self._is_of_function = is_of_function
        # Each default is looked into once: that of a recursive schema may contain itself.
        self._expanded: set[tuple[int, int]] = set()
        self._args: JsonObject = {}

    def at(self, args: JsonObject, names: Sequence[str]) -> Iterator[Any]:
        """Yield the values at a path of the arguments, and those inside of each."""
        self._args = args
        return self._at(args, self._subschemas.of_all(), names)

    def _at(self, value: Any, schemas: Sequence[JsonObject], names: Sequence[str]) -> Iterator[Any]:
        if not names:
            yield from self._inside(value, schemas)
            return
        name, rest = names[0], names[1:]
        if self._is_of_function and isinstance(value, str):  # such as the JSON text of a model
            yield from (part for part in _parsed(value, schemas) if part is ANY_VALUE)
        if isinstance(value, list) and not _is_index(name):
            for item, of_item in self._items(value, schemas):
                yield from self._at(item, of_item, names)
            return
        part, of_part = _part(value, name), self._subschemas.below(schemas, name)
        if part is not MISSING:
            yield from self._at(part, of_part, rest)
        elif value is MISSING or isinstance(value, dict):
            if self._is_of_function and value is not self._args and _says_nothing(schemas):
                yield ANY_VALUE
            yield from self._defaults(schemas, name, of_part, rest)

    def _inside(self, value: Any, schemas: Sequence[JsonObject]) -> Iterator[Any]:
        if value is MISSING:
            return
        yield value
        if self._is_of_function and value is not self._args:
            yield from _parsed(value, schemas)
        if isinstance(value, list):
            for item, of_item in self._items(value, schemas):
                yield from self._inside(item, of_item)
        elif isinstance(value, dict):
            for key, part in value.items():
                yield key
                yield from self._inside(part, self._subschemas.below(schemas, key))
            for name in _properties(schemas) - value.keys():
                yield from self._defaults(schemas, name, self._subschemas.below(schemas, name), ())

    def _items(
        self, value: list[Any], schemas: Sequence[JsonObject]
    ) -> Iterator[tuple[Any, Sequence[JsonObject]]]:
        """Yield each item with its schemas, which are looked up once for all items that have the same."""
        lists = (one.get(key, ()) for one in schemas for key in ("prefixItems", "items"))
        ends = max((len(one) for one in lists if isinstance(one, list)), default=0)
        rest = self._subschemas.below(schemas, str(ends))
        for position, item in enumerate(value):
            yield (
                item,
                self._subschemas.below(schemas, str(position)) if position < ends else rest,
            )

    def _defaults(
        self,
        schemas: Sequence[JsonObject],
        name: str,
        of_part: Sequence[JsonObject],
        rest: Sequence[str],
    ) -> Iterator[Any]:
        """Yield the values of a missing property, or the values at ``rest`` below it."""
        stating = [one for one in of_part if "default" in one]
        for one in stating:
            if (id(one), len(rest)) not in self._expanded:
                self._expanded.add((id(one), len(rest)))
                yield from self._at(one["default"], of_part, rest)
        if self._is_of_function and not stating and _is_optional(schemas, name):
            yield ANY_VALUE
        elif rest:
            yield from self._at(MISSING, of_part, rest)


def _says_nothing(schemas: Sequence[JsonObject]) -> bool:
    """Return whether the type of a declared parameter is unknown, so that it may take a value under another name."""
    return bool(schemas) and not any(schema.keys() - _ANNOTATIONS for schema in schemas)


def _parsed(value: Any, schemas: Sequence[JsonObject]) -> Iterator[Any]:
    """Yield what a Python function may get for a value other than the value itself, by the schemas of its parameter."""
    if any(not schema.keys() - _ANNOTATIONS for schema in schemas):
        yield ANY_VALUE  # a type that was not read, such as one with a validator
        return
    types = {name for one in schemas for name in _listed(one.get("type"))}
    if types and not types & _types_of(value):
        yield ANY_VALUE  # Python converts it to one of these types
        return
    formats = {one["format"] for one in schemas if isinstance(one.get("format"), str)}
    if isinstance(value, str):
        for name in formats - _SPELLED_AS_WRITTEN:
            yield from _spellings(value, name)


def _spellings(text: str, name: str) -> Iterator[Any]:
    """Yield the other spellings of a text with a format; any value if they are not known."""
    if name == "uuid":
        try:
            uuid = UUID(text)
        except ValueError:
            yield ANY_VALUE
        else:
            yield from (str(uuid), str(uuid).upper(), uuid.hex, uuid.hex.upper())
    elif name != "date" or not _DATE.fullmatch(text):
        yield ANY_VALUE


def _listed(types: Any) -> list[str]:
    return [types] if isinstance(types, str) else types if isinstance(types, list) else []


def _types_of(value: Any) -> set[str]:
    """Return the types of JSON Schema that a value has."""
    match value:
        case None:
            return {"null"}
        case bool():
            return {"boolean"}
        case int():
            return {"integer", "number"}
        case float():
            return {"integer", "number"} if value.is_integer() else {"number"}
        case str():
            return {"string"}
        case list():
            return {"array"}
        case _:
            return {"object"}


def _properties(schemas: Iterable[JsonObject]) -> set[str]:
    return {
        name
        for one in schemas
        if isinstance(one.get("properties"), dict)
        for name in one["properties"]
    }


def _is_optional(schemas: Iterable[JsonObject], name: str) -> bool:
    """Return whether a property is declared and may be missing."""
    return name in _properties(schemas) and not any(
        name in one.get("required", ()) for one in schemas
    )
