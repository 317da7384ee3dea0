"""Parameters of functions and fields of classes: name, annotation, default and ``Field``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.json_values import canonical_json
from covalt_git.models.tool_properties import SHELL_SCHEMA
from covalt_git.python_reader.names import UnknownError, literal
from covalt_git.python_reader.schema import (
    SchemaReader,
    field_keywords,
    is_field,
    is_known_field,
    may_be_shell,
)

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject

MAX_NESTED = 40
"""Maximum depth of nested ``Annotated``; an alias may contain itself."""

_NEVER_A_FIELD = ("annotated_types.", "pydantic.")
"""Prefixes of metadata that cannot change a parameter's name."""


class Parameter(NamedTuple):
    """Parameter of a function or field of a class, under the name that callers use."""

    name: str
    schema: JsonObject
    required: bool


def read_parameter(
    reader: SchemaReader,
    name: str,
    *,
    annotation: ast.expr | None,
    default: ast.expr | None,
    text: str = "",
) -> Parameter:
    """Return a parameter or field as its annotation and default define it.

    Args:
        reader: the reader of the annotation
        name: the name in Python
        annotation: the type
        default: the expression after ``=``
        text: the description, if no ``Field`` has one

    Raises:
        UnknownError: if the public name is unknown, as with a computed alias.
    """
    schema = reader.read(annotation)
    fields = _annotated_fields(reader, annotation)
    if default is not None and is_field(reader, default):
        fields.append(default)
        default = None
    required, value = default is None, default
    if default is not None and _may_be_none(reader, default):
        schema = reader.or_null(schema)
    for keywords in map(field_keywords, fields):
        if not is_known_field(keywords):
            is_shell = may_be_shell(keywords) or SHELL_SCHEMA in schema
            schema = {SHELL_SCHEMA: True} if is_shell else {}
        name = _alias(keywords) or name
        text = reader.text(keywords.get("description")) or text
        inner = keywords.get("default")
        if "default_factory" in keywords or (inner is not None and not _is(inner, ...)):
            required, value = False, value or inner
    schema = schema | ({"description": text} if text else {})
    return Parameter(name, schema | _default_schema(reader, value), required)


def _annotated_fields(reader: SchemaReader, annotation: ast.expr | None) -> list[ast.expr]:
    """Return the ``Field`` calls in the metadata of nested ``Annotated``, the innermost first."""
    metadata: list[ast.expr] = []
    for _ in range(MAX_NESTED):
        annotation = reader.unwrap(annotation)
        if (
            not isinstance(annotation, ast.Subscript)
            or reader.origin(annotation.value) != "typing.Annotated"
        ):
            break
        annotation, *outer = reader.arguments(annotation)
        metadata = outer + metadata
    else:
        raise UnknownError
    for each in metadata:
        called = each.func if isinstance(each, ast.Call) else each
        is_harmless = reader.origin(called).startswith(_NEVER_A_FIELD)
        if not is_harmless and not isinstance(each, ast.Constant):
            raise UnknownError  # it may be a Field with an alias
    return [each for each in metadata if is_field(reader, each)]


def _alias(keywords: dict[str, ast.expr]) -> str:
    """Return the alias that callers use, or "" without one."""
    for key in ("validation_alias", "alias"):
        value = keywords.get(key)
        if value is None or _is(value, None):
            continue
        name = literal(value)
        if not isinstance(name, str):
            raise UnknownError
        return name
    return ""


def _may_be_none(reader: SchemaReader, default: ast.expr) -> bool:
    """Return whether a default may be None, so that callers may pass null too."""
    try:
        return literal(_constant_value(reader, default)) is None
    except UnknownError:
        return not _is_of_local_class(reader, default)


def _constant_value(reader: SchemaReader, default: ast.expr) -> ast.expr:
    """Return the value of a constant such as ``LIMIT``, if it is assigned only once."""
    named = reader.names.definition(default.id) if isinstance(default, ast.Name) else None
    return named if isinstance(named, ast.expr) else default


def _is_of_local_class(reader: SchemaReader, default: ast.expr) -> bool:
    """Return whether a default is like ``Options()`` or ``Colour.RED``, of a class of the module."""
    maker = default.func if isinstance(default, ast.Call) else default
    maker = maker.value if isinstance(maker, ast.Attribute) else maker
    binding = reader.names.definition(maker.id) if isinstance(maker, ast.Name) else None
    return isinstance(binding, ast.ClassDef)


def _default_schema(reader: SchemaReader, default: ast.expr | None) -> JsonObject:
    if default is None:
        return {}
    try:
        value = literal(_constant_value(reader, default))
        reader.spend(len(canonical_json.dumps(value)))
    except UnknownError:
        return {}
    return {"default": value}


def _is(expression: ast.expr, constant: object) -> bool:
    return isinstance(expression, ast.Constant) and expression.value is constant
