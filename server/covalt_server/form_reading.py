"""Reading the fields of a form: what was typed becomes a value of the kind that the schema says.

The inverse of ``form_fields``, which says what the names mean.  Nothing is trusted that was sent:
what it does not know is passed over, and what is too deep or too long is not followed.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from covalt_git import canonical_json
from covalt_server.form_fields import Typed, empty_meanings, inner_name, mark
from covalt_server.form_problems import FieldProblem
from covalt_server.form_shapes import (
    COMPOSITE,
    MAX_DEPTH,
    MISSING,
    Kind,
    Shape,
    as_json,
    begun,
    start,
)

if TYPE_CHECKING:
    from werkzeug.datastructures import MultiDict

    from covalt_git.models.base import JsonObject

_NUMBER = re.compile(r"[+-]?(?:\d+(?P<fraction>\.\d*)?|\.\d+)(?P<exponent>[eE][+-]?\d+)?", re.ASCII)
_MAX_DIGITS = 400
_MAX_SHOWN = 40
_MAX_PARTS = 4 * MAX_DEPTH


class Reading:
    """Reads the values of a form by the shapes of its schema.

    An item may be added or removed while reading, so that the names behind it change: what was
    typed is kept under the name that a field has then.

    Attributes:
        typed: what was typed and is no value.
        problems: why it is none.
        focus: the name of the field where something was added or removed.
    """

    def __init__(self, form: MultiDict[str, str]) -> None:
        self.typed = Typed()
        self.problems: list[FieldProblem] = []
        self.focus = ""
        self._form = form
        self._added = form.get("_add")
        self._removed = form.get("_remove")
        self._given = {
            "/".join(parts[:length])
            for parts in (name.split("/") for name in form)
            if parts[-1] not in {"~empty", "~is", "~key"}
            for length in range(1, min(len(parts), _MAX_PARTS))
        }

    def value(self, shape: Shape, old: str, new: str, *, required: bool, depth: int = 0) -> Any:
        """Return the value of the field that was called ``old`` and is called ``new`` from now on.

        ``MISSING`` where nothing is given.  What is no value is kept as text, and is a problem.
        """
        is_union = bool(shape.variants)
        shape = self._variant(shape, old, new)
        text = self._form.get(mark(old, "json"))
        if text is not None:
            return self._json(shape, lines(text), old, new, required=required)
        is_plain = required and not shape.nullable
        is_listed = shape.kind is Kind.CHOICES and mark(old, "item") in self._form
        if shape.kind in COMPOSITE or is_listed:
            if depth >= MAX_DEPTH:
                return MISSING
            return self._composite(shape, old, new, required=required, depth=depth)
        if shape.kind is Kind.CHOICES:
            return self._choices(shape, old, required=required)
        text = self._form.get(old)
        if shape.kind is Kind.CONSTANT and is_plain and (text is None or is_union):
            return shape.options[0].value
        if shape.kind is Kind.CHECKBOX and is_plain and not is_union:
            return text == "true"
        if text is None:
            return MISSING
        if shape.kind in {Kind.CHOICE, Kind.CONSTANT, Kind.CHECKBOX}:
            return self._choice(text, new)
        text = lines(text)
        if not (text if shape.kind is Kind.TEXT else text.strip()):
            return self._nothing(shape, old, required=required)
        return text if shape.kind is Kind.TEXT else self._number(shape, text, new)

    def _tell(self, name: str, message: str) -> None:
        self.problems.append(FieldProblem(name, message))

    def _variant(self, shape: Shape, old: str, new: str) -> Shape:
        """Return the shape that was chosen of several."""
        if not shape.variants:
            return shape
        chosen = self._form.get(mark(old, "is"), -1, type=int)
        if 0 <= chosen < len(shape.variants):
            self.typed.variants[new] = chosen
        else:
            chosen = 0
        offered = shape.variants[chosen]
        return replace(offered, nullable=shape.nullable or offered.nullable)

    def _nothing(self, shape: Shape, old: str, *, required: bool) -> Any:
        """Return what it means that nothing was typed, or that a list or an object is not there."""
        meanings = empty_meanings(shape, required=required)
        said = self._form.get(mark(old, "empty"))
        meant = said if said in meanings else meanings[0]
        return {"absent": MISSING, "null": None, "text": "", "list": []}[meant]

    def _json(self, shape: Shape, text: str, old: str, new: str, *, required: bool) -> Any:
        if not text.strip():
            return self._nothing(shape, old, required=required) if shape.nullable else MISSING
        try:
            return read_json(text)
        except canonical_json.NotJsonError as error:
            self.typed.texts[mark(new, "json")] = text
            self._tell(new, f"this is not JSON: {error.message}")
            return text

    def _number(self, shape: Shape, text: str, new: str) -> Any:
        """Return a number as exactly as it was typed: an integer stays one."""
        number = _read_number(text.strip())
        is_exact = number is not None and abs(number) <= canonical_json.MAX_EXACT_INTEGER
        if number is not None and (is_exact or isinstance(number, float)):
            is_whole = shape.kind is Kind.INTEGER and is_exact and number == int(number)
            return int(number) if is_whole else number
        self.typed.texts[new] = text
        shown = text.strip() if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
        if _NUMBER.fullmatch(text.strip()):
            self._tell(new, f"{shown} is beyond what JSON numbers hold exactly")
            return text if number is None else number
        kind = "an integer" if shape.kind is Kind.INTEGER else "a number"
        self._tell(new, f"must be {kind}, not {as_json(shown)}")
        return text

    def _choice(self, text: str, new: str) -> Any:
        if not text:
            return MISSING
        try:
            return read_json(text)
        except canonical_json.NotJsonError:
            self.typed.texts[new] = text
            self._tell(new, f"{as_json(text)} is none of these")
            return text

    def _choices(self, shape: Shape, old: str, *, required: bool) -> Any:
        checked = self._form.getlist(old)
        if not checked and old not in self._given:
            return MISSING
        if not checked:
            return self._nothing(shape, old, required=required)
        return [one.value for one in shape.options if as_json(one.value) in checked]

    def _composite(self, shape: Shape, old: str, new: str, *, required: bool, depth: int) -> Any:
        if self._removed == old:
            self.focus = new
            return None if required and shape.nullable else MISSING
        is_new = old not in self._given
        if is_new and self._added != old:
            return self._nothing(shape, old, required=required)
        if is_new and (shape.properties or shape.kind is Kind.LIST):
            self.focus = inner_name(new, 0) if shape.kind is Kind.LIST else new
            return begun(shape, items=1)
        if shape.kind is Kind.OBJECT:
            return self._object(shape, old, new, depth)
        return self._list(shape, old, new, depth)

    def _object(self, shape: Shape, old: str, new: str, depth: int) -> JsonObject:
        read = {
            key: self.value(
                part,
                inner_name(old, key),
                inner_name(new, key),
                required=key in shape.required,
                depth=depth + 1,
            )
            for key, part in shape.properties.items()
        }
        named = {key: value for key, value in read.items() if value is not MISSING}
        return named | self._entries(shape, old, new, depth)

    def _entries(self, shape: Shape, old: str, new: str, depth: int) -> JsonObject:
        """Return what an object has besides its named parts; a name of its own for each."""
        typed: list[tuple[str, Any]] = []
        found: JsonObject = {}
        for one in self._kept(old, new, "entry"):
            key = self._form.get(mark(one, "key"), "")
            name = f"{mark(new, 'entry')}/{len(typed)}"
            value = self.value(shape.entry, one, name, required=True, depth=depth + 1)
            typed.append((key, value))
            if not key:
                self._tell(name, "a name is required")
            elif key in shape.properties:
                self._tell(name, f"{as_json(key)} has a field of its own")
            elif key in found:
                self._tell(name, f"{as_json(key)} stands here twice")
            else:
                found[key] = None if value is MISSING else value
        if self._added == old:
            self.focus = f"{mark(new, 'entry')}/{len(typed)}"
            typed.append(("", begun(shape.entry)))
        if typed:
            self.typed.entries[new] = typed
        return found

    def _list(self, shape: Shape, old: str, new: str, depth: int) -> list[Any]:
        items: list[Any] = []
        for one in self._kept(old, new, "item"):
            at = len(items)
            name = inner_name(new, at)
            items.append(self.value(shape.item(at), one, name, required=True, depth=depth + 1))
        if self._added == old:
            self.focus = inner_name(new, len(items))
            items.append(start(shape.item(len(items))))
        return items

    def _kept(self, old: str, new: str, what: str) -> list[str]:
        """Return the old names of a field's items or entries without the one that is removed."""
        under = old if what == "item" else mark(old, what)
        names = [f"{under}/{one}" for one in self._form.getlist(mark(old, what))]
        if self._removed in names:
            self.focus = new
        return [name for name in names if name != self._removed]


def read_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        NotJsonError: also for what JSON cannot hold, such as half a surrogate pair.
    """
    value = canonical_json.loads(text)
    canonical_json.dumps(value)
    return value


def _read_number(text: str) -> int | float | None:
    found = _NUMBER.fullmatch(text)
    if found is None or len(text) > _MAX_DIGITS:
        return None
    if found["fraction"] is None and found["exponent"] is None and "." not in text:
        return int(text)
    number = float(text)
    return number if abs(number) != float("inf") else None


def lines(text: str) -> str:
    """Return a text with the line ends that it had before a browser sent it."""
    return text.replace("\r\n", "\n")


def settled(draft: Any) -> Any:
    """Return a value with null where a list has an item that nobody filled in yet."""
    if isinstance(draft, dict):
        return {key: settled(value) for key, value in draft.items()}
    if isinstance(draft, list):
        return [settled(value) for value in draft]
    return None if draft is MISSING else draft
