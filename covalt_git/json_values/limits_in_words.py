"""Descriptions of the limits of a schema, such as "1 to 9", for forms and for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covalt_git.json_values.keywords import number_at, text_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.json_values import JsonObject

_FORMATS = {
    "date": "such as 2026-11-20",
    "date-time": "such as 2026-11-20T17:24:00Z",
    "time": "such as 17:24:00Z",
    "duration": "such as P1DT12H",
    "email": "an email address",
    "uri": "a URL, https://...",
    "uuid": "a UUID",
}


def limits_in_words(schema: JsonObject, kind: str) -> Iterator[str]:
    """Yield the limits of a value of one of JSON Schema's types in addition to it, such as "at most 5 items"."""
    match kind:
        case "number" | "integer":
            yield from _range(schema, "minimum", "maximum", "")
            if (least := number_at(schema, "exclusiveMinimum")) is not None:
                yield f"more than {least}"
            if (most := number_at(schema, "exclusiveMaximum")) is not None:
                yield f"less than {most}"
            if (step := number_at(schema, "multipleOf")) is not None:
                yield f"a multiple of {step}"
        case "string":
            yield from _range(schema, "minLength", "maxLength", " characters")
            if pattern := text_at(schema, "pattern"):
                yield f"must match {pattern}"
            if form := _FORMATS.get(text_at(schema, "format")):
                yield form
        case "array":
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
