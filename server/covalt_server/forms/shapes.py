"""What a form can offer for a JSON Schema: one kind of field for each place of a value.

Draft 2020-12, read leniently: what has no field of its own, such as a union, a tuple or an object with
keys of the caller's choice, is offered as a box for JSON, and nothing here decides whether a value is right.  A place's parts are
looked at only when they are asked for, so that a schema may refer to itself.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from covalt_git.json_values.difference import same
from covalt_server.forms.schema import (
    Flattening,
    count_at,
    is_number,
    list_at,
    merged,
    object_at,
    text_at,
    types_of,
)

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject

MAX_DEPTH = 12
"""Values deeper than this are shown as JSON: more fieldsets in one another nobody can read."""

_MAX_STARTED = 20
"""Items that a list starts with, however many it must have."""

_UNION = ("anyOf", "oneOf")
_OFFERING = {"type", "properties", "items", "enum", "const", *_UNION}
"""Keywords by which a branch of a union says more than which of the values are valid."""


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


class Option(NamedTuple):
    """One of the values that a place may have, and what people read for it."""

    value: Any
    label: str


@dataclass(frozen=True)
class Shape:
    """What one place of a value is offered as.

    ``schema`` has its references followed and its ``allOf`` merged, and of a union with null the
    other branch.
    """

    kind: Kind
    schema: JsonObject
    root: JsonObject = field(repr=False)
    nullable: bool = False
    options: tuple[Option, ...] = ()

    @property
    def default(self) -> Any:
        """What a tool takes for a value that is left out, or ``MISSING``."""
        return self.schema.get("default", MISSING)

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
                return True

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
    def item(self) -> Shape:
        """What each item of a list is offered as."""
        return shape_of(self.schema.get("items", True), self.root)

    @property
    def fewest(self) -> int:
        """The fewest items that a list may have."""
        return count_at(self.schema, "minItems") or 0

    @property
    def most(self) -> int | None:
        """The most items that a list may have, where there is such a number."""
        return count_at(self.schema, "maxItems")


def shape_of(schema: Any, root: JsonObject) -> Shape:
    """Return what a schema within ``root`` is offered as."""
    return _Reader(root).shape(schema)


def shape_of_arguments(schema: JsonObject) -> Shape:
    """Return what the arguments of a tool are offered as: an object, even one without parts.

    Only a schema that does not say which there are is offered as JSON.
    """
    shape = shape_of(schema, schema)
    is_none = shape.schema.get("type") == "object" and shape.schema.get("properties") == {}
    is_open = shape.schema.get("additionalProperties") or "patternProperties" in shape.schema
    return replace(shape, kind=Kind.OBJECT) if is_none and not is_open else shape


def empty_value(shape: Shape, *, required: bool) -> Any:
    """Return what an empty box means, and a list or an object that is not set; ``MISSING`` for none.

    An empty box of a required text means that the text is missing, unless it is the default: users
    forget a text more often than they mean an empty one, which is sent as JSON.
    """
    if not required:
        return MISSING
    if shape.nullable:
        return None
    if shape.kind is Kind.CONSTANT:
        return shape.options[0].value
    if shape.kind is Kind.JSON and shape.schema.get("type") == "object":
        return {}
    if shape.kind is Kind.TEXT and shape.default == "":
        return ""
    return {Kind.CHOICES: [], Kind.CHECKBOX: False}.get(shape.kind, MISSING)


def start(shape: Shape) -> Any:
    """Return what a place that has to be given starts from: its default, or what its empty box means.

    ``MISSING`` where somebody has to type something, and for lists and objects without a default,
    which :func:`initial_value` makes when they are shown.
    """
    is_given = shape.default is not MISSING
    return shape.default if is_given else empty_value(shape, required=True)


def initial_value(shape: Shape, *, items: int = 0) -> Any:
    """Return a list or an object with what it must have, a list with ``items`` items at least.

    What need not be given is left out, so that the tool's own defaults hold.
    """
    if shape.kind is Kind.LIST:
        wanted = max(items, min(shape.fewest, _MAX_STARTED))
        return [start(shape.item) for _ in range(wanted)]
    started = {
        name: start(part) for name, part in shape.properties.items() if name in shape.required
    }
    return {name: value for name, value in started.items() if value is not MISSING}


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
        branches = [branch for union in _UNION for branch in list_at(flat, union)]
        return self._union(flat, branches) if branches else self._typed(flat)

    def _union(self, flat: JsonObject, branches: list[Any]) -> Shape:
        """Return the only branch besides null, the choice among the values of all, or JSON."""
        base = {key: value for key, value in flat.items() if key not in _UNION}
        parts = [self._flat(branch) for branch in branches]
        others = [one for one in parts if one is not None and not _is_null(one)]
        nullable = len(others) < len(parts)
        if None in parts or not others:
            return self._json(flat)
        if len(others) == 1:
            shape = self._shape(merged(others[0], base))
            return replace(shape, nullable=nullable or shape.nullable)
        if types_of(base) and not any(_OFFERING & set(one) for one in others):
            return self._typed(base)
        shapes = [self._shape(one) for one in others]
        if all(shape.kind in {Kind.CHOICE, Kind.CONSTANT} for shape in shapes):
            options = tuple(_named(one, shape) for shape in shapes for one in shape.options)
            return replace(self._json(base), kind=Kind.CHOICE, nullable=nullable, options=options)
        return self._json(flat)

    def _typed(self, flat: JsonObject) -> Shape:
        types = [name for name in types_of(flat) if name in {*_KINDS, "null"}]
        others = [name for name in types if name != "null"]
        if types and not others:
            return replace(self._json(flat), kind=Kind.CONSTANT, options=(_option(None),))
        if len(others) != 1:
            return self._json(flat)
        shape = self._of_type({**flat, "type": others[0]})
        return replace(shape, nullable=len(others) < len(types))

    def _of_type(self, flat: JsonObject) -> Shape:
        kind = _KINDS[flat["type"]]
        shape = replace(self._json(flat), kind=kind)
        if (kind is Kind.OBJECT and not _has_parts(flat)) or "prefixItems" in flat:
            return self._json(flat)
        if kind is Kind.LIST and flat.get("uniqueItems") is True:
            items = self._flat(flat.get("items", True)) or {}
            if list_at(items, "enum") and "const" not in items:
                return replace(shape, kind=Kind.CHOICES, options=_enumerated(items))
        return shape

    def _json(self, flat: JsonObject) -> Shape:
        return Shape(Kind.JSON, flat, self._root)


def _is_null(schema: JsonObject) -> bool:
    return schema.get("type") == "null" or schema.get("const", MISSING) is None


def _named(option: Option, shape: Shape) -> Option:
    """Return an option under the title of the only branch that has it: the labels of an enum."""
    title = text_at(shape.schema, "title")
    return option._replace(label=title) if title and shape.kind is Kind.CONSTANT else option


def _enumerated(schema: JsonObject) -> tuple[Option, ...]:
    """Return the options of an enum, under its ``enumNames`` where each has a name of its own."""
    options = tuple(_option(value) for value in list_at(schema, "enum"))
    names = list_at(schema, "enumNames")
    texts = {name for name in names if isinstance(name, str) and name.strip()}
    if not len(options) == len(names) == len(texts):
        return options
    return tuple(one._replace(label=name) for one, name in zip(options, names, strict=True))


def _option(value: Any) -> Option:
    label = value if isinstance(value, str) and value.strip() else as_json(value)
    return Option(value, label)


def as_json(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON for people to read and to change, null where it is still missing."""
    return json.dumps(value, ensure_ascii=False, indent=indent, default=lambda _: None)


def _has_parts(schema: JsonObject) -> bool:
    """Tell whether the schema names all the parts of an object that it describes, or allows none."""
    others = schema.get("additionalProperties", True)
    if "patternProperties" in schema or (isinstance(others, dict) and others):
        return False
    return others is False or bool(object_at(schema, "properties"))
