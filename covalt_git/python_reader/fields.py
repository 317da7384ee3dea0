"""Parameters and fields: a name, its annotation, and what its default and ``Field`` add to it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from covalt_git.json_values import canonical_json
from covalt_git.python_reader.names import UnknownError, literal
from covalt_git.python_reader.schema import SchemaReader, field_keywords, is_field, is_known_field

if TYPE_CHECKING:
    from covalt_git.json_values import JsonObject

MAX_NESTED = 40
"""How many ``Annotated`` within one another are followed; an alias may hold itself."""

_NEVER_A_FIELD = ("annotated_types.", "pydantic.")
"""Where metadata comes from that may change what is accepted, but no parameter's name."""


class Parameter(NamedTuple):
    """A parameter of a function or a field of a class, by the name that a caller gives it."""

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
    """Return a parameter or field with all that its annotation and its default say.

    Args:
        reader: reads the annotation
        name: its name in Python
        annotation: its type
        default: what stands behind its ``=``
        text: its description, where no ``Field`` says a better one

    Raises:
        UnknownError: where not even the public name is known, as with a computed alias.
    """
    schema = reader.read(annotation)
    fields = _annotated_fields(reader, annotation)
    if default is not None and is_field(reader, default):
        fields.append(default)
        default = None
    required, shown = default is None, default
    if default is not None and _may_be_none(reader, default):
        schema = reader.or_null(schema)
    for keywords in map(field_keywords, fields):
        if not is_known_field(keywords):
            schema = {}
        name = _alias(keywords) or name
        text = reader.text(keywords.get("description")) or text
        inner = keywords.get("default")
        if "default_factory" in keywords or (inner is not None and not _is(inner, ...)):
            required, shown = False, shown or inner
    schema = schema | ({"description": text} if text else {})
    return Parameter(name, schema | _default_schema(reader, shown), required)


def _annotated_fields(reader: SchemaReader, annotation: ast.expr | None) -> list[ast.expr]:
    """Return the ``Field`` calls of the outermost ``Annotated``, the innermost first."""
    metadata: list[ast.expr] = []
    for _ in range(MAX_NESTED):
        annotation = reader.unwrapped(annotation)
        if (
            not isinstance(annotation, ast.Subscript)
            or reader.origin(annotation.value) != "typing.Annotated"
        ):
            break
        annotation, *said = reader.arguments(annotation)
        metadata = said + metadata
    else:
        raise UnknownError
    for each in metadata:
        called = each.func if isinstance(each, ast.Call) else each
        familiar = reader.origin(called).startswith(_NEVER_A_FIELD)
        if not familiar and not isinstance(each, ast.Constant):
            raise UnknownError  # it could stand for a Field, with an alias
    return [each for each in metadata if is_field(reader, each)]


def _alias(keywords: dict[str, ast.expr]) -> str:
    """Return the name that callers use, where the field says one."""
    for key in ("validation_alias", "alias"):
        said = keywords.get(key)
        if said is None or _is(said, None):
            continue
        name = literal(said)
        if not isinstance(name, str):
            raise UnknownError
        return name
    return ""


def _may_be_none(reader: SchemaReader, default: ast.expr) -> bool:
    """Tell whether a default may be None, which Python then lets the caller give too."""
    try:
        return literal(_named_value(reader, default)) is None
    except UnknownError:
        return not _is_made_by_own_class(reader, default)


def _named_value(reader: SchemaReader, default: ast.expr) -> ast.expr:
    """Return what a default such as ``LIMIT`` was set to, where it is set only once."""
    named = reader.names.definition(default.id) if isinstance(default, ast.Name) else None
    return named if isinstance(named, ast.expr) else default


def _is_made_by_own_class(reader: SchemaReader, default: ast.expr) -> bool:
    """Recognise ``Options()`` and ``Colour.RED``."""
    maker = default.func if isinstance(default, ast.Call) else default
    maker = maker.value if isinstance(maker, ast.Attribute) else maker
    known = reader.names.definition(maker.id) if isinstance(maker, ast.Name) else None
    return isinstance(known, ast.ClassDef)


def _default_schema(reader: SchemaReader, default: ast.expr | None) -> JsonObject:
    if default is None:
        return {}
    try:
        value = literal(_named_value(reader, default))
        reader.spend(len(canonical_json.dumps(value)))
    except UnknownError:
        return {}
    return {"default": value}


def _is(expression: ast.expr, constant: object) -> bool:
    return isinstance(expression, ast.Constant) and expression.value is constant
