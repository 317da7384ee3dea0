"""Parser of submitted form fields: input becomes values of the types in the schema.

It is the inverse of :mod:`.fields`, which describes the names.  Input is untrusted: unknown names are ignored,
and so are values that are nested too deeply or too long.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from covalt_git.json_values import canonical_json
from covalt_git.json_values.keywords import is_number
from covalt_git.text.display import shorten
from covalt_server.forms.fields import inner_name, mark
from covalt_server.forms.problems import FieldProblem
from covalt_server.forms.shapes import (
    COMPOSITE,
    MAX_DEPTH,
    MISSING,
    InputKind,
    Shape,
    as_json,
    empty_value,
    initial_value,
    start,
)

if TYPE_CHECKING:
    from werkzeug.datastructures import MultiDict

    from covalt_git.json_values import JsonObject


_MAX_PARTS = 4 * MAX_DEPTH


class FormReader:
    """Reader of a form's values by the shapes of its schema.

    Adding or removing a list item changes the names of later fields; results use the new names.

    Attributes:
        typed: input that is not a valid value, by the name of its box.
        problems: why that input is not valid.
        focus: the name of the field where an item was added or removed.
    """

    def __init__(self, form: MultiDict[str, str]) -> None:
        self.typed: dict[str, str] = {}
        self.problems: list[FieldProblem] = []
        self.focus = ""
        self._form = form
        self._added = form.get("_add")
        self._removed = form.get("_remove")
        # The prefixes of a name with 100,000 slashes would take gigabytes, so only as many parts as a form
        # has are used.
        self._sent = {
            "/".join(parts[:length])
            for parts in (name.split("/") for name in form)
            for length in range(1, min(len(parts), _MAX_PARTS))
        }

    def value(self, shape: Shape, old: str, new: str, *, required: bool, depth: int = 0) -> Any:
        """Return the value of the field ``old``, which is named ``new`` in the result.

        ``MISSING`` if the field was not sent.  Invalid input is returned as text and adds a problem.
        """
        text = self._form.get(mark(old, "json"))
        if text is not None:
            return self._json(shape, lines(text), new, required=required)
        if shape.kind in COMPOSITE:
            if depth >= MAX_DEPTH:
                return MISSING
            return self._composite(shape, old, new, required=required, depth=depth)
        if shape.kind is InputKind.CHOICES:
            return self._choices(shape, old, required=required)
        text = self._form.get(old)
        is_plain = required and not shape.nullable
        # Browsers send nothing for a checkbox that is not checked.
        if shape.kind is InputKind.CHECKBOX and is_plain:
            return text == "true"
        if text is None:
            return MISSING
        if shape.kind in {InputKind.CHOICE, InputKind.CHECKBOX}:
            return _option(text)
        text = lines(text)
        if not (text if shape.kind is InputKind.TEXT else text.strip()):
            return empty_value(shape, required=required)
        return text if shape.kind is InputKind.TEXT else self._number(shape, text, new)

    def _add_problem(self, name: str, message: str) -> None:
        self.problems.append(FieldProblem(name, message))

    def _json(self, shape: Shape, text: str, new: str, *, required: bool) -> Any:
        if not text.strip():
            return empty_value(shape, required=required)
        try:
            return read_json(text)
        except canonical_json.NotJsonError as error:
            self.typed[mark(new, "json")] = text
            self._add_problem(new, not_json(error))
            return text

    def _number(self, shape: Shape, text: str, new: str) -> Any:
        """Return a number with the precision of the input; integers stay integers."""
        excerpt = shorten(text.strip())
        kind = "an integer" if shape.kind is InputKind.INTEGER else "a number"
        message = f"must be {kind}, not {as_json(excerpt)}"
        try:
            # float() would change large integers, and accept `nan`, `1_000` and digits of other scripts
            # (test_numbers_are_read_exactly).
            number = read_json(text.strip())
        except canonical_json.NotJsonError as error:
            number, message = None, error.message if error.hint else message  # too large
        if is_number(number):
            is_exact = abs(number) <= canonical_json.MAX_EXACT_INTEGER
            is_whole = shape.kind is InputKind.INTEGER and is_exact and shape.holds(number)
            return int(number) if is_whole else number
        self.typed[new] = text
        self._add_problem(new, message)
        return text

    def _choices(self, shape: Shape, old: str, *, required: bool) -> Any:
        checked = self._form.getlist(old)
        if not checked and old not in self._sent:
            return MISSING
        if not checked:
            return empty_value(shape, required=required)
        return [option.value for option in shape.options if as_json(option.value) in checked]

    def _composite(self, shape: Shape, old: str, new: str, *, required: bool, depth: int) -> Any:
        if self._removed == old:
            self.focus = new
            return empty_value(shape, required=required)
        if old not in self._sent:
            if self._added != old:
                return empty_value(shape, required=required)
            self.focus = inner_name(new, 0) if shape.kind is InputKind.LIST else new
            return initial_value(shape, with_item=True)
        if shape.kind is InputKind.OBJECT:
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
        return {key: value for key, value in read.items() if value is not MISSING}

    def _list(self, shape: Shape, old: str, new: str, depth: int) -> list[Any]:
        items: list[Any] = []
        for number in self._form.getlist(mark(old, "item")):
            old_item = f"{old}/{number}"
            if old_item == self._removed:
                self.focus = new
                continue
            name = inner_name(new, len(items))
            items.append(self.value(shape.item, old_item, name, required=True, depth=depth + 1))
        if self._added == old:
            self.focus = inner_name(new, len(items))
            items.append(start(shape.item))
        return items


_PLACE = re.compile(r"(\d+):(\d+): (.*)")


def not_json(error: canonical_json.NotJsonError) -> str:
    """Return why a typed text is not JSON, with the line and the column."""
    if place := _PLACE.fullmatch(error.message):
        return f"this is not JSON, in line {place[1]} at column {place[2]}: {place[3]}"
    return f"this is not JSON: {error.message}"


def read_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        NotJsonError: also for values that JSON cannot contain, such as a lone surrogate.
    """
    value = canonical_json.loads(text)
    canonical_json.dumps(value)
    return value


def _option(text: str) -> Any:
    """Return the chosen value; unknown input becomes a text, which the schema refuses."""
    if not text:
        return MISSING
    try:
        return read_json(text)
    except canonical_json.NotJsonError:
        return text


def lines(text: str) -> str:
    """Return a text with the line ends that it had before the browser converted them."""
    return text.replace("\r\n", "\n")


def settled(draft: Any) -> Any:
    """Return a value with null for list items that are not filled in yet."""
    if isinstance(draft, dict):
        return {key: settled(value) for key, value in draft.items()}
    if isinstance(draft, list):
        return [settled(value) for value in draft]
    return None if draft is MISSING else draft
