"""Form of a tool as a tree of fields: the inputs of its schema, filled with a value.

Showing a value never loses a part of it.  A part is shown as JSON in four cases: it has another type than its field; a browser's box would change it
(line ends, null characters); it is empty, but an empty box has another meaning; or it is nested too deeply.  So reading the form back (:mod:`.parsing`) returns the same value.

A field's name is ``args`` and a JSON pointer to its place in the value.  Form entries other than values end in
``~`` and a word, which no pointer contains::

    args/filters/~set         the list exists, even if it has no items
    args/filters/~item        the items of the list: 0, 1, ...
    args/filters/0/column     the value of a box
    args/value/~json          a value as JSON
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from covalt_git.json_values.difference import same
from covalt_git.json_values.keywords import text_at
from covalt_git.json_values.limits_in_words import limits_in_words
from covalt_server.forms.boxes import (
    PLAIN,
    brief,
    number_attributes,
    rows,
    shown_text,
    suggestions,
    text_attributes,
)
from covalt_server.forms.shapes import (
    COMPOSITE,
    MAX_DEPTH,
    MISSING,
    InputKind,
    Option,
    Shape,
    as_json,
    empty_value,
    initial_value,
    shape_of_arguments,
    start,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from covalt_git.json_values import JsonObject
    from covalt_git.json_values.json_schema import Loc

ROOT = "args"
_PATH_NAME = re.compile(r"(^|[_-])(path|file|filename)s?$", re.IGNORECASE)
MAX_FIELDS = 1000
"""Fields of one form; lists and objects beyond them are shown as JSON."""

_LIMITED = {
    InputKind.TEXT: "string",
    **dict.fromkeys((InputKind.NUMBER, InputKind.INTEGER), "number"),
    **dict.fromkeys((InputKind.LIST, InputKind.CHOICES), "array"),
}
"""The fields whose notes have limits, and the types of JSON Schema that these limit."""

_YES_OR_NO = (Option(True, "yes"), Option(False, "no"))
_BOXES = frozenset(
    {InputKind.TEXT, InputKind.LONG_TEXT, InputKind.NUMBER, InputKind.INTEGER, InputKind.JSON}
)


class FieldOption(NamedTuple):
    """One option of a field: the text that is sent, its label, and whether it is chosen."""

    sent: str
    label: str
    chosen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a form, for one place of the value (a JSON pointer).

    Attributes:
        required: whether a value is required, which may be null if the field is ``nullable``.
        hint: name that the size of a text box is guessed from.
        is_set: whether the value has this list or object; if not, ``text`` shows that it is omitted or null.
        out: label of the button that removes the list or object.
        is_item: whether this is an item of a list.
    """

    name: str
    loc: Loc
    label: str
    required: bool
    hint: str = ""
    kind: InputKind = InputKind.JSON
    nullable: bool = False
    description: str = ""
    note: str = ""
    text: str = ""
    checked: bool = False
    rows: int = 1
    attributes: Mapping[str, str] = field(default_factory=dict)
    suggestions: tuple[str, ...] = ()
    choices: tuple[FieldOption, ...] = ()
    is_set: bool = True
    is_item: bool = False
    children: tuple[Field, ...] = ()
    out: str = ""
    problems: tuple[str, ...] = ()
    focus: bool = False

    @property
    def id(self) -> str:
        """The name as an HTML id, which cannot contain spaces."""
        return quote(self.name, safe="/~")

    @property
    def box(self) -> str:
        """The name of the text box."""
        return mark(self.name, "json") if self.kind is InputKind.JSON else self.name

    @property
    def needed(self) -> bool:
        """Whether a value other than null is required."""
        return self.required and not self.nullable

    @property
    def is_blank(self) -> bool:
        """Whether the field is empty."""
        if self.kind is InputKind.CHOICE:
            return not any(choice.sent and choice.chosen for choice in self.choices)
        return not self.text and self.kind in _BOXES

    def walk(self) -> Iterator[Field]:
        """Yield this field and all fields within it, in the order of the page."""
        yield self
        for inner in self.children:
            yield from inner.walk()


def draw(schema: JsonObject, value: Any = MISSING, typed: Mapping[str, str] | None = None) -> Field:
    """Return the form of a schema, filled with a value that may be partly invalid.

    Without a value, the form has the required fields with their defaults.  ``typed`` is input that is not a
    valid value, by the name of its box; it is shown again.
    """
    root = Field(name=ROOT, loc=(), label=_label(schema, "arguments"), required=True)
    shape = shape_of_arguments(schema)
    field_value = start(shape) if value is MISSING and typed is None else value
    return _Drawing(typed or {}).field(root, shape, field_value)


def mark(name: str, word: str) -> str:
    """Return the name of a form entry about a field, other than its value."""
    return f"{name}/~{word}"


def inner_name(name: str, key: str | int) -> str:
    """Return the name of a part of a field: a JSON pointer (RFC 6901).

    Characters that a form submission would change are percent-encoded.
    """
    escaped = str(key).replace("~", "~0").replace("/", "~1")
    return f"{name}/" + re.sub(r"[%\x00-\x1f]", lambda match: f"%{ord(match[0]):02X}", escaped)


def marked(field: Field, problems: Mapping[str, Sequence[str]], focus: str = "") -> Field:
    """Return a form with problems added to fields, by the names of the fields, and with the focus on one field."""
    return replace(
        field,
        problems=tuple(problems.get(field.name, ())),
        focus=field.name == focus,
        children=tuple(marked(inner, problems, focus) for inner in field.children),
    )


def offering(field: Field, texts: Sequence[str]) -> Field:
    """Return a form whose fields for a path offer ``texts``, after the examples of the schema."""
    if field.kind is InputKind.TEXT and is_path_name(field.hint):
        return replace(field, suggestions=tuple(dict.fromkeys((*field.suggestions, *texts))))
    return replace(field, children=tuple(offering(inner, texts) for inner in field.children))


def is_path_name(name: str) -> bool:
    """Return whether a field is one for the path of a file, by its name, such as ``path`` or ``csv_file``."""
    return bool(_PATH_NAME.search(name))


class _Drawing:
    """Builder of one form, with a limit on its number of fields."""

    def __init__(self, typed: Mapping[str, str]) -> None:
        self._typed = typed
        self._left = MAX_FIELDS

    def field(self, field: Field, shape: Shape, value: Any) -> Field:
        """Return the field of a place, filled with the value there."""
        self._left -= 1
        if value is MISSING and field.required and shape.kind in COMPOSITE:
            value = None if shape.nullable else initial_value(shape)
        field = replace(
            field,
            kind=self._kind(field, shape, value),
            nullable=shape.nullable,
            description=text_at(shape.schema, "description"),
        )
        match field.kind:
            case InputKind.OBJECT:
                return self._object(field, shape, value)
            case InputKind.LIST:
                return self._list(field, shape, value)
            case InputKind.JSON:
                field = _json_box(field, value, self._typed.get(mark(field.name, "json")))
            case InputKind.CHOICE | InputKind.CHECKBOX:
                field = _choice(field, shape, value)
            case InputKind.CHOICES:
                field = _choices(field, shape, value)
            case _:
                field = _box(field, shape, value, self._typed.get(field.name))
        return _with_note(field, shape)

    def _kind(self, field: Field, shape: Shape, value: Any) -> InputKind:
        """Return the kind of field that shows a value without losing any of it."""
        if mark(field.name, "json") in self._typed:
            return InputKind.JSON
        if field.name in self._typed:
            return shape.kind
        is_empty = same(value, empty_value(shape, required=field.required))
        if shape.kind in COMPOSITE:
            fits = is_empty or self._fits(shape, value)
            return shape.kind if fits and len(field.loc) < MAX_DEPTH else InputKind.JSON
        is_option = shape.kind is InputKind.CHOICE or (
            value is None and shape.kind is InputKind.CHECKBOX and shape.nullable
        )
        if value is MISSING or is_empty or is_option:
            return shape.kind
        if shape.kind is InputKind.TEXT:
            fits = isinstance(value, str) and bool(value) and not re.search(r"[\r\0]", value)
        elif shape.kind is InputKind.CHOICES:
            fits = bool(value) and shape.holds(value) and _is_selection(shape, value)
        else:
            fits = shape.holds(value)
        return shape.kind if fits else InputKind.JSON

    def _fits(self, shape: Shape, value: Any) -> bool:
        """Return whether a list or an object can be shown part by part."""
        # Decided before the first part is drawn, so that a list is shown either in fields or as JSON, never
        # half of it.
        if not shape.holds(value) or len(value) > self._left:
            return False
        return shape.kind is InputKind.LIST or value.keys() <= shape.properties.keys()

    def _object(self, field: Field, shape: Shape, value: Any) -> Field:
        if not isinstance(value, dict):
            return _not_set(field, value)
        parts = tuple(
            self.field(
                Field(
                    name=inner_name(field.name, key),
                    loc=(*field.loc, key),
                    label=_label(shape.schema["properties"][key], key),
                    required=key in shape.required,
                    hint=key,
                ),
                part,
                value.get(key, MISSING),
            )
            for key, part in shape.properties.items()
        )
        return replace(field, children=parts, out=_remove_label(field))

    def _list(self, field: Field, shape: Shape, value: Any) -> Field:
        field = _with_note(field, shape)
        if not isinstance(value, list):
            return _not_set(field, value)
        items = tuple(
            self.field(
                Field(
                    name=inner_name(field.name, at),
                    loc=(*field.loc, at),
                    label=f"{field.label} {at + 1}",
                    required=True,
                    hint=field.hint.removesuffix("s"),
                    is_item=True,
                ),
                shape.item,
                inner,
            )
            for at, inner in enumerate(value)
        )
        return replace(field, children=items, out=_remove_label(field))


# Fields that hold no others


def _box(field: Field, shape: Shape, value: Any, typed: str | None) -> Field:
    """Return a box with the text of a value, or with the input that is shown again."""
    text = shown_text(value) if typed is None else typed
    field = replace(field, text=text, suggestions=suggestions(shape))
    if shape.kind is not InputKind.TEXT:
        is_integer = shape.kind is InputKind.INTEGER
        hints = number_attributes(is_integer=is_integer, required=field.needed)
        return replace(field, attributes=PLAIN | hints)
    hints = text_attributes(shape.schema, text, required=field.needed)
    lines = rows(field.hint, shape.schema, text)
    if not lines:
        return replace(field, attributes=PLAIN | hints)
    del hints["type"]
    return replace(field, kind=InputKind.LONG_TEXT, rows=lines, attributes=PLAIN | hints)


def _json_box(field: Field, value: Any, typed: str | None) -> Field:
    if typed is None:
        typed = "" if value is MISSING else as_json(value, indent=2)
    lines = min(max(typed.count("\n") + 1, 3), 20)
    return replace(field, kind=InputKind.JSON, text=typed, rows=lines, attributes=PLAIN)


def _choice(field: Field, shape: Shape, value: Any) -> Field:
    """Return a field for a choice of one value, or a checkbox."""
    if shape.kind is InputKind.CHECKBOX and field.needed:
        return replace(field, checked=value is True)
    options = [(option.value, option.label) for option in shape.options or _YES_OR_NO]
    if shape.nullable and not any(option_value is None for option_value, _ in options):
        options.append((None, "null"))
    choices = [
        FieldOption(as_json(option_value), label, same(option_value, value))
        for option_value, label in options
    ]
    if value is MISSING or not field.required:
        choices.insert(0, FieldOption("", _unset(field, shape, options), value is MISSING))
    # Without this option, a browser would select another value than the one that fills the form, and send
    # it.
    if value is not MISSING and not any(choice.chosen for choice in choices):
        choices.append(FieldOption(as_json(value), f"{as_json(value)} (not one of these)", True))
    needed = {"required": ""} if field.required and not choices[0].sent else {}
    return replace(field, kind=InputKind.CHOICE, choices=tuple(choices), attributes=needed)


def _choices(field: Field, shape: Shape, value: Any) -> Field:
    chosen = value if isinstance(value, list) else []
    boxes = tuple(
        FieldOption(
            as_json(option.value), option.label, any(same(option.value, item) for item in chosen)
        )
        for option in shape.options
    )
    return replace(field, choices=boxes)


def _is_selection(shape: Shape, value: list[Any]) -> bool:
    """Return whether checkboxes can represent this list: its items are in their order, without duplicates."""
    checked = [
        option.value for option in shape.options if any(same(option.value, item) for item in value)
    ]
    return len(checked) == len(value) and all(map(same, checked, value))


def _not_set(field: Field, value: Any) -> Field:
    """Return the field of a list or an object that is omitted or null."""
    text = "null" if value is None else "not set"
    return replace(field, is_set=False, text=text)


def _remove_label(field: Field) -> str:
    """Return the label of the button that omits a list or an object; empty if that is not allowed."""
    if not field.required:
        return "Leave out"
    return "Make null" if field.nullable else ""


def _unset(field: Field, shape: Shape, options: Sequence[tuple[Any, str]]) -> str:
    """Return the label of the option for no value."""
    if field.required:
        return "choose..."
    default = [label for value, label in options if same(value, shape.default)]
    return f"default: {default[0]}" if default else "not set"


# Words


def _with_note(field: Field, shape: Shape) -> Field:
    words = [*limits_in_words(shape.schema, _LIMITED.get(shape.kind, ""))]
    default = shape.default
    is_plain = (
        field.kind is InputKind.CHOICE or field.needed or default in (MISSING, None, "", [], {})
    )
    if not is_plain:
        words.insert(0, f"default: {brief(default)}")
    if field.kind is InputKind.JSON:
        words.append("JSON: texts need quotes")
    return replace(field, note=" \u00b7 ".join(words))


def _label(schema: Any, name: str) -> str:
    """Return the title of a part; not that of a referenced schema, which describes a type and not this part."""
    return (text_at(schema, "title") if isinstance(schema, dict) else "") or name
