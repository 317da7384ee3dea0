"""Shortened schemas for lists of tools: they allow each value that the whole schema allows, and possibly more.

A client of MCP reads the schemas of all tools in a list.  Calls are validated against the whole schema, and
``read_tool`` returns it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from covalt_git.json_values import pointer
from covalt_git.json_values.pointer import REF
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from covalt_git.json_values import JsonObject

MAX_INPUT: Final = 16 << 10
"""Bytes of the listed schema of a tool's arguments."""

MAX_OUTPUT: Final = 8 << 10
"""Bytes of the listed schema of a tool's answer."""

_DEFS: Final = "$defs"
_DEEPEST = 64
_TEXT_LENGTHS = (200, 80, 0)
_STUB = ("type", "title", "description", "format", "deprecated")
"""Keywords of a schema that is cut; each of them allows more without the others."""

_ONE = (
    *("items", "additionalProperties", "contains", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties"),
)
_MANY = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "dependentSchemas")
# A schema that allows more in one of these makes the whole allow less.
_REVERSING = frozenset({"not", "if", "then", "else", "maxContains", "minContains", "contentSchema"})
_UNEVALUATED = frozenset({"unevaluatedItems", "unevaluatedProperties"})
_LONG = frozenset({"examples", "default", "$comment"})


class _Cut(NamedTuple):
    """How much of a schema stays: subschemas to a depth, and texts to a length; None is all of them."""

    depth: int
    text_length: int | None


def cut_schema(schema: JsonObject, definitions: Mapping[str, JsonObject], limit: int) -> JsonObject:
    """Return a schema of at most ``limit`` bytes of JSON, with the definitions that it needs under ``$defs``.

    A value that the schema allows with all its definitions is also allowed by the result.
    """
    best = _within(schema, definitions, None, limit)
    if best is not None:
        return best
    # The number of attempts is small: each one ends when it exceeds the limit.
    for depth in range(1, _DEEPEST):
        attempt = _within(schema, definitions, _Cut(depth, None), limit)
        if attempt is None:
            break
        best = attempt
    if best is not None:
        return best
    for length in _TEXT_LENGTHS:
        attempt = _within(schema, definitions, _Cut(1, length), limit)
        if attempt is not None:
            return attempt
    return {"type": "object"} if _types(schema, definitions) == "object" else {}


def _within(
    schema: JsonObject, definitions: Mapping[str, JsonObject], cut: _Cut | None, limit: int
) -> JsonObject | None:
    """Return the schema with its definitions, or None if it is larger than the limit."""
    definitions = {**definitions, **schema.get(_DEFS, {})}
    schema = {key: value for key, value in schema.items() if key != _DEFS}
    result: JsonObject = {}
    depths: dict[str, int] = {}
    room = limit
    level = [("", schema, 0)]
    reached: JsonObject = {}
    # By levels, so that a definition is cut where it is nearest to the beginning.
    while level:
        following: list[tuple[str, JsonObject, int]] = []
        for name, part, depth in level:
            written = part if cut is None else _cut(part, cut, depth)
            room -= len(json.dumps(written, ensure_ascii=False).encode()) + len(name) + 6
            if room < 0:
                return None
            if name:
                reached[name] = written
            else:
                result = written
            for other, distance in _references(written):
                if other in definitions and other not in depths:
                    depths[other] = depth + distance
                    following.append((other, definitions[other], depth + distance))
        level = sorted(following, key=lambda entry: (entry[2], entry[0]))
    whole = result | ({_DEFS: dict(sorted(reached.items()))} if reached else {})
    return whole if len(json.dumps(whole, ensure_ascii=False).encode()) <= limit else None


def _cut(schema: Any, cut: _Cut, depth: int) -> Any:
    """Return a schema without the subschemas below a depth."""
    if not isinstance(schema, dict):
        return schema
    if depth >= cut.depth:
        return _stub(schema, cut)
    result: JsonObject = {}
    for key, value in schema.items():
        if key in _REVERSING or key in _UNEVALUATED or key in _LONG:
            continue
        if key in _ONE:
            result[key] = _cut(value, cut, depth + 1)
        elif key in _MANY and isinstance(value, list):
            # With alternatives that allow more, a value can match two of them.
            name = "anyOf" if key == "oneOf" else key
            if name not in result:
                result[name] = [_cut(inner, cut, depth + 1) for inner in value]
        elif key in _NAMED and isinstance(value, dict):
            result[key] = {name: _cut(inner, cut, depth + 1) for name, inner in value.items()}
        elif key == "description" and cut.text_length is not None:
            if cut.text_length:
                result[key] = shorten(str(value), cut.text_length)
        else:
            result[key] = value
    return result


def _stub(schema: JsonObject, cut: _Cut) -> JsonObject:
    """Return what a schema says about a value itself."""
    stub = {key: schema[key] for key in _STUB if key in schema}
    length = 200 if cut.text_length is None else cut.text_length
    for key in ("title", "description"):
        if key in stub:
            stub[key] = shorten(str(stub[key]), length) if length else ""
            if not stub[key]:
                del stub[key]
    values = schema.get("enum")
    if isinstance(values, list) and len(json.dumps(values)) <= max(length, 20):
        stub["enum"] = values
    return stub


def _references(schema: Any, distance: int = 0) -> Iterator[tuple[str, int]]:
    """Yield the definitions that a schema refers to, with the number of schemas around the reference."""
    if isinstance(schema, list):
        for inner in schema:
            yield from _references(inner, distance)
    elif isinstance(schema, dict):
        if isinstance(schema.get(REF), str) and schema[REF].startswith("#/$defs/"):
            yield pointer.name_of(schema), distance
        for key, value in schema.items():
            if key in _ONE or key in _MANY or key in _REVERSING:
                yield from _references(value, distance + 1)
            elif key in _NAMED and isinstance(value, dict):
                for inner in value.values():
                    yield from _references(inner, distance + 1)


def _types(schema: JsonObject, definitions: Mapping[str, JsonObject]) -> Any:
    """Return the type of a schema, also if it is a reference to a definition."""
    for _ in range(_DEEPEST):
        if REF not in schema or "type" in schema:
            break
        schema = definitions.get(pointer.name_of(schema), {})
    return schema.get("type")
