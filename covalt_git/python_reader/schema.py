"""JSON Schema of Python type annotations, read without running them.

The schema accepts every value that Python would accept.  An annotation that is not fully understood becomes
``{}``, which accepts any value.  The schemas have the form of pydantic's, so that they can be compared.
"""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from covalt_git.json_values import pointer
from covalt_git.models.tool_properties import SHELL_SCHEMA
from covalt_git.python_reader.module_text import parse_expression
from covalt_git.python_reader.names import UnknownError, literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from covalt_git.json_values import JsonObject
    from covalt_git.python_reader.names import ModuleNames

BUDGET = 200_000
"""Maximum size of a schema in nodes and characters; nested aliases can grow exponentially."""

MAX_DEPTH = 40

_SIMPLE: dict[str, JsonObject] = {
    "builtins.str": {"type": "string"},
    "builtins.int": {"type": "integer"},
    "builtins.float": {"type": "number"},
    "builtins.bool": {"type": "boolean"},
    "builtins.list": {"type": "array", "items": {}},
    "builtins.tuple": {"type": "array", "items": {}},
    "builtins.set": {"type": "array", "items": {}, "uniqueItems": True},
    "builtins.frozenset": {"type": "array", "items": {}, "uniqueItems": True},
    "builtins.dict": {"type": "object", "additionalProperties": True},
    "datetime.date": {"type": "string", "format": "date"},
    "datetime.datetime": {"type": "string", "format": "date-time"},
    "datetime.time": {"type": "string", "format": "time"},
    "pathlib.Path": {"type": "string", "format": "path"},
    "uuid.UUID": {"type": "string", "format": "uuid"},
}
_SPELLINGS = {
    "typing.Dict": "builtins.dict",
    "typing.FrozenSet": "builtins.frozenset",
    "typing.List": "builtins.list",
    "typing.Mapping": "builtins.dict",
    "typing.Sequence": "builtins.list",
    "typing.Set": "builtins.set",
    "typing.Tuple": "builtins.tuple",
}
_TYPED_DICTS = frozenset({"typing.TypedDict", "typing_extensions.TypedDict"})
_ONE_PART = frozenset({"builtins.list", "builtins.set", "builtins.frozenset"})
_READ = frozenset({"description", "alias", "validation_alias", "default", "default_factory"})
_IGNORED = frozenset(
    {
        *("title", "examples", "deprecated", "repr", "frozen", "serialization_alias", "strict"),
        *("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern"),
    }
)
"""Keywords of ``Field`` that only restrict values, or do not concern callers."""
_NULL: JsonObject = {"type": "null"}
_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


@dataclass(slots=True)
class SchemaReader:
    """Reader of the annotations of one module; ``definitions`` collects the schemas of its classes.

    ``class_schema`` returns the schema of a class of the module.
    """

    names: ModuleNames
    class_schema: Callable[[ast.ClassDef, SchemaReader], JsonObject]
    definitions: dict[str, JsonObject] = field(default_factory=dict)
    _size: int = 0
    _depth: int = 0

    def read(self, annotation: ast.expr | None) -> JsonObject:
        """Return the schema of an annotation; ``{}`` if it is missing or unknown."""
        if annotation is None:
            return {}
        self._depth += 1
        try:
            self.spend(1)
            return self._read(annotation)
        except UnknownError:
            return {}
        finally:
            self._depth -= 1

    def or_null(self, schema: JsonObject) -> JsonObject:
        """Return a schema that also accepts null."""
        return _either([schema, _NULL])

    def choice(self, values: Iterable[Any]) -> JsonObject:
        """Return the schema of an enumeration of constants.

        Raises:
            UnknownError: if a constant is not a string, number, boolean or null.
        """
        chosen: list[Any] = []
        distinct: set[tuple[type, Any]] = set()
        for value in values:
            if type(value) not in _JSON_TYPES:
                raise UnknownError
            self.spend(len(value) + 1 if isinstance(value, str) else 1)
            if (type(value), value) not in distinct:
                distinct.add((type(value), value))
                chosen.append(value)
        types = {_JSON_TYPES[type(value)] for value in chosen}
        return {"enum": chosen} | ({"type": types.pop()} if len(types) == 1 else {})

    def text(self, expression: ast.expr | None) -> str:
        """Return the value of a string literal; "" for other expressions."""
        if not isinstance(expression, ast.Constant) or not isinstance(expression.value, str):
            return ""
        try:
            expression.value.encode("utf-8")
            self.spend(len(expression.value))
        except (UnicodeEncodeError, UnknownError):
            return ""
        return expression.value

    def unwrap(self, annotation: ast.expr | None) -> ast.expr | None:
        """Return an annotation without quotes, and with aliases resolved.

        Raises:
            UnknownError: if quotes do not contain an expression, or aliases are circular.
        """
        for _ in range(MAX_DEPTH):
            if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
                annotation = _parse_quoted(annotation.value)
            elif isinstance(annotation, ast.Name) and isinstance(
                alias := self.names.definition(annotation.id), ast.expr
            ):
                annotation = alias
            else:
                return annotation
        raise UnknownError

    def spend(self, amount: int) -> None:
        """Add to the size of the schema.

        Raises:
            UnknownError: if the schema is now too large or too deep.
        """
        self._size += amount
        if self._size > BUDGET or self._depth > MAX_DEPTH:
            raise UnknownError

    def arguments(self, annotation: ast.Subscript) -> list[ast.expr]:
        """Return the type arguments of ``Name[...]``.

        Raises:
            UnknownError: if the brackets are empty, or an argument is unpacked.
        """
        inner = annotation.slice
        parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        if not parts or any(isinstance(part, ast.Starred) for part in parts):
            raise UnknownError
        return parts

    def origin(self, annotation: ast.expr) -> str:
        """Return the dotted name that an annotation refers to, with ``typing.List`` as ``builtins.list``."""
        origin = self.names.origin(annotation) or ""
        return _SPELLINGS.get(origin, origin)

    def collect_definitions(self, schema: JsonObject) -> dict[str, JsonObject]:
        """Return the definitions that a schema references, directly or indirectly."""
        found: dict[str, JsonObject] = {}
        pending: list[Any] = [schema] if self.definitions else []
        while pending:
            part = pending.pop()
            if isinstance(part, list):
                pending.extend(part)
            if not isinstance(part, dict):
                continue
            pending.extend(part.values())
            name = pointer.name_of(part)
            if name in self.definitions and name not in found:
                found[name] = self.definitions[name]
                pending.append(found[name])
        return dict(sorted(found.items()))

    def _read(self, annotation: ast.expr) -> JsonObject:
        if isinstance(annotation, ast.Constant) and annotation.value is None:
            return dict(_NULL)
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            return self.read(_parse_quoted(annotation.value))
        if isinstance(annotation, ast.BinOp):
            return _either([self.read(part) for part in _union_parts(annotation)])
        if isinstance(annotation, ast.Subscript):
            return self._generic(annotation)
        origin = self.origin(annotation)
        if origin in _SIMPLE:
            return dict(_SIMPLE[origin])
        if isinstance(annotation, ast.Name):
            return self._local(annotation.id)
        raise UnknownError

    def _generic(self, annotation: ast.Subscript) -> JsonObject:
        parts = self.arguments(annotation)
        match self.origin(annotation.value), parts:
            case "typing.Literal", _:
                return self.choice(literal(part) for part in parts)
            case "typing.Annotated", [inner, *metadata]:
                return self._annotated(inner, metadata)
            case "typing.Optional", [inner]:
                return _either([self.read(inner), _NULL])
            case "typing.Union", _:
                return _either([self.read(part) for part in parts])
            case "builtins.tuple", [inner, ast.Constant(value=value)] if value is ...:
                return {"type": "array", "items": self.read(inner)}
            case "builtins.tuple", _:
                items = [self.read(part) for part in parts]
                size = {"minItems": len(items), "maxItems": len(items)}
                return {"type": "array", "prefixItems": items} | size
            case "builtins.dict", [_, inner]:
                return {"type": "object", "additionalProperties": self.read(inner) or True}
            case str(origin), [inner] if origin in _ONE_PART:
                return _SIMPLE[origin] | {"items": self.read(inner)}
        raise UnknownError

    def _annotated(self, inner: ast.expr, metadata: list[ast.expr]) -> JsonObject:
        if any(is_field(self, part) and may_be_shell(field_keywords(part)) for part in metadata):
            return {SHELL_SCHEMA: True}
        if not all(_only_narrows(self, part) for part in metadata):
            raise UnknownError
        return self.read(inner)

    def _local(self, name: str) -> JsonObject:
        """Return the schema of a class or an alias of the module."""
        node = self.names.definition(name)
        if isinstance(node, ast.expr):
            return self.read(node)
        if not isinstance(node, ast.ClassDef):
            raise UnknownError
        if name not in self.definitions:
            self.definitions[name] = {}  # the class may contain itself
            self.definitions[name] = self.class_schema(node, self)
        return pointer.reference_to("$defs", name)


class ResultReader(SchemaReader):
    """Reader of return annotations; classes except TypedDict are unknown: they may serialize to any JSON."""

    def _local(self, name: str) -> JsonObject:
        node = self.names.definition(name)
        if isinstance(node, ast.ClassDef) and not any(
            self.origin(base) in _TYPED_DICTS for base in node.bases
        ):
            raise UnknownError
        return super()._local(name)


def is_known_field(keywords: Mapping[str, ast.expr]) -> bool:
    """Return whether every keyword of a ``Field`` is read, or does not invalidate the schema of its type."""
    return keywords.keys() <= _READ | _IGNORED


def may_be_shell(keywords: Mapping[str, ast.expr]) -> bool:
    """Return whether ``json_schema_extra`` of a ``Field`` says that a shell reads the argument, or cannot be read."""
    extra = keywords.get("json_schema_extra")
    if extra is None or (isinstance(extra, ast.Constant) and extra.value is None):
        return False
    try:
        value = literal(extra)
    except UnknownError:
        return True  # a function or a computed value: a waiver must not depend on a guess
    return not isinstance(value, dict) or bool(value.get(SHELL_SCHEMA))


def is_field(reader: SchemaReader, expression: ast.expr) -> bool:
    """Return whether an expression is a call of pydantic's ``Field``."""
    return isinstance(expression, ast.Call) and reader.origin(expression.func) == "pydantic.Field"


def field_keywords(call: ast.expr) -> dict[str, ast.expr]:
    """Return the arguments of a call of ``Field``, the first one as ``default``.

    Raises:
        UnknownError: if it has unpacked or more positional arguments.
    """
    if not isinstance(call, ast.Call):
        return {}
    keywords = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    unpacked = len(keywords) < len(call.keywords) or len(call.args) > 1
    if unpacked or any(isinstance(argument, ast.Starred) for argument in call.args):
        raise UnknownError
    return keywords | ({"default": call.args[0]} if call.args else {})


def _only_narrows(reader: SchemaReader, metadata: ast.expr) -> bool:
    """Return whether metadata of ``Annotated`` does not invalidate the schema of its type."""
    if isinstance(metadata, ast.Constant):
        return True  # a comment, which pydantic ignores
    return is_field(reader, metadata) and is_known_field(field_keywords(metadata))


def _either(schemas: Iterable[JsonObject]) -> JsonObject:
    """Return the union of schemas."""
    choices: dict[str, JsonObject] = {}
    for schema in schemas:
        for choice in schema["anyOf"] if schema.keys() == {"anyOf"} else [schema]:
            choices[json.dumps(choice, sort_keys=True)] = choice
    found = list(choices.values())
    if {} in found:
        says_shell = any(choice.get(SHELL_SCHEMA) for choice in found)
        return {SHELL_SCHEMA: True} if says_shell else {}
    return found[0] if len(found) == 1 else {"anyOf": found}


def _parse_quoted(text: str) -> ast.expr:
    """Parse an annotation in quotes."""
    try:
        return parse_expression(text.strip())
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise UnknownError from None


def _union_parts(annotation: ast.expr) -> list[ast.expr]:
    parts: list[ast.expr] = []
    while isinstance(annotation, ast.BinOp):
        if not isinstance(annotation.op, ast.BitOr):
            raise UnknownError
        parts.append(annotation.right)
        annotation = annotation.left
    return [annotation, *reversed(parts)]
