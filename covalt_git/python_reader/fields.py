"""Parameters of functions and fields of classes: name, annotation, default and ``Field``."""

from __future__ import annotations

import ast
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from pydantic_core import PydanticSerializationError, to_jsonable_python

from covalt_git.json_values import canonical_json, json_schema
from covalt_git.models.tool_properties import SHELL_SCHEMA
from covalt_git.python_reader.constraints import (
    field_keywords,
    is_field,
    metadata_keywords,
    not_repeated,
    type_keywords,
    with_keywords,
)
from covalt_git.python_reader.enums import constant
from covalt_git.python_reader.modules import ModuleMember
from covalt_git.python_reader.names import UnknownError, literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from covalt_git.json_values import JsonObject
    from covalt_git.python_reader.schema import SchemaReader

MAX_NESTED = 40
"""Maximum depth of nested ``Annotated``; an alias may contain itself."""

_NEVER_A_FIELD = ("annotated_types.", "pydantic.", "typing.Doc")
"""Prefixes of metadata that cannot change a parameter's name."""

_MADE: Final[dict[str, Callable[..., Any]]] = {
    **{f"builtins.{kind.__name__}": kind for kind in (str, int, float, bool)},
    "builtins.list": list,
    "builtins.dict": dict,
    "builtins.set": list,
    "builtins.frozenset": list,
    "builtins.tuple": list,
    "datetime.date": date,
    "datetime.datetime": datetime,
    "datetime.time": time,
    "datetime.timedelta": timedelta,
    "decimal.Decimal": Decimal,
    "pathlib.Path": lambda *parts: str(PurePosixPath(*parts)),
    "uuid.UUID": UUID,
}
"""Types of defaults that are made by a call with constants, such as ``date(2026, 1, 31)``."""


_PLAIN = frozenset({"type", "title", "description"})
_KINDS: Final = {str: "string", int: "integer", float: "number", bool: "boolean"}

_DISPLAYS = (ast.List, ast.Tuple, ast.Dict, ast.Set, ast.JoinedStr, ast.BinOp, ast.Lambda)
"""Expressions whose values are never None, also if JSON cannot hold them."""


class Parameter(NamedTuple):
    """Parameter of a function or field of a class, under the name that callers use."""

    name: str
    schema: JsonObject
    required: bool
    other_names: tuple[str, ...] = ()
    """Further names under which callers can give its value."""


def read_parameter(
    reader: SchemaReader,
    name: str,
    *,
    annotation: ast.expr | None,
    default: ast.expr | None,
    text: str = "",
    alias: Callable[[str], str] | None = None,
    by_name: bool = False,
    is_optional: bool = False,
    takes_none: bool = False,
    validates_default: bool = False,
) -> Parameter:
    """Return a parameter or field as its annotation and default define it.

    Args:
        reader: the reader of the annotation
        name: the name in Python
        annotation: the type
        default: the expression after ``=``
        text: the description, if no ``Field`` has one
        alias: returns the public name of a field without an own one
        by_name: whether callers may also use the name in Python, as with ``populate_by_name``
        is_optional: whether it may be missing without a ``default``
        takes_none: whether the default None means that callers may pass null too, as with parameters
        validates_default: whether a call also validates the default, unless ``Field`` says otherwise

    Raises:
        UnknownError: if the public name is unknown, as with a computed alias.
    """
    fields = _annotated_fields(reader, annotation)
    schema = reader.read(annotation)
    written = schema.pop("description", "") if annotation is not None and fields else ""
    own = None
    if default is not None and _is(default, ...):
        default = None
    if default is not None and is_field(reader, default):
        own, default = field_keywords(default), None
        fields = [*fields, own]
    if takes_none and default is not None and qualifier(reader, annotation) == "typing.Final":
        reader.note("Final, a constant that calls cannot pass", refuses_only=True)
    required, value = default is None and not is_optional, None
    if takes_none and default is not None and _may_be_none(reader, default):
        schema = reader.or_null(schema)
    if own is not None:
        try:
            # Pydantic applies the constraints of the annotation after those of the default, so they replace them.
            annotated = [*fields[:-1], *_type_constraints(reader, annotation)]
            schema = with_keywords(reader, schema, not_repeated(own, annotated))
        except UnknownError:
            reader.note(f"Field of {name}")
            # What cannot be read may say that a shell reads the argument, and a waiver must not depend on a guess.
            schema = {SHELL_SCHEMA: True} if "json_schema_extra" in own else {}
    text = text or str(written)
    names: tuple[str, ...] = (alias(name) if alias else name,)
    for keywords in fields:
        if alias is None or not _yields_to_generator(fields):
            names = _aliases(reader, keywords) or names
        text = reader.text(keywords.get("description")) or text
        inner = keywords.get("default")
        if inner is not None and not _is(inner, ...):  # that of the last Field counts
            required, value = False, inner
        elif "default_factory" in keywords:
            required, value = False, None
    if default is not None or is_optional:
        required, value = False, default
    schema = schema | ({"description": text} if text else {})
    listed = _default_schema(reader, value)
    # A caller that passes the listed default must not be refused (test_a_listed_default_is_one_that_the_list_accepts).
    if reader.serializes or not _refuses(reader, schema, listed):
        schema = schema | listed
    for keywords in fields:
        if "validate_default" in keywords:
            stated = keywords["validate_default"]
            validates_default = not (_is(stated, False) or _is(stated, None))
    if validates_default and not required and not reader.serializes and "default" not in schema:
        # The field itself may refuse such a default, so that calls have to give a value.
        reader.note(f"validate_default of {name}", refuses_only=True)
    if by_name and not reader.serializes:
        names = (*names, name)
    # A call takes a parameter under its first alias only, but a field of a class under each.
    public, *others = dict.fromkeys(names if not takes_none else names[:1])
    if others and not reader.serializes:
        # No form of pydantic's lists them: the schema refuses them, or says nothing about their values.
        reader.note(f"{public} is also {', '.join(others)}", refuses_only=True)
    return Parameter(public, schema, required, tuple(others))


def _refuses(reader: SchemaReader, schema: JsonObject, default: JsonObject) -> bool:
    """Return whether a schema refuses its own default, which callers that pass it would see."""
    if not default:
        return False
    kind, value = schema.get("type"), default["default"]
    if schema.keys() <= _PLAIN and _KINDS.get(type(value)) == kind:
        return False  # most defaults; a validator takes longer
    try:
        return bool(json_schema.value_problems(reader.with_definitions(schema), value))
    except json_schema.BadSchemaError:  # such as one of json_schema_extra
        return False


def _annotated_fields(
    reader: SchemaReader, annotation: ast.expr | None
) -> list[dict[str, ast.expr]]:
    """Return the keywords of ``Field`` and of the constraints in nested ``Annotated``, the innermost first."""
    fields: list[dict[str, ast.expr]] = []
    for _ in range(MAX_NESTED):
        annotation, reader = reader.unwrap(annotation)
        if (
            not isinstance(annotation, ast.Subscript)
            or reader.origin(annotation.value) != "typing.Annotated"
        ):
            return fields
        annotation, *metadata = reader.parts(annotation)
        keywords = []
        for part in metadata:
            value, inner = reader.unwrap(part) if isinstance(part, ast.Name) else (part, reader)
            called = value.func if isinstance(value, ast.Call) else value
            is_harmless = inner.origin(called).startswith(_NEVER_A_FIELD)
            if not is_harmless and not isinstance(value, ast.Constant):
                raise UnknownError  # it may be a Field with an alias
            if value is not None:
                stated = metadata_keywords(inner, value)
                keywords += [] if stated is None else [stated]
        fields = keywords + fields
    raise UnknownError


def _type_constraints(
    reader: SchemaReader, annotation: ast.expr | None
) -> list[dict[str, ast.expr]]:
    """Return the constraints of a type that pydantic itself writes as ``Annotated``, or of the type for a type variable."""
    for _ in range(MAX_NESTED):
        if isinstance(annotation, ast.Name) and annotation.id in reader.arguments:
            argument = reader.arguments[annotation.id]
            inner = reader.within(argument.reader.module, argument.reader.arguments)
            return [
                *_annotated_fields(inner, argument.annotation),
                *_type_constraints(inner, argument.annotation),
            ]
        annotation, reader = reader.unwrap(annotation)
        if not isinstance(annotation, ast.Subscript):
            break
        if reader.origin(annotation.value) != "typing.Annotated":
            break
        annotation = reader.parts(annotation)[0]
    return [type_keywords(reader, annotation)]


def qualifier(reader: SchemaReader, annotation: ast.expr | None) -> str:
    """Return the dotted name of ``Final[int]`` or ``Annotated[Final[int], ...]``, or of another type's outermost part."""
    for _ in range(MAX_NESTED):
        annotation, reader = reader.unwrap(annotation)
        if not isinstance(annotation, ast.Subscript):
            return reader.origin(annotation)
        origin = reader.origin(annotation.value)
        if origin != "typing.Annotated":
            return origin
        annotation = reader.parts(annotation)[0]
    raise UnknownError


def _yields_to_generator(fields: list[dict[str, ast.expr]]) -> bool:
    """Return whether pydantic prefers a generated alias to that of ``Field``, by ``alias_priority``.

    Raises:
        UnknownError: if the priority is computed, or there are several.
    """
    stated = [keywords["alias_priority"] for keywords in fields if "alias_priority" in keywords]
    if not stated:
        return False
    priority = literal(stated[0])
    if len(stated) > 1 or not isinstance(priority, int | None):
        raise UnknownError
    return (priority or 2) <= 1  # as pydantic reads 0 and None


def _aliases(reader: SchemaReader, keywords: dict[str, ast.expr]) -> tuple[str, ...]:
    """Return the aliases that callers use, the listed one first; empty without one.

    Raises:
        UnknownError: if the listed one is computed, or an ``AliasPath``.
    """
    names = ("validation_alias", "alias")
    if reader.serializes:
        names = ("serialization_alias", "alias")
    for key in names:
        value = keywords.get(key)
        if value is None or _is(value, None):
            continue
        choices = [value]
        if isinstance(value, ast.Call) and reader.origin(value.func) == "pydantic.AliasChoices":
            choices = value.args or choices
        if not (isinstance(choices[0], ast.Constant) and isinstance(choices[0].value, str)):
            raise UnknownError(ast.unparse(value))
        name = choices[0].value
        values = [choice.value for choice in choices[1:] if isinstance(choice, ast.Constant)]
        other_names = [value for value in values if isinstance(value, str)]
        if (
            len(other_names) < len(choices) - 1
        ):  # an AliasPath, which takes the value from a part of another one
            reader.note(ast.unparse(value))
        return (name, *other_names)
    return ()


def _may_be_none(reader: SchemaReader, default: ast.expr) -> bool:
    """Return whether a default may be None, so that callers may pass null too."""
    default, reader = reader.assigned(default)
    if isinstance(default, ast.Constant):
        return default.value is None
    if isinstance(default, _DISPLAYS):
        return False
    try:
        return _value(reader, default) is None
    except UnknownError:
        if _is_of_known_class(reader, default):
            return False
        # A parameter whose default only running shows is listed without null: most of them are not None.
        reader.note(f"= {ast.unparse(default)}", refuses_only=True)
        return False


def _is_of_known_class(reader: SchemaReader, default: ast.expr) -> bool:
    """Return whether a default is like ``Options()``, of a class of the toolset or one in the table of those that are made."""
    maker = default.func if isinstance(default, ast.Call) else default
    maker = maker.value if isinstance(maker, ast.Attribute) else maker
    target = reader.resolve(maker)
    if isinstance(target, str):
        return isinstance(default, ast.Call) and target in _MADE
    return isinstance(target, ModuleMember) and isinstance(target.node, ast.ClassDef)


def _value(reader: SchemaReader, default: ast.expr) -> Any:
    """Return the JSON value of a default: a literal, a constant, a member of an Enum, a set, or a call in the table.

    Raises:
        UnknownError: if it has to be computed.
    """
    default, reader = reader.assigned(default)
    if isinstance(default, ast.Call) and (make := _MADE.get(reader.origin(default.func))):
        args = [literal(part) for part in default.args]
        keywords = {str(keyword.arg): literal(keyword.value) for keyword in default.keywords}
        try:
            return to_jsonable_python(make(*args, **keywords))
        except (TypeError, ValueError, ArithmeticError, PydanticSerializationError):
            raise UnknownError from None
    if isinstance(default, ast.Set):
        return [literal(part) for part in default.elts]
    return constant(reader, default)


def _default_schema(reader: SchemaReader, default: ast.expr | None) -> JsonObject:
    if default is None:
        return {}
    try:
        value = _value(reader, default)
        # One constant of the module may be the default of many fields.
        reader.spend(len(canonical_json.dumps(value)))
    except (UnknownError, canonical_json.NotJsonError):
        return {}
    return {"default": value}


def _is(expression: ast.expr, constant: object) -> bool:
    return isinstance(expression, ast.Constant) and expression.value is constant
