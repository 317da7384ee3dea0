"""Check of the types in a JSON value by a schema that pydantic generated.

It checks types, keys, items and alternatives.  Pydantic checks ranges, patterns and custom validators
after that.  Pydantic alone is not enough: its lax mode accepts "5" as an integer, and its strict mode
rejects dates as text if they have a custom validator.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from covalt_toolset import json_path
from covalt_toolset.result_json import MAX_EXACT_INTEGER

if TYPE_CHECKING:
    from collections.abc import Iterator

_WORDS = {
    "null": "null",
    "boolean": "a boolean",
    "integer": "an integer",
    "number": "a number",
    "string": "a string",
    "array": "an array",
    "object": "an object",
}

_FORMATS = {
    # Without these, pydantic accepts "1704067200" as seconds since 1970.
    "date": (re.compile(r"\d{4}-\d\d-\d\d"), "must be a date such as 2026-01-31"),
    "date-time": (
        re.compile(r"\d{4}-\d\d-\d\d[Tt _]\d\d:\d\d.*"),
        "must be a date and time such as 2026-01-31T12:00:00Z",
    ),
    "time": (re.compile(r"\d\d:\d\d.*"), "must be a time such as 12:00:00"),
}

Schema = Mapping[str, Any]


@dataclass(frozen=True)
class ArgumentProblem:
    """A problem of the arguments of a call, and its place."""

    path: str
    message: str

    def __str__(self) -> str:
        """Return ``$.rows[3].name: missing``."""
        return f"{self.path}: {self.message}"


@dataclass(frozen=True)
class TypeChecker:
    """Checks values by schemas, which can refer to the ``$defs`` of the same document."""

    definitions: Mapping[str, Schema]

    def mismatches(self, value: Any, schema: Schema, *, place: str) -> Iterator[ArgumentProblem]:
        """Yield the places where ``value`` does not match ``schema``."""
        if not isinstance(schema, Mapping):  # an author can write ``true``
            return
        kinds = self._kinds(schema)
        if not _is_one_of(value, kinds):
            words = _either([_WORDS[kind] for kind in sorted(kinds, key=list(_WORDS).index)])
            yield ArgumentProblem(place, f"must be {words}, not {_words(value, kinds)}")
            return
        if "$ref" in schema:
            yield from self.mismatches(value, self._target(schema), place=place)
        for part in schema.get("allOf", ()):
            yield from self.mismatches(value, part, place=place)
        if isinstance(value, dict) and "discriminator" in schema:
            yield from self._tagged(value, schema, place=place)
        elif choices := _choices(schema):
            yield from self._nearest_choice(value, choices, place=place)
        yield from _value_mismatches(value, schema, place=place)
        if isinstance(value, dict):
            yield from self._key_mismatches(value, schema, place=place)
        if isinstance(value, list):
            yield from self._item_mismatches(value, schema, place=place)

    def part_at(self, schema: Any, place: str) -> Schema:
        """Return the part of a schema that is about a place of a value, or about the nearest one above it.

        It is empty if each alternative says something else about the place.
        """
        nearest: Schema = schema
        for part in json_path.parts(place):
            below = list(self._below(nearest, part))
            if not below:
                break
            if any(choice != below[0] for choice in below):
                return {}
            nearest = below[0]
        return self._target(nearest) if nearest.keys() == {"$ref"} else nearest

    def _below(self, schema: Schema, part: str | int) -> Iterator[Schema]:
        """Yield the schemas of a key or an item: one, unless there are alternatives."""
        candidates = [schema.get("properties", {}).get(part), schema.get("additionalProperties")]
        if isinstance(part, int):
            candidates = [*schema.get("prefixItems", ())[part : part + 1], schema.get("items")]
        own = next((candidate for candidate in candidates if isinstance(candidate, Mapping)), None)
        if own is not None:
            yield own
            return
        if "$ref" in schema:
            yield from self._below(self._target(schema), part)
        for inner in (*schema.get("allOf", ()), *_choices(schema)):
            yield from self._below(inner, part)

    def _key_mismatches(
        self, value: dict[str, Any], schema: Schema, *, place: str
    ) -> Iterator[ArgumentProblem]:
        properties = schema.get("properties", {})
        patterns = schema.get("patternProperties", {})
        others = schema.get("additionalProperties", True)
        for key in schema.get("required", ()):
            if key not in value:
                yield ArgumentProblem(json_path.member(place, key), "missing")
        for key, inner in value.items():
            spot = json_path.member(place, key)
            # Of keys, the formats: without this check, pydantic accepts "1704067200" as a date.
            yield from _value_mismatches(key, schema.get("propertyNames", {}), place=spot)
            if key in properties:
                yield from self.mismatches(inner, properties[key], place=spot)
            elif patterns:  # pydantic checks the keys, which all have to match
                for part in patterns.values():
                    yield from self.mismatches(inner, part, place=spot)
            elif others is False:
                yield ArgumentProblem(spot, "unknown key")
            elif others is not True:
                yield from self.mismatches(inner, others, place=spot)

    def _item_mismatches(
        self, value: list[Any], schema: Schema, *, place: str
    ) -> Iterator[ArgumentProblem]:
        first = schema.get("prefixItems", [])
        rest = schema.get("items", {})
        for index, inner in enumerate(value):
            part = first[index] if index < len(first) else rest
            yield from self.mismatches(inner, part, place=json_path.item(place, index))
        if "prefixItems" in schema:  # clearer than pydantic's "missing" for an item of a tuple
            yield from _length_mismatches(value, schema, place=place)
        # As JSON: items can be lists and objects, which no set contains, and 1 equals true in Python.
        if schema.get("uniqueItems") and len(set(map(_equality, value))) < len(value):
            yield ArgumentProblem(place, "must not contain an item twice")

    def _nearest_choice(
        self, value: Any, choices: list[Schema], *, place: str
    ) -> Iterator[ArgumentProblem]:
        """Yield the problems by the alternative that has the fewest."""
        fitting = [choice for choice in choices if _is_one_of(value, self._kinds(choice))]
        # By its tag, because a value with a wrong tag would otherwise get the problems of a class that is not meant.
        tag = self._tag(fitting) if isinstance(value, dict) and len(fitting) > 1 else None
        if tag is not None:
            key, allowed = tag
            if key not in value:
                yield ArgumentProblem(json_path.member(place, key), "missing")
                return
            fitting = [
                choice
                for choice, tags in zip(fitting, allowed, strict=True)
                if any(_equal(value[key], option) for option in tags)
            ]
            if not fitting:
                words = _either([json.dumps(option) for tags in allowed for option in tags])
                yield ArgumentProblem(json_path.member(place, key), f"must be {words}")
                return
        problems = [list(self.mismatches(value, choice, place=place)) for choice in fitting]
        yield from min(problems, key=len)

    def _tag(self, choices: list[Schema]) -> tuple[str, list[list[Any]]] | None:
        """Return the required key that has other values in each alternative, and these values; None without one."""
        whole = [self._target(choice) if "$ref" in choice else choice for choice in choices]
        for key in whole[0].get("properties", {}):
            values = [
                _allowed(choice.get("properties", {}).get(key))
                if key in choice.get("required", ())
                else []
                for choice in whole
            ]
            every = [json.dumps(value) for tags in values for value in tags]
            if all(values) and len(set(every)) == len(every):
                return key, values
        return None

    def _tagged(
        self, value: dict[str, Any], schema: Schema, *, place: str
    ) -> Iterator[ArgumentProblem]:
        """Yield the problems by the alternative that the value's discriminator names."""
        key, targets = schema["discriminator"]["propertyName"], schema["discriminator"]["mapping"]
        # The mapping has the tags as texts, also the tag 1.
        target = targets.get(str(value.get(key)))
        if target:  # the schema itself, if this alternative is distinguished by another key
            part = {"$ref": target} if isinstance(target, str) else target
            yield from self.mismatches(value, part, place=place)
            return
        words = _either([json.dumps(tag) for tag in targets])
        message = f"must be {words}" if key in value else "missing"
        yield ArgumentProblem(json_path.member(place, key), message)

    def _kinds(self, schema: Schema) -> set[str]:
        """Return the JSON types that ``schema`` allows; all types if it does not restrict them."""
        if "type" in schema:
            types = schema["type"]
            return {types} if isinstance(types, str) else set(types)
        if "$ref" in schema:
            return self._kinds(self._target(schema))
        if "const" in schema:
            return {_kind(schema["const"])}
        if "enum" in schema:
            return {_kind(value) for value in schema["enum"]}
        if choices := _choices(schema):
            return set().union(*(self._kinds(choice) for choice in choices))
        return set(_WORDS)

    def _target(self, schema: Schema) -> Schema:
        return self.definitions.get(schema["$ref"].removeprefix("#/$defs/"), {})


def _choices(schema: Schema) -> list[Schema]:
    return [*schema.get("anyOf", ()), *schema.get("oneOf", ())]


def _allowed(schema: Any) -> list[Any]:
    """Return the only values that a schema allows; empty if it does not list them."""
    if not isinstance(schema, Mapping):
        return []
    return [schema["const"]] if "const" in schema else list(schema.get("enum", ()))


def _value_mismatches(value: Any, schema: Schema, *, place: str) -> Iterator[ArgumentProblem]:
    allowed = _allowed(schema)
    if allowed and not any(_equal(value, choice) for choice in allowed):
        yield ArgumentProblem(
            place, f"must be {_either([json.dumps(choice) for choice in allowed])}"
        )
    if isinstance(value, str) and schema.get("format") in _FORMATS:
        pattern, message = _FORMATS[schema["format"]]
        if not pattern.fullmatch(value):
            yield ArgumentProblem(place, message)


def _length_mismatches(
    value: list[Any], schema: Schema, *, place: str
) -> Iterator[ArgumentProblem]:
    least, most = schema.get("minItems", 0), schema.get("maxItems", len(value))
    if not least <= len(value) <= most:
        expected = f"{least}" if least == most else f"{least} or more"
        yield ArgumentProblem(place, f"must have {expected} items, not {len(value)}")


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _words(value: Any, kinds: set[str]) -> str:
    """Return what a value is that has none of these kinds."""
    if "integer" in kinds and isinstance(value, float) and value.is_integer():
        return f"a rounded number beyond {MAX_EXACT_INTEGER}; write all digits of the integer"
    return _WORDS[_kind(value)]


def _is_one_of(value: Any, kinds: set[str]) -> bool:
    kind = _kind(value)
    if kind in kinds:
        return True
    if kind == "integer":
        return "number" in kinds
    # 5.0 is an integer (JSON Schema Validation, 6.1.1), as long as it is exact.
    exact = kind == "number" and value.is_integer() and abs(value) <= MAX_EXACT_INTEGER
    return exact and "integer" in kinds


def _equality(value: Any) -> str:
    """Return a text that is the same for equal JSON values: 1.0 is 1, but true is not (JSON Schema Core, 4.2.2)."""
    return json.dumps(_with_plain_integers(value), sort_keys=True)


def _with_plain_integers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_with_plain_integers(item) for item in value]
    if isinstance(value, dict):
        return {key: _with_plain_integers(item) for key, item in value.items()}
    return value


def _equal(left: Any, right: Any) -> bool:
    # In JSON, true is not 1.
    return isinstance(left, bool) is isinstance(right, bool) and bool(left == right)


def _either(words: list[str]) -> str:
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
