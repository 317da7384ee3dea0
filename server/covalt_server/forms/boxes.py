"""Input box of one text or number: its size, its HTML attributes and the note next to it.

An attribute is set only if its meaning in browsers equals JSON Schema's: a browser must not refuse or change
what the schema allows.  Other limits are in the note, and the server checks them.
"""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, Any

from covalt_git.text.display import shorten
from covalt_server.forms.schema import list_at, number_at, text_at
from covalt_server.forms.shapes import MISSING, InputKind, Shape, as_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.json_values import JsonObject

PLAIN = {"autocapitalize": "none", "autocomplete": "off", "spellcheck": "false"}
"""Attributes of every box, so that browsers do not change the input."""

_LONG_NAMES = frozenset({"content", "text", "code", "body", "markdown", "html", "source"})
_LONG_TEXT = 200
_SHORT_NAMES = frozenset(
    {
        *("branch", "city", "column", "country", "date", "dir", "directory", "email", "file"),
        *("filename", "folder", "host", "id", "key", "language", "locale", "name", "path", "port"),
        *("tag", "time", "timezone", "title", "type", "uri", "url", "version"),
    }
)
"""A field whose name ends with one of these gets a single-line box, which drops line breaks."""

_FORMATS = {
    "date": "such as 2026-11-20",
    "date-time": "such as 2026-11-20T17:24:00Z",
    "time": "such as 17:24:00Z",
    "duration": "such as P1DT12H",
    "email": "an email address",
    "uri": "a URL, https://...",
    "uuid": "a UUID",
}
_KEYBOARDS = {"email": "email", "idn-email": "email", "uri": "url", "iri": "url"}


def limits(shape: Shape) -> Iterator[str]:
    """Yield the limits of a value in addition to its type, such as "at most 5 items"."""
    schema = shape.schema
    if shape.kind in {InputKind.NUMBER, InputKind.INTEGER}:
        yield from _range(schema, "minimum", "maximum", "")
        if (least := number_at(schema, "exclusiveMinimum")) is not None:
            yield f"more than {least}"
        if (most := number_at(schema, "exclusiveMaximum")) is not None:
            yield f"less than {most}"
        if (step := number_at(schema, "multipleOf")) is not None:
            yield f"a multiple of {step}"
    elif shape.kind is InputKind.TEXT:
        yield from _range(schema, "minLength", "maxLength", " characters")
        if pattern := text_at(schema, "pattern"):
            yield f"must match {pattern}"
        if form := _FORMATS.get(text_at(schema, "format")):
            yield form
    elif shape.kind in {InputKind.LIST, InputKind.CHOICES}:
        yield from _range(schema, "minItems", "maxItems", " items")


def _range(schema: JsonObject, least: str, most: str, unit: str) -> Iterator[str]:
    low, high = number_at(schema, least), number_at(schema, most)
    unit = unit.removesuffix("s") if (high if high is not None else low) == 1 else unit
    if low is not None and high is not None:
        yield f"{low}{unit}" if low == high else f"{low} to {high}{unit}"
    elif low:
        yield f"at least {low}{unit}"
    elif low is not None and not unit:
        yield f"at least {low}"
    elif high is not None:
        yield f"at most {high}{unit}"


def number_attributes(*, is_integer: bool, required: bool) -> dict[str, str]:
    """Return the attributes of a number's box.

    It is a text box, because a number box drops input that it cannot parse.
    """
    keyboard = {"type": "text", "inputmode": "numeric" if is_integer else "decimal"}
    return keyboard | ({"required": ""} if required else {})


def text_attributes(schema: JsonObject, text: str, *, required: bool) -> dict[str, str]:
    """Return the attributes with the same meaning in browsers and in the schema.

    Limits of the length are not used, because browsers count UTF-16 units; nor ``pattern``, whose language differs;
    nor ``type=email``, because formats are annotations in JSON Schema.  The date picker is used only for a valid or
    empty date.
    """
    attributes = {"type": "text"}
    form = text_at(schema, "format")
    if required and (number_at(schema, "minLength") or 0) > 0:
        attributes["required"] = ""
    if form == "date" and (not text or _is_date(text)):
        attributes["type"] = "date"
    if form in _KEYBOARDS:
        attributes["inputmode"] = _KEYBOARDS[form]
    return attributes


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def rows(name: str, schema: JsonObject, text: str) -> int:
    """Return the number of lines of a text box; 0 for a single-line box."""
    if "\n" in text or name.lower() in _LONG_NAMES:
        return 8
    most = number_at(schema, "maxLength")
    if most is not None:
        return 8 if most > _LONG_TEXT else 0
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)
    samples = [schema.get("default"), *list_at(schema, "examples")]
    is_short = (
        any(text_at(schema, key) for key in ("format", "pattern"))
        or bool(words and words[-1].lower() in _SHORT_NAMES)
        or any(isinstance(one, str) and one and "\n" not in one for one in samples)
    )
    return 0 if is_short else 1


def suggestions(shape: Shape) -> tuple[str, ...]:
    """Return the examples of a schema that a single-line box can show."""
    samples = [one for one in list_at(shape.schema, "examples") if shape.holds(one)]
    return tuple(text for text in map(shown_text, samples) if not re.search(r"[\r\n\0]", text))


def shown_text(value: Any) -> str:
    """Return a text or number in the form for its box."""
    if value is MISSING or value is None:
        return ""
    return value if isinstance(value, str) else as_json(value)


def brief(value: Any) -> str:
    """Return a value in the form for a note."""
    return shorten(value if isinstance(value, str) else as_json(value), _LONG_TEXT)
