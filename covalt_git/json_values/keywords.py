"""Values of the keywords of a schema that may be invalid: one with a value of the wrong type is ignored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject


def object_at(schema: JsonObject, key: str) -> JsonObject:
    """Return the value of a keyword if it is an object, else an empty object."""
    found = schema.get(key)
    return found if isinstance(found, dict) else {}


def list_at(schema: JsonObject, key: str) -> list[Any]:
    """Return the value of a keyword if it is a list, else an empty list."""
    found = schema.get(key)
    return found if isinstance(found, list) else []


def text_at(schema: JsonObject, key: str) -> str:
    """Return the value of a keyword if it is a text, else an empty text."""
    found = schema.get(key)
    return found if isinstance(found, str) else ""


def number_at(schema: JsonObject, key: str) -> int | float | None:
    """Return the value of a keyword if it is a number, else None."""
    found = schema.get(key)
    return found if is_number(found) else None


def is_number(value: Any) -> TypeGuard[int | float]:
    """Return whether a value is a JSON number; booleans are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)
