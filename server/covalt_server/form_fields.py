"""A tool's form as a tree of fields: what its schema asks for, with the value that is shown.

Nothing of a value is ever lost by showing it.  What does not fit its field, what a box of a browser
would change (line ends, null characters) and what lies too deep is shown as JSON instead, so that
reading a form back (``form_values``) gives the value that was drawn.

A field's name is ``args`` and its place in the value, written like a JSON pointer.  ``~`` followed
by a word is no part of a pointer, and marks what a form has to say besides values::

    args/filters/~set         the list is there, even if it has no items
    args/filters/~item        which items there are: 0, 1, ...
    args/filters/0/column     the value of a box
    args/env/~entry           which entries there are that the schema does not name
    args/env/~entry/0         the value of one, and args/env/~entry/0/~key its name
    args/value/~is            which of several kinds of value is given
    args/value/~json          a value as JSON
    args/note/~empty          what an empty box means: absent, null, text or list
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from covalt_server.form_boxes import (
    PLAIN,
    brief,
    limits,
    number_attributes,
    rows,
    shown_text,
    suggestions,
    text_attributes,
)
from covalt_server.form_schemas import text_at
from covalt_server.form_shapes import (
    COMPOSITE,
    MAX_DEPTH,
    MISSING,
    Kind,
    Option,
    Shape,
    as_json,
    begun,
    same,
    shape_of_arguments,
    start,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from covalt_git.json_schema import Loc
    from covalt_git.models.base import JsonObject

ROOT = "args"
MAX_FIELDS = 1000
"""Fields of one form; lists and objects beyond them are shown as JSON."""

_EMPTY_LABELS = {
    "absent": "if empty, leave it out",
    "null": "if empty, send null",
    "text": "if empty, send an empty text",
    "list": "if none, send an empty list",
}
_YES_OR_NO = (Option(True, "yes"), Option(False, "no"))
_BOXES = frozenset({Kind.TEXT, Kind.LONG_TEXT, Kind.NUMBER, Kind.INTEGER, Kind.JSON})


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the values to choose from: what is sent, what is read, whether it is chosen."""

    sent: str
    label: str
    chosen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One place of a value as a form shows it.

    ``required`` tells that a value must be given here.  A list or an object that is not
    ``is_set`` is left out, or null where ``is_null`` says so; ``out`` are the words of the button that
    brings it there.  ``empty`` has what an empty box may
    mean, where there is a question.  ``entries`` are an object's parts that the schema does not
    name; each has its ``key``.  ``is_part`` tells that this is one of those, or an item of a list.
    """

    name: str
    loc: Loc
    label: str
    kind: Kind
    required: bool = False
    description: str = ""
    note: str = ""
    text: str = ""
    checked: bool = False
    rows: int = 1
    attributes: Mapping[str, str] = field(default_factory=dict)
    suggestions: tuple[str, ...] = ()
    choices: tuple[Choice, ...] = ()
    variants: tuple[Choice, ...] = ()
    empty: tuple[Choice, ...] = ()
    is_set: bool = True
    is_null: bool = False
    key: str | None = None
    is_part: bool = False
    children: tuple[Field, ...] = ()
    entries: tuple[Field, ...] = ()
    can_add: bool = False
    out: str = ""
    can_remove: bool = False
    problems: tuple[str, ...] = ()
    focus: bool = False
    offers: Shape | None = field(default=None, compare=False, repr=False)

    @property
    def id(self) -> str:
        """The name as an HTML id, which has no spaces."""
        return quote(self.name, safe="/~")

    @property
    def box(self) -> str:
        """The name under which the box sends its text."""
        return mark(self.name, "json") if self.kind is Kind.JSON else self.name

    @property
    def is_composite(self) -> bool:
        """Whether this field holds others."""
        return self.kind in COMPOSITE

    @property
    def is_blank(self) -> bool:
        """Whether nothing was typed or chosen here."""
        if self.kind is Kind.CHOICE:
            return not any(one.sent and one.chosen for one in self.choices)
        return not self.text and self.kind in _BOXES

    def walk(self) -> Iterator[Field]:
        """Yield this field and all those in it, in the order of the page."""
        yield self
        for inner in (*self.children, *self.entries):
            yield from inner.walk()


@dataclass(slots=True)
class Typed:
    """What was typed and is no value: by the name of its box, so that it is shown again.

    ``variants`` has the chosen kinds of value, which an empty box does not tell; ``entries`` all
    names that were typed, also those that stand there twice.
    """

    texts: dict[str, str] = field(default_factory=dict)
    variants: dict[str, int] = field(default_factory=dict)
    entries: dict[str, list[tuple[str, Any]]] = field(default_factory=dict)


def draw(schema: JsonObject, value: Any = MISSING, typed: Typed | None = None) -> Field:
    """Return the form of a schema that shows a value, which may be partly wrong.

    Without a value it shows what has to be given, with the defaults of that.
    """
    place = _Place(ROOT, (), _label(schema, "arguments"), required=True)
    shape = shape_of_arguments(schema)
    shown = start(shape) if value is MISSING and typed is None else value
    return _Drawing(typed or Typed()).field(shape, shown, place)


def mark(name: str, word: str) -> str:
    """Return the name of something that a form has to say of a field besides its value."""
    return f"{name}/~{word}"


def inner_name(name: str, key: str | int) -> str:
    """Return the name of a part of a field: RFC 6901, and percents where a form changes text."""
    escaped = str(key).replace("~", "~0").replace("/", "~1")
    return f"{name}/" + re.sub(r"[%\x00-\x1f]", lambda found: f"%{ord(found[0]):02X}", escaped)


def empty_meanings(shape: Shape, *, required: bool) -> list[str]:
    """Return what an empty box may mean, first what it does mean if nothing else is said."""
    meanings = [] if required else ["absent"]
    if shape.nullable:
        meanings.append("null")
    own = {Kind.TEXT: "text", Kind.CHOICES: "list"}.get(shape.kind)
    return [*meanings, own] if own else meanings or ["absent"]


def marked(shown: Field, problems: Mapping[str, Sequence[str]], focus: str = "") -> Field:
    """Return a form with problems at the fields of those names, and one of them to start at."""
    return replace(
        shown,
        problems=tuple(problems.get(shown.name, ())),
        focus=shown.name == focus,
        children=tuple(marked(inner, problems, focus) for inner in shown.children),
        entries=tuple(marked(inner, problems, focus) for inner in shown.entries),
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a field stands: its names, and what surrounds it."""

    name: str
    loc: Loc
    label: str
    required: bool
    key: str | None = None
    is_part: bool = False
    can_remove: bool = False
    hint: str = ""


class _Drawing:
    """One form being drawn, with a bound on how much of it there may be."""

    def __init__(self, typed: Typed) -> None:
        self._typed = typed
        self._left = MAX_FIELDS

    def field(self, shape: Shape, value: Any, place: _Place) -> Field:
        """Return the field of one place."""
        self._left -= 1
        offered, variants = self._variant(shape, value, place)
        if value is MISSING and place.required and offered.kind in COMPOSITE:
            value = None if offered.nullable else begun(offered)
        shown = Field(
            name=place.name,
            loc=place.loc,
            label=place.label,
            kind=offered.kind,
            required=place.required and not offered.nullable,
            description=text_at(shape.schema, "description"),
            variants=variants,
            key=place.key,
            is_part=place.is_part,
            can_remove=place.can_remove,
            offers=offered if offered.branch is not None else None,
        )
        kind = self._kind(offered, value, place, is_union=bool(variants))
        match kind:
            case Kind.OBJECT:
                return self._object(shown, offered, value, place)
            case Kind.LIST:
                return self._list(shown, offered, value, place)
            case Kind.JSON:
                shown = _json_box(shown, value, self._typed.texts.get(mark(place.name, "json")))
            case Kind.CHOICE | Kind.CONSTANT | Kind.CHECKBOX:
                shown = self._choice(shown, offered, value, place)
            case Kind.CHOICES:
                shown = _choices(shown, offered, value)
            case _:
                shown = _box(shown, offered, value, self._typed.texts.get(place.name), place)
        return _with_empty(_with_note(shown, shape, offered), shape, offered, value, place)

    def _variant(self, shape: Shape, value: Any, place: _Place) -> tuple[Shape, tuple[Choice, ...]]:
        """Return what is offered of a shape that may be several, and the choice among them."""
        if not shape.variants:
            return shape, ()
        chosen = self._typed.variants.get(place.name, -1)
        if not 0 <= chosen < len(shape.variants):
            chosen = _fitting(shape.variants, value)
        offered = shape.variants[chosen]
        shown = tuple(
            Choice(str(at), one.word, at == chosen) for at, one in enumerate(shape.variants)
        )
        return replace(offered, nullable=shape.nullable or offered.nullable), shown

    def _kind(self, shape: Shape, value: Any, place: _Place, *, is_union: bool) -> Kind:
        """Return the kind of field that shows a value without losing any of it."""
        if mark(place.name, "json") in self._typed.texts:
            return Kind.JSON
        if place.name in self._typed.texts:
            return shape.kind
        is_empty = value is MISSING or (value is None and shape.nullable)
        if shape.kind in COMPOSITE:
            fits = is_empty or self._fits(shape, value, place)
            return shape.kind if fits and len(place.loc) < MAX_DEPTH else Kind.JSON
        if is_empty or shape.kind is Kind.CHOICE or (shape.kind is Kind.CONSTANT and not is_union):
            return shape.kind
        if shape.kind is Kind.CHOICES and shape.holds(value) and not _is_selection(shape, value):
            return Kind.LIST if len(value) <= self._left else Kind.JSON
        is_kept = not isinstance(value, str) or not re.search(r"[\r\0]", value)
        return shape.kind if shape.holds(value) and is_kept else Kind.JSON

    def _fits(self, shape: Shape, value: Any, place: _Place) -> bool:
        """Tell whether a list or an object can be shown part by part."""
        if not shape.holds(value) or len(value) > self._left:
            return False
        if shape.kind is Kind.LIST or place.name in self._typed.entries:
            return True
        others = [key for key in value if key not in shape.properties]
        return all(key and not re.search(r"[\x00-\x1f]", key) for key in others)

    def _object(self, shown: Field, shape: Shape, value: Any, place: _Place) -> Field:
        if not isinstance(value, dict):
            return _left_out(shown, value, place)
        named = tuple(
            self.field(
                part,
                value.get(key, MISSING),
                _Place(
                    inner_name(place.name, key),
                    (*place.loc, key),
                    _label(shape.schema["properties"][key], key),
                    required=key in shape.required,
                    hint=key,
                ),
            )
            for key, part in shape.properties.items()
        )
        others = [(key, inner) for key, inner in value.items() if key not in shape.properties]
        typed = self._typed.entries.get(place.name, others)
        entries = tuple(
            self.field(
                shape.entry,
                inner,
                _Place(
                    f"{mark(place.name, 'entry')}/{at}",
                    (*place.loc, key),
                    key or "value",
                    required=True,
                    key=key,
                    is_part=True,
                    can_remove=True,
                ),
            )
            for at, (key, inner) in enumerate(typed)
        )
        return replace(
            shown,
            children=named,
            entries=entries,
            can_add=shape.takes_entries,
            out=_way_out(shape, place),
        )

    def _list(self, shown: Field, shape: Shape, value: Any, place: _Place) -> Field:
        if not isinstance(value, list):
            return _left_out(_with_note(shown, shape, shape), value, place)
        fixed = len(shape.prefix)
        items = tuple(
            self.field(
                shape.item(at),
                inner,
                _Place(
                    inner_name(place.name, at),
                    (*place.loc, at),
                    _label(shape.item(at).schema if at < fixed else {}, f"{place.label} {at + 1}"),
                    required=True,
                    is_part=True,
                    can_remove=len(value) > shape.fewest and (at >= fixed or at == len(value) - 1),
                    hint=place.hint.removesuffix("s"),
                ),
            )
            for at, inner in enumerate(value)
        )
        return replace(
            _with_note(shown, shape, shape),
            kind=Kind.LIST,
            children=items,
            can_add=shape.most is None or len(items) < shape.most,
            out=_way_out(shape, place),
        )

    def _choice(self, shown: Field, shape: Shape, value: Any, place: _Place) -> Field:
        """Return a choice of one value; what has no choice is a constant, or a box to check."""
        typed = self._typed.texts.get(place.name)
        is_plain = place.required and not shape.nullable and typed is None
        if shape.kind is Kind.CONSTANT and is_plain and (value is MISSING or shape.holds(value)):
            return replace(shown, text=shape.options[0].label)
        if shape.kind is Kind.CHECKBOX and is_plain and not shown.variants:
            return replace(shown, checked=value is True)
        options = [(one.value, one.label) for one in shape.options or _YES_OR_NO]
        if shape.nullable and not any(one is None for one, _ in options):
            options.append((None, "null"))
        choices = [Choice(as_json(one), label, same(one, value)) for one, label in options]
        if typed is not None:
            choices.append(Choice(typed, f"{typed} (not one of these)", chosen=True))
        elif value is MISSING or not place.required:
            choices.insert(0, Choice("", _unset(shape, options, place), value is MISSING))
        if value is not MISSING and not any(choice.chosen for choice in choices):
            choices.append(Choice(as_json(value), f"{as_json(value)} (not one of these)", True))
        needed = {"required": ""} if place.required and not choices[0].sent else {}
        return replace(shown, kind=Kind.CHOICE, choices=tuple(choices), attributes=needed)


# Fields that hold no others


def _box(shown: Field, shape: Shape, value: Any, typed: str | None, place: _Place) -> Field:
    """Return a box with the text of a value, or with what was typed."""
    text = shown_text(value) if typed is None else typed
    shown = replace(shown, text=text, suggestions=suggestions(shape))
    if shape.kind is not Kind.TEXT:
        is_integer = shape.kind is Kind.INTEGER
        hints = number_attributes(is_integer=is_integer, required=shown.required)
        return replace(shown, attributes=PLAIN | hints)
    hints = text_attributes(shape.schema, text, required=shown.required)
    lines = rows(place.hint, shape.schema, text)
    if not lines:
        # Nothing is a text, too, but in one line it is nearly always forgotten; as JSON it is sent.
        may_be_empty = not shown.required or shape.schema.get("default") == ""
        asked = {} if may_be_empty else {"required": ""}
        return replace(shown, attributes=PLAIN | hints | asked)
    hints = {key: one for key, one in hints.items() if key not in {"pattern", "type"}}
    return replace(shown, kind=Kind.LONG_TEXT, rows=lines, attributes=PLAIN | hints)


def _json_box(shown: Field, value: Any, typed: str | None) -> Field:
    if typed is None:
        typed = "" if value is MISSING else as_json(value, indent=2)
    lines = min(max(typed.count("\n") + 1, 3), 20)
    return replace(shown, kind=Kind.JSON, text=typed, rows=lines, attributes=PLAIN)


def _choices(shown: Field, shape: Shape, value: Any) -> Field:
    chosen = value if isinstance(value, list) else []
    boxes = tuple(
        Choice(as_json(one.value), one.label, any(same(one.value, it) for it in chosen))
        for one in shape.options
    )
    return replace(shown, choices=boxes)


def _is_selection(shape: Shape, value: list[Any]) -> bool:
    """Tell whether checked boxes give this list: their order, and nothing twice."""
    checked = [one.value for one in shape.options if any(same(one.value, it) for it in value)]
    return len(checked) == len(value) and all(map(same, checked, value))


def _left_out(shown: Field, value: Any, place: _Place) -> Field:
    """Return a list or an object that is not there, or null."""
    out = "Leave out" if value is None and not place.required else ""
    return replace(shown, is_set=False, is_null=value is None, can_add=True, out=out)


def _way_out(shape: Shape, place: _Place) -> str:
    """Return the words of the button that leaves a list or an object out, if that is allowed."""
    if not place.required:
        return "Leave out"
    return "Make null" if shape.nullable and not place.is_part else ""


def _with_empty(shown: Field, shape: Shape, offered: Shape, value: Any, place: _Place) -> Field:
    """Return a field that asks what it means to be empty, where that is a question."""
    if shown.kind not in {Kind.TEXT, Kind.LONG_TEXT, Kind.NUMBER, Kind.INTEGER, Kind.CHOICES}:
        return shown
    meanings = empty_meanings(offered, required=place.required)
    meant = meanings[0]
    for meaning, emptiest in (("null", None), ("text", ""), ("list", [])):
        if meaning in meanings and value is not MISSING and same(value, emptiest):
            meant = meaning
    # Leaving it out is not null where the tool has another default.
    is_asked = meant != meanings[0] or (
        meanings[:2] == ["absent", "null"]
        and shape.default is not MISSING
        and shape.default is not None
    )
    if not is_asked:
        return shown
    choices = tuple(Choice(one, _EMPTY_LABELS[one], one == meant) for one in meanings)
    return replace(shown, empty=choices)


def _fitting(variants: Sequence[Shape], value: Any) -> int:
    """Return which of several shapes a value has: the first that it is right for, or is of."""
    if value is MISSING:
        return 0
    fitting = [at for at, one in enumerate(variants) if one.holds(value)]
    if len(fitting) > 1:
        fitting = [at for at in fitting if not variants[at].problems(value)] or fitting
    return fitting[0] if fitting else 0


def _unset(shape: Shape, options: Sequence[tuple[Any, str]], place: _Place) -> str:
    """Return what the choice is called that chooses nothing."""
    if place.required:
        return "choose..."
    default = [label for value, label in options if same(value, shape.default)]
    return f"default: {default[0]}" if default else "not set"


# Words


def _with_note(shown: Field, shape: Shape, offered: Shape) -> Field:
    words = [*limits(offered)]
    default = shape.default
    is_plain = shown.kind is Kind.CHOICE or shown.required or default in (MISSING, None, "", [], {})
    if not is_plain:
        words.insert(0, f"default: {brief(default)}")
    if shown.kind is Kind.JSON:
        words.append("JSON: a text stands in quotes")
    return replace(shown, note=" \u00b7 ".join(words))


def _label(schema: Any, name: str) -> str:
    """Return a part's own title; one behind a reference is the title of another thing."""
    return (text_at(schema, "title") if isinstance(schema, dict) else "") or name
