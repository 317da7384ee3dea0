"""The values that an argument of a call can have for the tool: what the call has, or else a default.

A caller chooses the form of the arguments.  So a rule that requires approval must match a value that the tool takes
from a list, from an object, or from the default of a missing argument.  Python also parses: a UUID or a date has many
spellings, and a text can become a number.  So can the keys of a ``dict[UUID, str]``.  A field of a model can have several
names.  Where the value that a function gets is not known, it counts as any value.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from covalt_git.json_values.pointer import BadReferenceError
from covalt_git.json_values.subschemas import Subschemas
from covalt_git.models.tool_properties import SAME_NAMES_SCHEMA, UNREAD_SCHEMA
from covalt_git.paths import normal_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from covalt_git.json_values import JsonObject
    from covalt_git.models.tool import Tool

    _Places = Sequence[Sequence[JsonObject]]

MISSING: Final = object()
"""In place of the value of an argument that a call does not have."""

ANY_VALUE: Final = object()
"""In place of a value that Python computes: a default, as in ``path: Path = Path("a")``, or what a type parses."""

_MAX_INDEX_DIGITS = 9
_ANNOTATIONS: Final = frozenset({"title", "description", "default", "examples"})
"""Keys of a schema that permit every value."""

_OF_A_TEXT: Final = _ANNOTATIONS | {"type", "format", "minLength", "maxLength"}
"""Keywords in the schema of an object's keys with which Python reads each key as text, or in spellings that are known.

With another keyword, such as a pattern, Python may read numbers: JSON has the keys of a ``dict[int, str]`` as texts.
"""

_KINDS: Final = frozenset({"type", "enum", "const"})
"""Keys of a schema that say which values Python takes as they are."""

_SPELLED_AS_WRITTEN: Final = frozenset({"path", "file-path", "directory-path"})
"""Formats of texts that Python does not parse, or whose spellings are compared elsewhere."""

_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def value_at(args: Any, names: Sequence[str]) -> Any:
    """Return the value of the arguments at keys and list indexes, or ``MISSING``."""
    value = args
    for name in names:
        value = _part(value, name)
    return value


def possible_values(
    tool: Tool, args: JsonObject, names: Sequence[str], *, compares_parts: bool
) -> Iterator[Any]:
    """Yield every value that a tool may find at a path of its arguments, and the values inside of each.

    A name on the path also means that part of each item of a list.  The keys of objects count as values.  With
    ``compares_parts``, the values are compared with lists and objects.

    Raises:
        BadReferenceError: if a missing argument may have a default in a schema that cannot be followed.
    """
    for schema, is_of_function in _schemas(tool):
        values = _Values(schema, is_of_function=is_of_function, compares_parts=compares_parts)
        yield from values.at(args, names)


def may_get_another(tool: Tool, args: JsonObject, names: Sequence[str]) -> bool:
    """Return whether a Python function may not get the value that the arguments have at a path.

    It may get that of another key: of ``{"7": "a", "07": "b"}``, a function that takes a ``dict[int, str]`` gets only the
    last value; a model may take a field by its alias and by its name.  Of a type that was not read, any key of an
    object may be such a name.  It gets none if a model ignores the key.
    """
    try:
        return any(
            _Values(schema, is_of_function=is_of_function).may_get_another(args, names)
            for schema, is_of_function in _schemas(tool)
        )
    except BadReferenceError:  # a schema that cannot be followed waives nothing in an object
        return len(names) > 1


def _schemas(tool: Tool) -> Iterator[tuple[JsonObject, bool]]:
    """Yield the schemas of a tool, and whether each has the types of a Python function."""
    is_python = tool.kind == "python"
    if tool.function_schema is not None:
        yield tool.function_schema, is_python
    # A declared schema hides the defaults of its function, so both are walked through.
    if tool.function_schema is None or tool.schema_is_declared:
        yield tool.input_schema, is_python and not tool.schema_is_declared


def _part(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return value.get(name, MISSING)
    if isinstance(value, list) and _is_index(name) and int(name) < len(value):
        return value[int(name)]
    return MISSING


def _is_index(name: str) -> bool:
    # int() refuses "²" and 5,000 digits, which str.isdigit() accepts.
    return name.isascii() and name.isdigit() and len(name) <= _MAX_INDEX_DIGITS


class _Values:
    """Walks through arguments and their schemas at once.

    A value has the schemas of several places if the members of a union state it.  Each place counts by itself, because
    the function gets what one of the members makes of the value.
    """

    def __init__(
        self, root: JsonObject, *, is_of_function: bool, compares_parts: bool = False
    ) -> None:
        self._subschemas = Subschemas(root)
        self._is_of_function = is_of_function
        self._compares_parts = compares_parts
        # Each default is expanded once, because the default of a recursive schema may contain itself.
        self._expanded: set[tuple[int, int]] = set()
        self._parts: dict[tuple[int, str], Sequence[JsonObject]] = {}
        self._args: JsonObject = {}

    def at(self, args: JsonObject, names: Sequence[str]) -> Iterator[Any]:
        """Yield the values at a path of the arguments, and those inside of each."""
        self._args = args
        return self._at(args, [self._subschemas.of_all()], names)

    def may_get_another(self, args: JsonObject, names: Sequence[str]) -> bool:
        """Return whether Python may read another key as a name on a path, or ignore the one on the path."""
        value: Any = args
        places: _Places = [self._subschemas.of_all()]
        is_unread = False
        for name in names:
            places = self._taking(value, places)
            is_unread = is_unread or (self._is_of_function and _is_unread(_all(places)))
            if isinstance(value, dict):
                others = any(self._other_names(value, places, name))
                # The names of parameters are known: a call checks them.
                if others or (
                    value is not args
                    and ((is_unread and value.keys() != {name}) or self._ignores(places, name))
                ):
                    return True
            value, places = _part(value, name), self._below(places, name)
        return False

    def _taking(self, value: Any, places: _Places) -> _Places:
        """Return places without the members of a union that take no such object."""
        if not self._is_of_function or not isinstance(value, dict):
            return places
        return [[schema for schema in schemas if not _refuses(schema, value)] for schemas in places]

    def _ignores(self, places: _Places, name: str) -> bool:
        """Return whether a model that may take an object ignores a key."""
        return self._is_of_function and any(
            isinstance(schema.get("properties"), dict)
            and name not in schema["properties"]
            and "additionalProperties" not in schema
            for schema in _all(places)
        )

    def _below(self, places: _Places, name: str) -> _Places:
        """Return the schemas of a property or an item, by the schemas that state it."""
        parts: dict[tuple[int, ...], Sequence[JsonObject]] = {}
        for schema in _all(places):
            inner = self._part_of(schema, name)
            if inner:
                parts[tuple(map(id, inner))] = inner
        return list(parts.values())

    def _part_of(self, schema: JsonObject, name: str) -> Sequence[JsonObject]:
        """Return the schemas that one schema states for a property or an item."""
        # The members of a union refer to the same classes: without this table, a large list of such models takes five
        # times as long.
        key = (id(schema), name)
        if key not in self._parts:
            self._parts[key] = self._subschemas.below([schema], name)
        return self._parts[key]

    def _at(self, value: Any, places: _Places, names: Sequence[str]) -> Iterator[Any]:
        if not names:
            yield from self._inside(value, places)
            return
        places = self._taking(value, places)
        name, rest = names[0], names[1:]
        if self._may_become_any(value, places):
            yield ANY_VALUE
            return
        if isinstance(value, list) and not _is_index(name):
            if self._is_of_function and any("prefixItems" in schema for schema in _all(places)):
                yield ANY_VALUE  # the fields of a named tuple have names, which the schema does not
            for item, of_item in self._items(value, places):
                yield from self._at(item, of_item, names)
            return
        if isinstance(value, list) and int(name) >= len(value) and self._is_of_function:
            yield from self._missing_item(places, int(name), rest)
            return
        if isinstance(value, dict):
            for key in self._other_names(value, places, name):
                yield from self._at(value[key], self._below(places, key), rest)
        part = _part(value, name)
        if part is not MISSING:
            yield from self._at(part, self._below(places, name), rest)
        if value is MISSING or isinstance(value, dict):
            yield from self._defaults(value, places, name, rest)

    def _may_become_any(self, value: Any, places: _Places) -> bool:
        """Return whether Python may make any value of a value, such as of the JSON text of a model.

        A list may become an object too: the fields of a named tuple have names and positions.  Of a function whose
        signature was not read, no argument and no default is known.
        """
        if not self._is_of_function:
            return False
        if value is self._args or value is MISSING:
            return _is_unread(_all(places))
        return any(part is ANY_VALUE for schemas in places for part in _parsed(value, schemas))

    def _other_names(self, value: JsonObject, places: _Places, name: str) -> Iterator[str]:
        """Yield the other keys of an object that Python may read as a name."""
        of_names = self._of_names(places)
        same = self._same_names(places, name)
        for key in value if of_names or len(same) > 1 else ():
            if key == name:
                continue
            spellings = {key, *_parsed_key(key, of_names)} if of_names else set()
            paths = {normal_path(spelling) for spelling in spellings if isinstance(spelling, str)}
            if key in same or ANY_VALUE in spellings or normal_path(name) in paths:
                yield key

    def _of_names(self, places: _Places) -> Sequence[JsonObject]:
        return self._subschemas.of_names(_all(places)) if self._is_of_function else ()

    def _same_names(self, places: _Places, name: str) -> set[str]:
        """Return the names under which a function takes the same value as under one name, and that name."""
        if not self._is_of_function:
            return {name}
        return {name}.union(*(_names_of(schema, name) for schema in _all(places)))

    def _inside(self, value: Any, places: _Places) -> Iterator[Any]:
        if value is MISSING:
            return
        yield value
        places = self._taking(value, places)
        if self._is_of_function:
            for schemas in places:
                yield from self._spelled(_parsed(value, schemas))
        if self._is_of_function and self._compares_parts and _is_completed(value, places):
            yield ANY_VALUE
        if isinstance(value, list):
            for item, of_item in self._items(value, places):
                yield from self._inside(item, of_item)
            for position in range(len(value), _most_items(_all(places))):
                yield from self._missing_item(places, position, ())
        elif isinstance(value, dict):
            of_names = self._of_names(places)
            for key, part in value.items():
                yield from self._same_names(places, key)
                if of_names:
                    yield from self._spelled(_parsed_key(key, of_names))
                yield from self._inside(part, self._below(places, key))
            for name in _properties(_all(places)):
                yield from self._defaults(value, places, name, ())

    def _spelled(self, parsed: Iterator[Any]) -> Iterator[Any]:
        """Yield what Python may get for a value; any value if it is compared as a part of a list or an object."""
        for value in parsed:
            yield ANY_VALUE if self._compares_parts else value

    def _items(self, value: list[Any], places: _Places) -> Iterator[tuple[Any, _Places]]:
        """Yield each item with its schemas, which are looked up once for all items that have the same."""
        ends = _most_items(_all(places))
        rest = self._below(places, str(ends))
        for position, item in enumerate(value):
            yield item, self._below(places, str(position)) if position < ends else rest

    def _missing_item(self, places: _Places, position: int, rest: Sequence[str]) -> Iterator[Any]:
        """Yield the default of a field of a named tuple that a list does not have; any value if it is unknown."""
        if not self._is_of_function:
            return
        for schema in _all(places):
            if position >= _most_items([schema]):
                continue
            of_part = self._part_of(schema, str(position))
            stating = [part for part in of_part if "default" in part]
            for part in stating:
                yield from self._at(part["default"], [of_part], rest)
            if not stating:
                yield ANY_VALUE

    def _defaults(
        self, value: Any, places: _Places, name: str, rest: Sequence[str]
    ) -> Iterator[Any]:
        """Yield the values of a property that an object does not have, or the values at ``rest`` below it.

        ``value`` is the object, or ``MISSING``.  Each schema states its own defaults: in a union of models, one may
        compute what another one states or requires.
        """
        keys = value if isinstance(value, dict) else {}
        for schema in _all(places):
            if not self._part_of(schema, name):
                continue
            names = _names_of(schema, name) if self._is_of_function else {name}
            declared = sorted(names & _properties([schema]))
            if not names.isdisjoint(keys):
                continue
            for key in declared or [name]:
                of_part = self._part_of(schema, key)
                yield from self._stated(of_part, rest)
            if not declared:
                if rest and not self._is_of_function:
                    yield from self._at(MISSING, self._below([[schema]], name), rest)
                continue
            is_stated = any("default" in part for part in _own_parts(schema, declared))
            if self._is_of_function and not is_stated and names.isdisjoint(_required(schema)):
                yield ANY_VALUE
            elif rest:
                yield from self._at(MISSING, self._below([[schema]], declared[0]), rest)

    def _stated(self, of_part: Sequence[JsonObject], rest: Sequence[str]) -> Iterator[Any]:
        """Yield the defaults that schemas of a property state, or the values at ``rest`` below them."""
        for schema in of_part:
            if "default" in schema and (id(schema), len(rest)) not in self._expanded:
                self._expanded.add((id(schema), len(rest)))
                yield from self._at(schema["default"], [of_part], rest)


def _all(places: _Places) -> list[JsonObject]:
    """Return the schemas of all places, each once: the members of a union refer to the same classes."""
    return list({id(schema): schema for schemas in places for schema in schemas}.values())


def _names_of(schema: JsonObject, name: str) -> set[str]:
    """Return the names of the field of a schema that a name is one of, and the name itself."""
    lists = schema.get(SAME_NAMES_SCHEMA, ())
    return {name}.union(*(names for names in lists if name in names))


def _own_parts(schema: JsonObject, names: Iterable[str]) -> list[JsonObject]:
    """Return the schemas of properties as an object states them, without those that they refer to."""
    parts = [schema["properties"][name] for name in names]
    return [part for part in parts if isinstance(part, dict)]


def _required(schema: JsonObject) -> Iterable[str]:
    names = schema.get("required", ())
    return names if isinstance(names, list) else ()


def _refuses(schema: JsonObject, value: JsonObject) -> bool:
    """Return whether a function takes no object with this schema: a tag of a union has another text."""
    for name, part in _dict(schema.get("properties")).items():
        text = value.get(name)
        if isinstance(text, str) and isinstance(part, dict) and _names_of(schema, name) == {name}:
            # Only literal texts: pydantic chooses the member of a union by such a tag, and the other members never
            # get the object.
            choices = part.get("enum", [part.get("const")])
            is_literal = isinstance(choices, list) and all(
                isinstance(choice, str) for choice in choices
            )
            if is_literal and text not in choices:
                return True
    return False


def _is_completed(value: Any, places: _Places) -> bool:
    """Return whether a function may get another object or list than that of the call.

    Pydantic fills missing fields in, ignores unknown keys, and gives a field the value of its alias.  A set has no order.
    """
    if isinstance(value, list):
        is_set = any(schema.get("uniqueItems") for schema in _all(places))
        return (is_set and len(value) > 1) or len(value) < _most_items(_all(places))
    return isinstance(value, dict) and any(
        value.keys() != _properties([schema]) or schema.get(SAME_NAMES_SCHEMA)
        for schema in _all(places)
        if _dict(schema.get("properties"))
    )


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _most_items(schemas: Iterable[JsonObject]) -> int:
    """Return the number of items of a list that have schemas of their own."""
    lists = (schema.get(key, ()) for schema in schemas for key in ("prefixItems", "items"))
    return max((len(items) for items in lists if isinstance(items, list)), default=0)


def _is_unread(schemas: Iterable[JsonObject]) -> bool:
    """Return whether the type of a parameter is unknown, so that Python may make any value of the one of the call."""
    return any(schema.get(UNREAD_SCHEMA) for schema in schemas)


def _parsed(value: Any, schemas: Sequence[JsonObject]) -> Iterator[Any]:
    """Yield what a Python function may get for a value other than the value itself, by the schemas of its parameter."""
    if _is_unread(schemas):
        yield ANY_VALUE
        return
    stating = [schema for schema in schemas if not _KINDS.isdisjoint(schema)]
    if stating and not any(_takes(schema, value) for schema in stating):
        yield ANY_VALUE  # Python converts it to one of these types or choices
        return
    formats = {schema["format"] for schema in schemas if isinstance(schema.get("format"), str)}
    if isinstance(value, str):
        for name in formats - _SPELLED_AS_WRITTEN:
            yield from _spellings(value, name)


def _parsed_key(key: str, of_names: Sequence[JsonObject]) -> Iterator[Any]:
    """Yield what a Python function may get for a key of an object other than the key itself."""
    says_nothing = any(not schema.keys() - _ANNOTATIONS for schema in of_names)
    if says_nothing or any(schema.keys() - _OF_A_TEXT for schema in of_names):
        yield ANY_VALUE
    else:
        yield from _parsed(key, of_names)


def _takes(schema: JsonObject, value: Any) -> bool:
    """Return whether a schema states the type, or the choice, that a value is."""
    types = _listed(schema.get("type"))
    choices = schema.get("enum", [schema["const"]] if "const" in schema else None)
    is_choice = not isinstance(choices, list) or any(
        # The type too, because True == 1 in Python: it would count as the choice 1.
        type(choice) is type(value) and choice == value
        for choice in choices
    )
    return is_choice and (not types or not _types_of(value).isdisjoint(types))


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
        for schema in schemas
        if isinstance(schema.get("properties"), dict)
        for name in schema["properties"]
    }
