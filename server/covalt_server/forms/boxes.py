"""Input box of one text or number: its size and its HTML attributes.

An attribute is set only if its meaning in browsers equals JSON Schema's: a browser must not refuse or change
what the schema allows.  Other limits are in the note, and the server checks them.
"""

from __future__ import annotations

import re
from datetime import date
from typing import TYPE_CHECKING, Any

from covalt_git.json_values.keywords import list_at, number_at, text_at
from covalt_git.text.display import shorten
from covalt_server.forms.shapes import MISSING, Shape, as_json

if TYPE_CHECKING:
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

_KEYBOARDS = {"email": "email", "idn-email": "email", "uri": "url", "iri": "url"}


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
        or any(isinstance(sample, str) and sample and "\n" not in sample for sample in samples)
    )
    return 0 if is_short else 1


def suggestions(shape: Shape) -> tuple[str, ...]:
    """Return the examples of a schema that a single-line box can show."""
    samples = [sample for sample in list_at(shape.schema, "examples") if shape.holds(sample)]
    return tuple(text for text in map(shown_text, samples) if not re.search(r"[\r\n\0]", text))


def shown_text(value: Any) -> str:
    """Return a text or number in the form for its box."""
    if value is MISSING or value is None:
        return ""
    return value if isinstance(value, str) else as_json(value)


def brief(value: Any) -> str:
    """Return a value in the form for a note."""
    return shorten(value if isinstance(value, str) else as_json(value), _LONG_TEXT)
