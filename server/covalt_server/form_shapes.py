"""What a form can offer for a JSON Schema: one kind of field for each place of a value.

Draft 2020-12, read leniently: what a form cannot offer, such as a schema that fits anything, is
offered as a box for JSON, and nothing here decides whether a value is right.  A place's parts are
looked at only when they are asked for, so that a schema may refer to itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from covalt_git import canonical_json, json_schema
from covalt_server.form_schemas import (
    Flattening,
    count_at,
    is_number,
    list_at,
    merged,
    object_at,
    text_at,
    titled,
    types_of,
)

if TYPE_CHECKING:
    from covalt_git.models.base import JsonObject

MAX_DEPTH = 12
"""Values deeper than this are shown as JSON: more fieldsets in one another nobody can read."""

_MAX_VARIANTS = 12
_MAX_STARTED = 20
"""Items that a list starts with, however many it must have."""

_UNION = ("anyOf", "oneOf")


class Missing(Enum):
    """The one value that stands for none: a place that is left out, not one that holds null."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING


class Kind(StrEnum):
    """The kinds of fields."""

    TEXT = "text"
    LONG_TEXT = "long_text"
    NUMBER = "number"
    INTEGER = "integer"
    CHECKBOX = "checkbox"
    CHOICE = "choice"
    CHOICES = "choices"
    CONSTANT = "constant"
    OBJECT = "object"
    LIST = "list"
    JSON = "json"


COMPOSITE = frozenset({Kind.OBJECT, Kind.LIST})
"""Kinds that hold other fields; where they are left out, a button sets them."""

_KINDS = {
    "string": Kind.TEXT,
    "number": Kind.NUMBER,
    "integer": Kind.INTEGER,
    "boolean": Kind.CHECKBOX,
    "array": Kind.LIST,
    "object": Kind.OBJECT,
}
_WORDS = {
    Kind.TEXT: "text",
    Kind.NUMBER: "number",
    Kind.INTEGER: "integer",
    Kind.CHECKBOX: "yes or no",
    Kind.CHOICE: "choice",
    Kind.CHOICES: "choices",
    Kind.OBJECT: "object",
    Kind.LIST: "list",
    Kind.JSON: "JSON",
}


@dataclass(frozen=True)
class Option:
    """One of the values that a place may have, and what people read for it."""

    value: Any
    label: str


@dataclass(frozen=True)
class Shape:
    """What one place of a value is offered as.

    ``schema`` has its references followed and its ``allOf`` merged.  ``branch`` is the part of an
    ``anyOf`` or ``oneOf`` that is offered, if it is one: what is wrong with a value is told in its
    words.  With ``variants`` the kind is that of the first of them.
    """

    kind: Kind
    schema: JsonObject
    root: JsonObject = field(repr=False)
    nullable: bool = False
    options: tuple[Option, ...] = ()
    variants: tuple[Shape, ...] = ()
    branch: Any = None

    @property
    def word(self) -> str:
        """What the kind is called among other variants."""
        title = text_at(self.schema, "title")
        if title:
            return title
        if self.kind is Kind.CONSTANT:
            return self.options[0].label
        return _WORDS[self.kind]

    @property
    def default(self) -> Any:
        """What a tool takes for a value that is left out, or ``MISSING``."""
        return self.schema.get("default", MISSING)

    def problems(self, value: Any) -> list[tuple[json_schema.Loc, str]]:
        """Return what is wrong with a value in the words of the offered branch, if it is one."""
        definitions = {key: object_at(self.root, key) for key in ("$defs", "definitions")}
        branch = self.schema if self.branch is None else self.branch
        try:
            return json_schema.value_problems({**definitions, "allOf": [branch]}, value)
        except json_schema.BadSchemaError:  # it refers to some other place than a definition
            return []

    def holds(self, value: Any) -> bool:
        """Tell whether a value is of the kind that is offered here; it may be wrong nonetheless."""
        match self.kind:
            case Kind.TEXT:
                return isinstance(value, str)
            case Kind.NUMBER:
                return is_number(value)
            case Kind.INTEGER:
                return is_number(value) and value == value // 1
            case Kind.CHECKBOX:
                return isinstance(value, bool)
            case Kind.CHOICE | Kind.CONSTANT:
                return any(same(value, option.value) for option in self.options)
            case Kind.LIST | Kind.CHOICES:
                return isinstance(value, list)
            case Kind.OBJECT:
                return isinstance(value, dict)
            case _:
                return self.schema.get("type") != "object" or isinstance(value, dict)

    @cached_property
    def properties(self) -> dict[str, Shape]:
        """The named parts of an object, in the schema's order, without those that never may be."""
        found = object_at(self.schema, "properties")
        return {
            name: shape_of(part, self.root) for name, part in found.items() if part is not False
        }

    @cached_property
    def required(self) -> frozenset[str]:
        """The parts that an object must have."""
        names = list_at(self.schema, "required")
        return frozenset(name for name in names if isinstance(name, str))

    @cached_property
    def entry(self) -> Shape:
        """What the parts of an object are offered as that have no name in the schema."""
        return shape_of(_entry_schema(self.schema), self.root)

    @property
    def takes_entries(self) -> bool:
        """Whether a schema asks for parts that it does not name; it may well only bear them."""
        asked = self.schema.get("additionalProperties", False)
        return asked is not False or bool(object_at(self.schema, "patternProperties"))

    @cached_property
    def prefix(self) -> tuple[Shape, ...]:
        """The first items of a list, where each has a schema of its own."""
        return tuple(shape_of(part, self.root) for part in list_at(self.schema, "prefixItems"))

    @cached_property
    def _rest(self) -> Shape:
        return shape_of(self.schema.get("items", True), self.root)

    def item(self, position: int) -> Shape:
        """Return what the item at a position of a list is offered as."""
        return self.prefix[position] if position < len(self.prefix) else self._rest

    @property
    def fewest(self) -> int:
        """The fewest items that a list may have."""
        return count_at(self.schema, "minItems") or 0

    @property
    def most(self) -> int | None:
        """The most items that a list may have, where there is such a number."""
        most = count_at(self.schema, "maxItems")
        if self.schema.get("items") is not False:
            return most
        return len(self.prefix) if most is None else min(most, len(self.prefix))


def shape_of(schema: Any, root: JsonObject) -> Shape:
    """Return what a schema within ``root`` is offered as."""
    return _Reader(root).shape(schema)


def shape_of_arguments(schema: JsonObject) -> Shape:
    """Return what the arguments of a tool are offered as: an object, even one without parts.

    Only a schema that does not say which there are is offered as JSON.
    """
    shape = shape_of(schema, schema)
    is_none = shape.kind is Kind.JSON and "properties" in shape.schema
    is_object = shape.schema.get("type") == "object"
    return replace(shape, kind=Kind.OBJECT) if is_none and is_object else shape


def start(shape: Shape) -> Any:
    """Return what a place that has to be given starts from: its default, or the emptiest value.

    ``MISSING`` where somebody has to type something, and for lists and objects without a default,
    which :func:`begun` makes when they are shown.
    """
    if shape.default is not MISSING:
        return shape.default
    if shape.nullable:
        return None
    if shape.variants:
        return start(shape.variants[0])
    match shape.kind:
        case Kind.CONSTANT:
            return shape.options[0].value
        case Kind.TEXT:
            return ""
        case Kind.CHECKBOX:
            return False
        case Kind.CHOICES:
            return []
        case Kind.JSON if shape.schema.get("type") == "object":
            return {}
        case _:
            return MISSING


def begun(shape: Shape, *, items: int = 0) -> Any:
    """Return a list or an object with what it must have, a list with ``items`` items at least.

    What need not be given is left out, so that the tool's own defaults hold.
    """
    if shape.kind is Kind.LIST:
        wanted = max(items, min(shape.fewest, _MAX_STARTED))
        return [start(shape.item(at)) for at in range(wanted)]
    if shape.kind is Kind.OBJECT:
        needed = {name: part for name, part in shape.properties.items() if name in shape.required}
        started = {name: start(part) for name, part in needed.items()}
        return {name: value for name, value in started.items() if value is not MISSING}
    return start(shape)


class _Reader:
    """Tells what one place is offered as; its branches count among the references it follows."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._flat = Flattening(root).flat

    def shape(self, schema: Any) -> Shape:
        flat = self._flat(schema)
        return self._json({}) if flat is None else self._shape(flat)

    def _shape(self, flat: JsonObject) -> Shape:
        if "const" in flat:
            return replace(self._json(flat), kind=Kind.CONSTANT, options=(_option(flat["const"]),))
        if list_at(flat, "enum"):
            return replace(self._json(flat), kind=Kind.CHOICE, options=_enumerated(flat))
        for union in _UNION:
            branches = list_at(flat, union)
            if branches:
                offered = self._union(flat, branches)
                if offered is not None:
                    return offered
        return self._typed(flat)

    def _typed(self, flat: JsonObject) -> Shape:
        types = [name for name in types_of(flat) if name in {*_KINDS, "null"}]
        nullable = "null" in types
        types = [name for name in types if name != "null"]
        if nullable and not types:
            return replace(self._json(flat), kind=Kind.CONSTANT, options=(_option(None),))
        if not types:
            return self._json(flat)
        if len(types) > 1:
            shapes = tuple(self._of_type({**flat, "type": name}) for name in types)
            return self._choice_of(flat, shapes, nullable=nullable)
        return replace(self._of_type({**flat, "type": types[0]}), nullable=nullable)

    def _of_type(self, flat: JsonObject) -> Shape:
        kind = _KINDS[flat["type"]]
        shape = replace(self._json(flat), kind=kind)
        if kind is Kind.OBJECT and not _has_parts(flat):
            return replace(shape, kind=Kind.JSON)
        if kind is Kind.LIST and flat.get("uniqueItems") is True and "prefixItems" not in flat:
            items = self._flat(flat.get("items", True)) or {}
            if list_at(items, "enum") and "const" not in items:
                return replace(shape, kind=Kind.CHOICES, options=_enumerated(items))
        return shape

    def _union(self, flat: JsonObject, branches: list[Any]) -> Shape | None:
        """Return what a union is offered as, or None if its branches only say what is valid."""
        base = {key: value for key, value in flat.items() if key not in _UNION}
        shapes: list[Shape] = []
        nullable = False
        for branch in branches:
            own = self._flat(branch)
            if own is None:
                return self._json(flat)
            if own.get("type") == "null" or (own.get("const", 0) is None):
                nullable = True
                continue
            alone = self._shape({key: value for key, value in own.items() if key != "title"})
            if alone.kind is Kind.JSON and own.get("type") != "object":
                return None if types_of(base) else self._json(flat)
            shape = self._shape(merged(titled(own, branch), _without_words(base)))
            shapes += shape.variants or [replace(shape, branch=branch)]
            nullable = nullable or shape.nullable
        if not shapes:
            return self._json(flat)
        if len(shapes) == 1:
            told = {**shapes[0].schema, **_words_of(base)}
            return replace(shapes[0], schema=told, nullable=nullable or shapes[0].nullable)
        return self._choice_of(base, tuple(shapes), nullable=nullable)

    def _choice_of(self, flat: JsonObject, shapes: tuple[Shape, ...], *, nullable: bool) -> Shape:
        """Return the choice among shapes: of their values if they have a few, else of themselves."""
        if all(shape.kind in {Kind.CHOICE, Kind.CONSTANT} for shape in shapes):
            shown = tuple(_named(option, shape) for shape in shapes for option in shape.options)
            return replace(self._json(flat), kind=Kind.CHOICE, nullable=nullable, options=shown)
        if len(shapes) > _MAX_VARIANTS:
            return self._json(flat)
        kind = shapes[0].kind
        return replace(self._json(flat), kind=kind, nullable=nullable, variants=shapes)

    def _json(self, flat: JsonObject) -> Shape:
        return Shape(Kind.JSON, flat, self._root)


def _words_of(schema: JsonObject) -> JsonObject:
    return {key: schema[key] for key in ("title", "description", "default") if key in schema}


def _without_words(schema: JsonObject) -> JsonObject:
    """Return a schema without what it says of a whole union, which no branch says of itself."""
    return {key: value for key, value in schema.items() if key not in _words_of(schema)}


def _named(option: Option, shape: Shape) -> Option:
    """Return an option under the title of the only branch that has it: the labels of an enum."""
    title = text_at(shape.schema, "title")
    return replace(option, label=title) if title and shape.kind is Kind.CONSTANT else option


def _enumerated(schema: JsonObject) -> tuple[Option, ...]:
    """Return the options of an enum, under its ``enumNames`` where each has a name of its own."""
    options = tuple(_option(value) for value in list_at(schema, "enum"))
    names = list_at(schema, "enumNames")
    texts = {name for name in names if isinstance(name, str) and name.strip()}
    if not len(options) == len(names) == len(texts):
        return options
    return tuple(replace(one, label=name) for one, name in zip(options, names, strict=True))


def _option(value: Any) -> Option:
    label = value if isinstance(value, str) and value.strip() else as_json(value)
    return Option(value, label)


def as_json(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON for people to read and to change, null where it is still missing."""
    return json.dumps(value, ensure_ascii=False, indent=indent, default=lambda _: None)


def same(one: Any, other: Any) -> bool:
    """Tell whether two values are the same to JSON, to which 1 is 1.0 and not true."""
    if one is MISSING or other is MISSING:
        return one is other
    return _comparable(one) == _comparable(other)


def _comparable(value: Any) -> bytes | str:
    try:
        return canonical_json.dumps(value)
    except canonical_json.NotJsonError:
        return as_json(value)


def _entry_schema(schema: JsonObject) -> Any:
    """Return the schema of what an object does not name; no foreign pattern is run to find it."""
    patterns = list(object_at(schema, "patternProperties").values())
    additional = schema.get("additionalProperties", True)
    if not patterns:
        return additional
    return patterns[0] if len(patterns) == 1 and additional is False else True


def _has_parts(schema: JsonObject) -> bool:
    """Tell whether an object has parts to offer, or none at all; else it is any object."""
    if object_at(schema, "properties"):
        return True
    additional = schema.get("additionalProperties", True)
    if additional is False or object_at(schema, "patternProperties"):
        return True
    return isinstance(additional, dict) and bool(additional)
