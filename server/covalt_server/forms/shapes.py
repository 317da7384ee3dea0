"""Kinds of form fields: which field each part of a JSON value gets, from its JSON Schema.

Draft 2020-12, read leniently.  A union gets a text box for JSON, unless it is one type or null, or a list of
fixed values; so does a tuple, or an object with arbitrary keys.  This module does not validate values.  The
fields inside of a part are read on demand, because a schema may refer to itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from covalt_git.json_values.difference import same
from covalt_git.json_values.keywords import is_number, list_at, number_at, object_at, text_at
from covalt_server.forms.schema import Flattening, merged, types_of

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject

MAX_DEPTH = 12
"""Deepest nesting of fieldsets; deeper values are shown as JSON."""

_UNION = ("anyOf", "oneOf")
_OFFERING = {"type", "properties", "items", "enum", "const", *_UNION}
"""Keywords of a union's branch that define inputs, and not only validity."""


MISSING: Final = object()
"""Represents an omitted value; null is a value."""


class InputKind(StrEnum):
    """The kinds of fields."""

    TEXT = "text"
    LONG_TEXT = "long_text"
    NUMBER = "number"
    INTEGER = "integer"
    CHECKBOX = "checkbox"
    CHOICE = "choice"
    CHOICES = "choices"
    OBJECT = "object"
    LIST = "list"
    JSON = "json"


COMPOSITE = frozenset({InputKind.OBJECT, InputKind.LIST})
"""Kinds that contain other fields; if they are omitted, a button adds them."""

_KINDS = {
    "string": InputKind.TEXT,
    "number": InputKind.NUMBER,
    "integer": InputKind.INTEGER,
    "boolean": InputKind.CHECKBOX,
    "array": InputKind.LIST,
    "object": InputKind.OBJECT,
}


class Option(NamedTuple):
    """One of the values to choose from, and its label."""

    value: Any
    label: str


@dataclass(frozen=True)
class Shape:
    """The kind of field of one part of a value, and the part's schema.

    ``schema`` has its references resolved and its ``allOf`` merged.  For a union of a type and null, it is the schema
    of the type.
    """

    kind: InputKind
    schema: JsonObject
    root: JsonObject = field(repr=False)
    nullable: bool = False
    options: tuple[Option, ...] = ()

    @property
    def default(self) -> Any:
        """The default of an omitted value, or ``MISSING``."""
        return self.schema.get("default", MISSING)

    def holds(self, value: Any) -> bool:
        """Return whether a value has this kind; it may still be invalid."""
        match self.kind:
            case InputKind.TEXT:
                return isinstance(value, str)
            case InputKind.NUMBER:
                return is_number(value)
            case InputKind.INTEGER:
                return is_number(value) and value == value // 1
            case InputKind.CHECKBOX:
                return isinstance(value, bool)
            case InputKind.CHOICE:
                return any(same(value, option.value) for option in self.options)
            case InputKind.LIST | InputKind.CHOICES:
                return isinstance(value, list)
            case InputKind.OBJECT:
                return isinstance(value, dict)
            case _:
                return True

    @cached_property
    def properties(self) -> dict[str, Shape]:
        """The named parts of an object in the schema's order, without parts that are never valid."""
        parts = object_at(self.schema, "properties")
        return {
            name: shape_of(part, self.root) for name, part in parts.items() if part is not False
        }

    @cached_property
    def required(self) -> frozenset[str]:
        """The names of the required parts of an object."""
        names = list_at(self.schema, "required")
        return frozenset(name for name in names if isinstance(name, str))

    @cached_property
    def item(self) -> Shape:
        """The shape of a list's items."""
        return shape_of(self.schema.get("items", True), self.root)


def shape_of(schema: Any, root: JsonObject) -> Shape:
    """Return the shape of a schema within ``root``."""
    return _Reader(root).shape(schema)


def shape_of_arguments(schema: JsonObject) -> Shape:
    """Return the shape of a tool's arguments: an object, which may have no parts.

    If the schema allows arguments that it does not name, the field is a text box for JSON.
    """
    shape = shape_of(schema, schema)
    is_none = shape.schema.get("type") == "object" and shape.schema.get("properties") == {}
    is_open = shape.schema.get("additionalProperties") or "patternProperties" in shape.schema
    return replace(shape, kind=InputKind.OBJECT) if is_none and not is_open else shape


def empty_value(shape: Shape, *, required: bool) -> Any:
    """Return the value of an empty box, or of an omitted list or object; ``MISSING`` if it has none.

    An empty box of a required text is a missing text, unless the default is empty: users forget a text
    more often than they want an empty one, which they can send as JSON.
    """
    if not required:
        return MISSING
    if shape.nullable:
        return None
    if shape.kind is InputKind.JSON and shape.schema.get("type") == "object":
        return {}
    if shape.kind is InputKind.TEXT and shape.default == "":
        return ""
    return {InputKind.CHOICES: [], InputKind.CHECKBOX: False}.get(shape.kind, MISSING)


def start(shape: Shape) -> Any:
    """Return the initial value of a required part: its default, its only option, or the value of its empty box.

    It is ``MISSING`` if the user has to enter a value, and for lists and objects without a default; for these use
    :func:`initial_value`.
    """
    if shape.default is not MISSING:
        return shape.default
    if shape.kind is InputKind.CHOICE and len(shape.options) == 1 and not shape.nullable:
        return shape.options[0].value
    return empty_value(shape, required=True)


def initial_value(shape: Shape, *, with_item: bool = False) -> Any:
    """Return a list or an object with its required parts.

    A list is empty, unless it needs an item, or the user adds one (``with_item``).  Optional parts are omitted, so
    that the tool's own defaults apply.
    """
    if shape.kind is InputKind.LIST:
        return [start(shape.item)] if with_item or number_at(shape.schema, "minItems") else []
    started = {
        name: start(part) for name, part in shape.properties.items() if name in shape.required
    }
    return {name: value for name, value in started.items() if value is not MISSING}


class _Reader:
    """Reader of the shape of one part; branches of unions count towards its limit of references."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._flat = Flattening(root).flat

    def shape(self, schema: Any) -> Shape:
        flat = self._flat(schema)
        return self._json({}) if flat is None else self._shape(flat)

    def _shape(self, flat: JsonObject) -> Shape:
        if "const" in flat:
            return self._choice(flat, _option(flat["const"]))
        if list_at(flat, "enum"):
            return self._choice(flat, *_enumerated(flat))
        branches = [branch for union in _UNION for branch in list_at(flat, union)]
        return self._union(flat, branches) if branches else self._typed(flat)

    def _union(self, flat: JsonObject, branches: list[Any]) -> Shape:
        """Return the shape of a union: its only branch except null, a choice of the branches' values, or JSON."""
        base = {key: value for key, value in flat.items() if key not in _UNION}
        parts = [self._flat(branch) for branch in branches]
        others = [part for part in parts if part is not None and not _is_null(part)]
        nullable = len(others) < len(parts)
        if None in parts or not others:
            return self._json(flat)
        if len(others) == 1:
            shape = self._shape(merged(others[0], base))
            return replace(shape, nullable=nullable or shape.nullable)
        if types_of(base) and not any(_OFFERING & set(part) for part in others):
            return self._typed(base)
        shapes = [self._shape(part) for part in others]
        if all(shape.kind is InputKind.CHOICE for shape in shapes):
            options = [_named(option, shape) for shape in shapes for option in shape.options]
            return replace(self._choice(base, *options), nullable=nullable)
        return self._json(flat)

    def _typed(self, flat: JsonObject) -> Shape:
        types = [name for name in types_of(flat) if name in {*_KINDS, "null"}]
        others = [name for name in types if name != "null"]
        if types and not others:
            return self._choice(flat, _option(None))
        if len(others) != 1:
            return self._json(flat)
        shape = self._of_type({**flat, "type": others[0]})
        return replace(shape, nullable=len(others) < len(types))

    def _of_type(self, flat: JsonObject) -> Shape:
        kind = _KINDS[flat["type"]]
        shape = replace(self._json(flat), kind=kind)
        if (kind is InputKind.OBJECT and not _has_parts(flat)) or "prefixItems" in flat:
            return self._json(flat)
        # Checkboxes cannot repeat an item, so they are for sets only.
        if kind is InputKind.LIST and flat.get("uniqueItems") is True:
            item = self.shape(flat.get("items", True))
            if item.kind is InputKind.CHOICE and not item.nullable:
                return replace(shape, kind=InputKind.CHOICES, options=item.options)
        return shape

    def _choice(self, flat: JsonObject, *options: Option) -> Shape:
        return Shape(InputKind.CHOICE, flat, self._root, options=options)

    def _json(self, flat: JsonObject) -> Shape:
        return Shape(InputKind.JSON, flat, self._root)


def _is_null(schema: JsonObject) -> bool:
    return schema.get("type") == "null" or schema.get("const", MISSING) is None


def _named(option: Option, shape: Shape) -> Option:
    """Return an option whose label is the title of its branch; generators of schemas write enums in this way."""
    title = text_at(shape.schema, "title")
    return option._replace(label=title) if title and "const" in shape.schema else option


def _enumerated(schema: JsonObject) -> tuple[Option, ...]:
    """Return the options of an enum, labelled by ``enumNames`` if these are complete and distinct."""
    options = tuple(_option(value) for value in list_at(schema, "enum"))
    names = list_at(schema, "enumNames")
    texts = {name for name in names if isinstance(name, str) and name.strip()}
    if not len(options) == len(names) == len(texts):
        return options
    return tuple(option._replace(label=name) for option, name in zip(options, names, strict=True))


def _option(value: Any) -> Option:
    label = value if isinstance(value, str) and value.strip() else as_json(value)
    return Option(value, label)


def as_json(value: Any, indent: int | None = None) -> str:
    """Return a value as readable JSON, with null for missing parts."""
    return json.dumps(value, ensure_ascii=False, indent=indent, default=lambda _: None)


def _has_parts(schema: JsonObject) -> bool:
    """Return whether the schema names all parts of an object."""
    others = schema.get("additionalProperties", True)
    if "patternProperties" in schema or (isinstance(others, dict) and others):
        return False
    return others is False or bool(object_at(schema, "properties"))
