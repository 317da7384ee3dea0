"""Conversion of pydantic's validation errors into messages with hints, and places in the data.

Users never see pydantic's messages and places.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from covalt_git.errors import nearest_name
from covalt_git.json_values import JsonObject, pointer
from covalt_git.models.base import FORMS, StrictModel
from covalt_git.problems import codes
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

Loc = tuple[str | int, ...]
"""A place in data: keys of mappings and indexes of lists."""

_KINDS = {
    "string": "a text",
    "bool": "true or false",
    "int": "an integer",
    "float": "a number",
    "tuple": "a list",
    "dict": "a mapping",
    "model": "a mapping",
    "model_attributes": "a mapping",
    "list": "a list",
}
_OWN_CODES = {
    "bad_id": codes.BAD_ID,
    "bad_signer": codes.BAD_SIGNER,
    "bad_value": codes.BAD_VALUE,
}
"""The error types that our validators raise with a message and a hint."""

_PLAIN_RULES = {"greater than or equal to": "at least", "less than or equal to": "at most"}
_TRUE = frozenset({"true", "yes", "on", "y", "1"})
_FALSE = frozenset({"false", "no", "off", "n", "0"})


class ModelError(NamedTuple):
    """One error; with ``at_key``, its place is the last key of ``loc``, not the value.

    ``unused`` are the known keys that could replace an unknown one.
    """

    loc: Loc
    code: str
    message: str
    hint: str = ""
    at_key: bool = False
    unused: tuple[str, ...] = ()


_MOST_MISSPELT = 500
"""The most keys of a mapping in which unknown keys are compared with known ones."""

_MOST_OWNERS = 2
"""The most keys that an unknown key can belong to, so that a hint names them."""

_LONGEST_SHORT = 4
"""Characters of an abbreviation; the nearest name of a longer one is what was meant."""


@cache
def _schema_of(model: type[StrictModel]) -> JsonObject:
    """Return the JSON Schema of a model, cached: that of the manifest takes 100 ms."""
    return model.model_json_schema()


def model_errors(error: ValidationError, data: Any, model: type[StrictModel]) -> list[ModelError]:
    """Return the errors of ``data`` in plain words."""
    schema = _schema_of(model)
    choices: dict[Loc, list[ErrorDetails]] = {}
    errors = []
    for details in error.errors():
        loc = tuple(details["loc"])
        place = _in_data(data, loc)
        # Pydantic reports each alternative of a union, by a place with a part that is not in the data.
        if details["type"].endswith("_type") and loc[-1:] != place[-1:]:
            choices.setdefault(place, []).append(details)
        else:
            errors.append(_model_error(details, data, schema))
    # An error inside of one alternative: its author meant that one, so the others are not reported.
    reported = {model_error.loc for model_error in errors}
    errors += [_no_choice(loc, failed) for loc, failed in choices.items() if loc not in reported]
    return list(dict.fromkeys(errors))  # two alternatives can have the same error


def _no_choice(loc: Loc, failed: list[ErrorDetails]) -> ModelError:
    """Return one error for a value that has none of several types."""
    kinds = dict.fromkeys(_KINDS.get(_kind(details), "something else") for details in failed)
    message = f"must be {' or '.join(reversed(kinds))}, not {_shortened(failed[0]['input'])}"
    return ModelError(loc, codes.BAD_VALUE, message)


def _model_error(details: ErrorDetails, data: Any, schema: JsonObject) -> ModelError:
    kind, loc, value = details["type"], tuple(details["loc"]), details["input"]
    context = details.get("ctx", {})
    if loc and loc[-1] == "[key]":
        place, at_key = loc[:-1], True
    elif kind == "extra_forbidden":
        place, at_key = (*_in_data(data, loc[:-1]), loc[-1]), True
        mapping = [value for _, value in _way(data, loc[:-1])][-1:] or [data]
        return _unknown_key(schema, loc, place, mapping[0])
    else:
        place, at_key = _in_data(data, loc), False
    if kind == "missing":
        return ModelError(place, *_missing_key(schema, loc))
    if kind == "union_tag_not_found":
        key = str(context["discriminator"]).strip("'")
        return ModelError(place, codes.MISSING_KEY, f"missing key {key!r}", f"add {key}: ...")
    if kind == "union_tag_invalid":
        key = str(context["discriminator"]).strip("'")
        words = _not_allowed(context["tag"], str(context["expected_tags"]))
        return ModelError((*place, key), *words)
    if kind == "literal_error":
        return ModelError(place, *_not_allowed(value, str(context["expected"])), at_key=at_key)
    if kind in _OWN_CODES:
        code = _OWN_CODES[kind]
        where = (*place, *context["at"])
        return ModelError(where, code, details["msg"], context["hint"], at_key=at_key)
    if _kind(details) in _KINDS:
        if not loc:
            return _not_a_document(_KINDS[_kind(details)], value, _required(schema, ()))
        message = f"must be {_KINDS[_kind(details)]}, not {_shortened(value)}"
        return ModelError(place, codes.BAD_VALUE, message, _as_type(kind, value, schema, loc))
    if kind == "string_pattern_mismatch":
        what, example = FORMS[str(context["pattern"])]
        message = f"must be {what}, not {_shortened(value)}"
        return ModelError(place, codes.BAD_VALUE, message, f"such as {example}", at_key=at_key)
    rule = details["msg"].removeprefix("Input should ").removeprefix("String should ")
    for phrase, plain in _PLAIN_RULES.items():
        rule = rule.replace(phrase, plain)
    return ModelError(
        place, codes.BAD_VALUE, f"must {rule}, not {_shortened(value)}", at_key=at_key
    )


def _not_a_document(kind: str, value: Any, needed: Sequence[str]) -> ModelError:
    """Return the error of a file that does not have the structure of a document.

    The file may be a link to a private file, so the error must not contain its text.
    """
    if isinstance(value, dict | list):
        is_not = _shortened(value)
    else:
        is_not = "a text" if isinstance(value, str) else "a value"
    message = "the file is empty" if value is None else f"the file must be {kind}, not {is_not}"
    hint = f"write `key: value` lines; required: {', '.join(needed)}" if needed else ""
    return ModelError((), codes.BAD_VALUE, message, hint)


def _kind(details: ErrorDetails) -> str:
    return details["type"].removesuffix("_type")


def _unknown_key(schema: JsonObject, loc: Loc, place: Loc, mapping: JsonObject) -> ModelError:
    name = str(loc[-1])
    keys = sorted(_properties(schema, loc[:-1]))
    # So many keys are data in the wrong place and no misspellings, and each comparison takes time.
    is_data = len(mapping) > _MOST_MISSPELT
    unused = () if is_data else tuple(key for key in keys if key not in mapping)
    near = _in_full(name, unused) or nearest_name(name, unused)
    listed = f"known keys: {', '.join(keys)}" if keys else "this has no keys: remove it"
    hint = f"write {near!r}; {listed}" if near else listed
    owners = [key for key in keys if name in _properties(schema, (*loc[:-1], key))]
    if not near and 0 < len(owners) <= _MOST_OWNERS:
        value = mapping.get(name)
        text = str(value).lower() if isinstance(value, bool | int) else "..."
        written = " or ".join(f"{key}: {{{name}: {text}}}" for key in owners)
        hint = f"{name} belongs to another key: write {written}"
    message = f"unknown key {name!r}"
    return ModelError(place, codes.UNKNOWN_KEY, message, hint, at_key=True, unused=unused)


def _in_full(name: str, keys: Iterable[str]) -> str | None:
    """Return the only key that a short name abbreviates, such as ``command`` for ``cmd``."""
    if len(name) > _LONGEST_SHORT:
        return None
    pattern = re.compile(".*".join(map(re.escape, name)) + ".*")
    full = [key for key in keys if pattern.fullmatch(key)]
    return full[0] if len(full) == 1 else None


def _missing_key(schema: JsonObject, loc: Loc) -> tuple[str, str, str]:
    name = str(loc[-1])
    only = _properties(schema, loc[:-1]).get(name, {}).get("const", "...")
    return codes.MISSING_KEY, f"missing key {name!r}", f"add a line: {name}: {only}"


def _not_allowed(value: Any, expected: str) -> tuple[str, str, str]:
    """Return code, message and hint for a value that is not in pydantic's list ``expected``."""
    options = re.findall(r"'([^']*)'", expected) or [expected]
    message = f"{_shortened(value)} is not allowed"
    if len(options) == 1:
        only = f'"{options[0]}"' if expected.startswith("'") else options[0]
        bare = ", without quotes" if value == only else ""
        return codes.BAD_VALUE, message, f"write {only}{bare}"
    # The same word in capitals is meant, although the similarity may be greater with another option.
    same = [option for option in options if option.lower() == str(value).lower()]
    near = same[0] if same else nearest_name(str(value), options)
    listed = f"one of: {', '.join(options)}"
    return codes.BAD_VALUE, message, f"write {near}; {listed}" if near else listed


def _as_type(kind: str, value: Any, schema: JsonObject, loc: Loc) -> str:
    """Return a hint for writing the value as the expected type; empty if there is no simple one."""
    if kind == "model_type":
        needed = _required(schema, loc)
        if len(needed) == 1 and isinstance(value, str):
            return f"write {needed[0]}: {shorten(value)}"
        return f"write `key: value` lines; required: {', '.join(needed)}" if needed else ""
    if value is None:
        is_needed = loc[-1] in _required(schema, loc[:-1])
        return "write a value" if is_needed else "write a value, or remove the line"
    if kind == "bool_type":
        word = str(value).lower()
        return "write true" if word in _TRUE else "write false" if word in _FALSE else ""
    if kind in {"int_type", "float_type"}:
        number = re.match(r"-?[0-9]+", value) if isinstance(value, str) else None
        return f"write {number[0]}, without quotes or unit" if number else ""
    if kind in {"tuple_type", "list_type"}:
        if isinstance(value, dict):
            return "start each item with `- `"
        return "" if isinstance(value, list) else f"write a list: [{_quoted(value)}]"
    if kind == "string_type" and not isinstance(value, list | dict):
        return f"write it in quotes: {_quoted(value)}"
    return ""


def _quoted(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f'"{shorten(text)}"'


def _shortened(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return repr(shorten(value)) if isinstance(value, str) else shorten(repr(value))


# Places


def _in_data(data: Any, loc: Loc) -> Loc:
    """Return a place without parts that are not in the data: union members and missing keys."""
    return tuple(part for part, _ in _way(data, loc))


def _way(data: Any, loc: Loc) -> Iterator[tuple[str | int, Any]]:
    """Yield the parts of ``loc`` that are in the data, with their values."""
    for part in loc:
        in_list = isinstance(data, list) and isinstance(part, int) and part < len(data)
        if in_list or (isinstance(data, dict) and part in data):
            data = data[part]
            yield part, data


def name_place(data: Any, loc: Loc) -> str:
    """Return a place as text, with the ids of list items: ``tools[greet].http``."""
    words = ""
    for part, value in _way(data, loc):
        if isinstance(part, str):
            words += f".{part}"
            continue
        labels = [value.get("id"), value.get("tool_id")] if isinstance(value, dict) else []
        words += f"[{next((shorten(label) for label in labels if isinstance(label, str)), part)}]"
    return words.removeprefix(".")


# JSON Schemas of models


def _properties(schema: JsonObject, loc: Sequence[str | int]) -> JsonObject:
    """Return the schemas of the known keys at a place; empty if all keys are allowed."""
    schemas: JsonObject = {}
    for place in _at(schema, loc):
        schemas |= place.get("properties", {})
    return schemas


def _required(schema: JsonObject, loc: Sequence[str | int]) -> list[str]:
    return [name for place in _at(schema, loc) for name in place.get("required", [])]


def _at(schema: JsonObject, loc: Sequence[str | int]) -> list[JsonObject]:
    places = [schema]
    for part in loc:
        below = [inner for place in places for inner in _step(schema, place, part)]
        places = below or _tagged(schema, places, part)
    return _resolved(schema, places)


def _tagged(root: JsonObject, places: Sequence[JsonObject], tag: str | int) -> list[JsonObject]:
    """Return the members of a union with a tag; pydantic's places contain tags, the data does not."""
    members = []
    for place in _resolved(root, places):
        consts = [field.get("const") for field in place.get("properties", {}).values()]
        if tag in consts:
            members.append(place)
    return members or list(places)


def _step(root: JsonObject, place: JsonObject, part: str | int) -> list[JsonObject]:
    below = []
    for schema in _resolved(root, [place]):
        if isinstance(part, int) and isinstance(schema.get("items"), dict):
            below.append(schema["items"])
        elif part in schema.get("properties", {}):
            below.append(schema["properties"][part])
        elif isinstance(schema.get("additionalProperties"), dict):
            below.append(schema["additionalProperties"])
    return below


def _resolved(root: JsonObject, places: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the schemas after resolving references and alternatives."""
    schemas: list[JsonObject] = []
    for place in places:
        schema = pointer.resolve(root, place)
        choices = schema.get("anyOf") or schema.get("oneOf")
        schemas += _resolved(root, choices) if choices else [schema]
    return schemas
