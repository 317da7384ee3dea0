"""JSON values: canonical bytes, JSON Schema, pointers and differences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

JsonObject = dict[str, Any]
"""A JSON object with any keys."""


def with_texts(value: Any, change: Callable[[str], str], *, keys: bool = False) -> Any:
    """Return a JSON value with each text replaced by ``change(text)``; with ``keys``, also the keys of objects."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {
            change(key) if keys else key: with_texts(inner, change, keys=keys)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [with_texts(inner, change, keys=keys) for inner in value]
    return value


def leaves(value: Any) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield the values in a JSON value that are neither objects nor lists, with their keys and indexes."""
    # A list, not recursion: values come from others, and can be nested deeper than Python's stack.
    waiting: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while waiting:
        loc, part = waiting.pop()
        if isinstance(part, dict):
            waiting += [((*loc, key), inner) for key, inner in reversed(part.items())]
        elif isinstance(part, list | tuple):
            waiting += [((*loc, at), inner) for at, inner in reversed(list(enumerate(part)))]
        else:
            yield loc, part


def object_schema(properties: JsonObject, required: Sequence[str] | None = None) -> JsonObject:
    """Return the schema of an object with only these properties, by default all of them required."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties] if required is None else [*required],
        "additionalProperties": False,
    }
