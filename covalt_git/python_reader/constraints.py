"""Constraints on types: the keywords of pydantic's ``Field`` and the metadata of ``Annotated``, as JSON Schema.

Pydantic checks every one of them at a call.  One that has no keyword in JSON Schema, or does not apply to the type,
is noted as not read.
"""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from covalt_git.json_values import json_schema, pointer
from covalt_git.models.tool_properties import SAME_NAMES_SCHEMA, SHELL_SCHEMA, UNREAD_SCHEMA
from covalt_git.python_reader.enums import constant
from covalt_git.python_reader.known_types import CONSTRAINED_BY_CALL, SIMPLE
from covalt_git.python_reader.names import UnknownError, literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from covalt_git.json_values import JsonObject
    from covalt_git.python_reader.reader import TypeReader

NULL: Final[JsonObject] = {"type": "null"}

_LIMITS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
_SIZES = {
    "string": {"min_length": "minLength", "max_length": "maxLength", "pattern": "pattern"},
    "array": {"min_length": "minItems", "max_length": "maxItems"},
    "object": {"min_length": "minProperties", "max_length": "maxProperties"},
}
_CONSTRAINTS = frozenset({*_LIMITS, "min_length", "max_length", "pattern"})
_SIZED = ("builtins.list", "builtins.set", "builtins.frozenset")
"""Types whose functions of pydantic, such as ``conlist``, state lengths by ``Len``."""

_UNLISTED = frozenset({"max_digits", "decimal_places"})
"""Constraints without a keyword in JSON Schema."""

_CHANGES = frozenset({"strip_whitespace", "to_upper", "to_lower", "ascii_only"})
"""Keywords of ``StringConstraints`` and ``constr`` that change a text, or have no keyword in JSON Schema."""

_SHOWN = ("title", "examples", "deprecated")
_DESCRIBING = frozenset(
    {*_SHOWN, "description", "example", "readOnly", "writeOnly", "$comment", SHELL_SCHEMA}
)
"""Keys of ``json_schema_extra`` that say nothing about values."""

_NAMES = frozenset({"alias", "validation_alias", "alias_priority", "serialization_alias"})
_DEFAULTS = frozenset({"default", "default_factory"})
_IGNORED = frozenset(
    {
        *("repr", "frozen", "strict", "init", "kw_only", "exclude", "validate_default"),
        *("allow_inf_nan", "fail_fast", "field_title_generator"),
        *("description", *_NAMES, *_DEFAULTS),
    }
)
"""Keywords of ``Field`` without effect on the values that a call accepts, or that are read elsewhere.

A keyword that would let pydantic accept more is one of them: a call checks the types of the schema first.
"""

_TYPES = {  # of annotated_types: its parameters as keywords of Field
    "Ge": ("ge",),
    "Gt": ("gt",),
    "Le": ("le",),
    "Lt": ("lt",),
    "MultipleOf": ("multiple_of",),
    "MinLen": ("min_length",),
    "MaxLen": ("max_length",),
    "Len": ("min_length", "max_length"),
    "Interval": (),
}
_AS_KEYWORDS: Final[dict[str, tuple[str, ...]]] = {  # of pydantic, likewise
    "pydantic.Field": ("default",),
    "pydantic.StringConstraints": (),
    "pydantic.Discriminator": ("discriminator",),
    "pydantic.Strict": ("strict",),
}
_HARMLESS = frozenset({"pydantic.AllowInfNan", "pydantic.FailFast", "typing.Doc"})
_CHECKS = frozenset(
    {
        *("pydantic.AfterValidator", "pydantic.BeforeValidator", "pydantic.WrapValidator"),
        *("annotated_types.Predicate", "annotated_types.Not", "annotated_types.Timezone"),
    }
)
"""Metadata that refuses values by a function: a call checks the schema of the type first, so it accepts no more."""


_NO_SCHEMA = dict.fromkeys((*_HARMLESS, "pydantic.AfterValidator", "pydantic.BeforeValidator"))


def is_field(reader: TypeReader, expression: ast.expr | None) -> bool:
    """Return whether an expression is a call of pydantic's ``Field``."""
    return isinstance(expression, ast.Call) and reader.origin(expression.func) == "pydantic.Field"


def field_keywords(call: ast.expr) -> dict[str, ast.expr]:
    """Return the arguments of a call of ``Field``, the first one as ``default``.

    Raises:
        UnknownError: if it has unpacked or more positional arguments.
    """
    return _keywords(call, ("default",))


def with_metadata(reader: TypeReader, schema: JsonObject, metadata: ast.expr) -> JsonObject:
    """Return a schema with one part of the metadata of ``Annotated``, such as ``Field(gt=0)`` or ``Ge(0)``.

    Raises:
        UnknownError: if the metadata may change the type in an unknown way.
    """
    if isinstance(metadata, ast.Constant):
        return schema  # a comment, which pydantic ignores
    origin = _origin(reader, metadata)
    if origin in _HARMLESS:
        return schema
    keywords = metadata_keywords(reader, metadata)
    if keywords is not None:
        schema = with_keywords(reader, schema, keywords)
        text = reader.text(keywords.get("description"))
        return schema | ({"description": text} if text else {})
    if origin in _CHECKS:
        reader.note(ast.unparse(metadata))
        return schema
    raise UnknownError


def gives_no_schema(reader: TypeReader, metadata: ast.expr) -> bool:
    """Return whether a part of the metadata of ``Annotated`` surely gives no schema to a type without one."""
    if isinstance(metadata, ast.Constant):
        return True
    origin = _origin(reader, metadata)
    return origin in _AS_KEYWORDS | _NO_SCHEMA or origin.startswith("annotated_types.")


def metadata_keywords(reader: TypeReader, metadata: ast.expr) -> dict[str, ast.expr] | None:
    """Return a part of the metadata of ``Annotated`` as keywords of ``Field``; None if it is not one of constraints.

    Raises:
        UnknownError: if some of its arguments are unpacked.
    """
    origin = _origin(reader, metadata)
    package, _, name = origin.rpartition(".")
    if origin in _AS_KEYWORDS:
        positional = _AS_KEYWORDS[origin]
    elif package == "annotated_types" and name in _TYPES:
        positional = _TYPES[name]
    else:
        return None
    if origin == "pydantic.Strict" and not getattr(metadata, "args", ()):
        return {"strict": ast.Constant(value=True)} | _keywords(metadata, positional)
    if not isinstance(metadata, ast.Call):
        return None
    stated = _keywords(metadata, positional)
    return without_least_zero(reader, stated) if name == "Len" else stated


def without_least_zero(reader: TypeReader, keywords: Mapping[str, ast.expr]) -> dict[str, ast.expr]:
    """Return the arguments of ``Len``, which with 0 as the least length states none."""
    stated = dict(keywords)
    with suppress(UnknownError):
        if "min_length" in stated and constant(reader, stated["min_length"]) == 0:
            del stated["min_length"]
    return stated


def not_repeated(
    own: Mapping[str, ast.expr], annotated: Iterable[Mapping[str, ast.expr]]
) -> dict[str, ast.expr]:
    """Return the keywords of ``= Field(...)`` without the constraints that the metadata of the annotation repeat.

    Pydantic puts those of the default before those of the annotation, and of two of one kind, the later one counts.
    """
    repeated = {
        name
        for keywords in annotated
        for name, value in keywords.items()
        if not (isinstance(value, ast.Constant) and value.value is None)
    }
    constraints = _CONSTRAINTS | _UNLISTED | _CHANGES | {"strict", "union_mode"}
    return {name: value for name, value in own.items() if name not in constraints & repeated}


def type_keywords(reader: TypeReader, annotation: ast.expr | None) -> dict[str, ast.expr]:
    """Return the constraints of a type of pydantic such as ``PositiveInt`` or ``conint(gt=0)``, as keywords of ``Field``.

    Raises:
        UnknownError: if some arguments of the call are unpacked.
    """
    if isinstance(annotation, ast.Call):
        type_name = CONSTRAINED_BY_CALL.get(reader.origin(annotation.func))
        if type_name is None:
            return {}
        stated = _keywords(annotation, ("item_type",))
        return without_least_zero(reader, stated) if type_name.startswith(_SIZED) else stated
    schema = SIMPLE.get(reader.origin(annotation), {})
    limits = {name: schema[keyword] for name, keyword in _LIMITS.items() if keyword in schema}
    return {name: ast.Constant(limit) for name, limit in limits.items()}


def _origin(reader: TypeReader, metadata: ast.expr) -> str:
    return reader.origin(metadata.func if isinstance(metadata, ast.Call) else metadata)


def with_keywords(
    reader: TypeReader, schema: JsonObject, keywords: Mapping[str, ast.expr]
) -> JsonObject:
    """Return a schema with the keywords of ``Field``, but for names, defaults and the description.

    Raises:
        UnknownError: if a keyword may change the type in an unknown way.
    """
    strict = keywords.get("strict")
    is_lax = strict is None or (isinstance(strict, ast.Constant) and not strict.value)
    if strict is not None and not is_lax and has_integers(schema):
        reader.note(f"strict={ast.unparse(strict)}", refuses_only=True)  # it refuses 5.0
    strips = "strip_whitespace" in keywords
    for name, expression in keywords.items():
        if strips and name in {"max_length", "pattern"}:
            reader.note(f"{name}={ast.unparse(expression)}")  # of the text without blanks
        elif name in _CONSTRAINTS:
            try:
                value = constant(reader, expression)
                pattern = _listed_pattern(value) if name == "pattern" else value
                if reader.serializes and pattern != value:
                    continue  # as the SDK writes results
                constrained = _constrained(schema, name, pattern)
            except UnknownError:
                constrained = None
            if constrained is None:
                reader.note(f"{name}={ast.unparse(expression)}", refuses_only=True)
            schema = constrained or schema
        elif name in _UNLISTED:
            reader.note(f"{name}={ast.unparse(expression)}", refuses_only=True)
        elif name in _CHANGES:
            if not (isinstance(expression, ast.Constant) and not expression.value):
                reader.note(f"{name}={ast.unparse(expression)}")
        elif name in {"union_mode", "coerce_numbers_to_str"}:
            if reader.text(expression) != "smart":
                reader.note(f"{name}={ast.unparse(expression)}")  # it converts texts and numbers
        elif name == "discriminator":
            schema = _tagged(reader, schema, constant(reader, expression))
        elif name in _SHOWN:
            value = constant(reader, expression)
            if value is not None and value is not False:
                schema = schema | {name: value if name != "deprecated" else True}
        elif name not in _IGNORED and name != "json_schema_extra":
            raise UnknownError
    extra = keywords.get("json_schema_extra")
    if extra is None or (isinstance(extra, ast.Constant) and extra.value is None):
        return schema
    try:
        more = literal(extra)
    except UnknownError:
        more = None
    if not isinstance(more, dict):
        # A function or a computed value, which may say that a shell reads the argument: a waiver must not depend on it.
        reader.note(f"json_schema_extra={ast.unparse(extra)}")
        return {SHELL_SCHEMA: True}
    if not describes_only(more):
        # What the author writes about a type or a default is not what pydantic does.
        reader.note(f"json_schema_extra={ast.unparse(extra)}")
    return schema | more


def has_integers(schema: Any) -> bool:
    """Return whether a schema takes 5.0 as an integer at some place, without the classes that it refers to."""
    if isinstance(schema, list):
        return any(map(has_integers, schema))
    if not isinstance(schema, dict):
        return False
    if schema.get("type") == "integer":
        return "enum" not in schema
    return any(
        has_integers(part) for key, part in schema.items() if key not in {"default", "examples"}
    )


def describes_only(extra: JsonObject) -> bool:
    """Return whether ``json_schema_extra`` says nothing about values."""
    return all(key in _DESCRIBING or _is_extension(key) for key in extra)


def _is_extension(key: object) -> bool:
    """Return whether a key is an extension of others, not one that says what a function gets."""
    own = (UNREAD_SCHEMA, SAME_NAMES_SCHEMA)
    return isinstance(key, str) and key.startswith("x-") and key not in own


def _keywords(call: ast.expr, positional: tuple[str, ...]) -> dict[str, ast.expr]:
    """Return the arguments of a call by the names of its parameters.

    Raises:
        UnknownError: if some are unpacked, or more are positional.
    """
    if not isinstance(call, ast.Call):
        return {}
    keywords = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    unpacked = len(keywords) < len(call.keywords) or len(call.args) > len(positional)
    if unpacked or any(isinstance(argument, ast.Starred) for argument in call.args):
        raise UnknownError
    return dict(zip(positional, call.args, strict=False)) | keywords


def _listed_pattern(pattern: Any) -> Any:
    """Return the pattern that a list shows for one of pydantic.

    Raises:
        UnknownError: if JSON Schema has none with this meaning.
    """
    if not isinstance(pattern, str) or not re.search(r"[\\\[?]", pattern):
        return pattern
    from covalt_toolset.patterns import as_json_schema  # noqa: PLC0415 - the SDK is slow to import

    listed = as_json_schema(pattern)
    if listed is None:
        raise UnknownError
    return listed


def _constrained(schema: JsonObject, name: str, value: Any) -> JsonObject | None:
    """Return a schema with one constraint; None if JSON Schema cannot state it for this type."""
    if value is None:
        return schema
    if "anyOf" in schema:
        return _constrained_choice(schema, name, value)
    kind = schema.get("type")
    if kind in {"integer", "number"} and name in _LIMITS:
        of_kind = (int,) if kind == "integer" else (int, float)  # pydantic takes no 1.5 for an int
        is_number = isinstance(value, of_kind) and not isinstance(value, bool)
        return schema | {_LIMITS[name]: value} if is_number else None
    keyword = _SIZES.get(str(kind), {}).get(name)
    if keyword is None or "prefixItems" in schema or "properties" in schema:
        return None
    if keyword == "pattern" and (
        not isinstance(value, str) or json_schema.schema_problems({"pattern": value})
    ):
        return None  # only Python's regular expressions have such a pattern
    if kind == "string" and "format" in schema:
        return None  # of bytes pydantic counts the bytes, and of a URL the characters of its normal form
    return schema | {keyword: value}


def _constrained_choice(schema: JsonObject, name: str, value: Any) -> JsonObject | None:
    """Return a union of a type and null, or a decimal number, with one constraint."""
    choices = schema["anyOf"]
    kinds = [choice.get("type") for choice in choices]
    if kinds == ["number", "string"]:  # of a Decimal, which may be given as text
        at = 0
    elif "null" in kinds and len(choices) == 2:  # noqa: PLR2004 - the type and null
        at = 1 - kinds.index("null")
    else:
        return None
    constrained = _constrained(choices[at], name, value)
    if constrained is None:
        return None
    return schema | {"anyOf": [*choices[:at], constrained, *choices[at + 1 :]]}


def _tagged(reader: TypeReader, schema: JsonObject, key: Any) -> JsonObject:
    """Return a union whose members are distinguished by the constant value of one key.

    Raises:
        UnknownError: if a member has no such key.
    """
    choices = [choice for choice in schema.get("anyOf", ()) if choice != NULL]
    mapping: dict[str, str] = {}
    always_named = True
    for choice in choices:
        definition = reader.definition_of(choice)
        part = definition.get("properties", {}).get(key, {})
        always_named = always_named and key in definition.get("required", ())
        values = [part["const"]] if "const" in part else part.get("enum", [])
        if not values or not all(isinstance(value, str) for value in values):
            raise UnknownError
        mapping |= dict.fromkeys(values, choice[pointer.REF])
    if not choices or not isinstance(key, str):
        raise UnknownError
    tagged = {"oneOf": choices, "discriminator": {"propertyName": key, "mapping": mapping}}
    if not always_named:  # also where the key has a default, a call needs it
        tagged["required"] = [key]
    return {"anyOf": [tagged, NULL]} if NULL in schema["anyOf"] else tagged
