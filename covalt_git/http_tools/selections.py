"""Check of the fields that a caller selects from the answer of a GraphQL API.

The types of the answer are those of a schema, in a short form that a lock stores once for all of its tools::

    {"Film": {"fields": {"title": "String!", "cast": {"type": "[Person!]", "args": {"first": "Int"}}}},
     "Unit": {"values": ["METER", "FOOT"]}, "Size": {"inputs": {"unit": "Unit!=", "width": "Int"}}}

A type that is not in it is a scalar.  ``=`` ends the type of an argument that has a default.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from covalt_git.errors import listed, nearest_name
from covalt_git.templating.graphql_text import (
    BadSelectionError,
    Literal,
    SelectedField,
    parsed_selection,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_TYPENAME: Final = "__typename"
_MOST_NAMES: Final = 40
_MAX_INT: Final = 1 << 31
_ITEM = re.compile(r"\[(.*)\]")

_KINDS = {
    "Int": {"int"},
    "Float": {"int", "float"},
    "String": {"string"},
    "Boolean": {"boolean"},
    "ID": {"string", "int"},
}
"""The literals of the built-in scalars (section 3.5); a custom scalar can have any."""


def checked_selection(
    text: str, type_name: str | None = None, types: Mapping[str, Any] | None = None
) -> str:
    """Return a selection in the form in which it is sent; its fields are checked if ``types`` has its type.

    Raises:
        BadSelectionError: if it is not a selection, exceeds a limit, or does not fit the type.
    """
    fields = parsed_selection(text)
    if types is not None and type_name is not None:
        _check_fields(fields, type_name, types)
    return written(fields)


def _check_fields(
    fields: tuple[SelectedField, ...], type_name: str, types: Mapping[str, Any]
) -> None:
    of_type: Mapping[str, Any] = types.get(type_name, {}).get("fields", {})
    by_key: dict[str, SelectedField] = {}
    for field in fields:
        key = field.alias or field.name
        # An output schema says of each name of a type what its value is.
        if field.alias and (field.alias in of_type or field.name == _TYPENAME):
            raise BadSelectionError(
                f"has the alias {field.alias!r}, which another field of {type_name} could have"
            )
        if key in by_key and by_key[key] != field:
            raise BadSelectionError(f"has {key!r} twice: give one of them an alias, a: {key}")
        by_key[key] = field
        if field.name == _TYPENAME:
            _check_field(field, type_name, "String!", {}, types)
        elif field.name in of_type:
            described = of_type[field.name]
            is_short = isinstance(described, str)
            field_type: str = described if is_short else described["type"]
            args = {} if is_short else described.get("args", {})
            _check_field(field, type_name, field_type, args, types)
        else:
            near = nearest_name(field.name, of_type)
            names = listed([_TYPENAME, *of_type], _MOST_NAMES)
            end = f", did you mean {near!r}?" if near else f"; it has {names}"
            raise BadSelectionError(f"has {field.name!r}: {type_name} has no such field{end}")


def _check_field(
    field: SelectedField,
    parent: str,
    type_text: str,
    known: Mapping[str, str],
    types: Mapping[str, Any],
) -> None:
    place = f"{parent}.{field.name}"
    type_name = type_text.strip("[]!")
    is_object = "fields" in types.get(type_name, {})
    if is_object and field.fields is None:
        names = listed(list(types[type_name]["fields"]) or [_TYPENAME], _MOST_NAMES)
        raise BadSelectionError(
            f"has {place} without fields: write {field.name} {{ ... }}; {type_name} has {names}"
        )
    if not is_object and field.fields is not None:
        raise BadSelectionError(f"has fields below {place}, which is a {type_name}")
    _check_pairs(place, field.args, known, types)
    if field.fields is not None:
        _check_fields(field.fields, type_name, types)


def _check_pairs(
    place: str,
    pairs: tuple[tuple[str, Literal], ...] | list[tuple[str, Literal]],
    known: Mapping[str, str],
    types: Mapping[str, Any],
) -> None:
    """Check arguments, or the fields of an input object."""
    names = [name for name, _ in pairs]
    for name, value in pairs:
        if name not in known:
            has = f"it has {listed(list(known), _MOST_NAMES)}" if known else "it has none"
            raise BadSelectionError(f"has {name!r} of {place}: the argument is unknown; {has}")
        if names.count(name) > 1:
            raise BadSelectionError(f"has {name!r} of {place} twice")
        _check_value(f"{place}({name})", value, known[name].rstrip("="), types)
    missing = [name for name, text in known.items() if text.endswith("!") and name not in names]
    if missing:
        raise BadSelectionError(f"lacks {missing[0]!r} of {place}, which is required")


def _check_value(place: str, value: Literal, type_text: str, types: Mapping[str, Any]) -> None:
    nullable = type_text.removesuffix("!")
    if value.kind == "null":
        if nullable != type_text:
            raise BadSelectionError(f"has null for {place}, which is a {type_text}")
        return
    item = _ITEM.fullmatch(nullable)
    if item is not None:
        # A single value is a list of itself (section 3.11).
        for inner in value.value if value.kind == "list" else [value]:
            _check_value(place, inner, item[1], types)
        return
    described = types.get(nullable, {})
    wrong = BadSelectionError(f"has {str(value)[:80]} for {place}, which is a {nullable}")
    if "inputs" in described:
        if value.kind != "object":
            raise wrong
        _check_pairs(place, value.value, described["inputs"], types)
    elif "values" in described:
        if value.kind != "enum" or value.value not in described["values"]:
            names = listed(list(described["values"]), _MOST_NAMES)
            raise BadSelectionError(f"{wrong}: one of {names}")
    elif (nullable in _KINDS and value.kind not in _KINDS[nullable]) or (
        nullable == "Int" and not _is_int32(value.value)
    ):
        raise wrong


def _is_int32(digits: str) -> bool:
    return len(digits) <= len(str(-_MAX_INT)) and -_MAX_INT <= int(digits) < _MAX_INT
