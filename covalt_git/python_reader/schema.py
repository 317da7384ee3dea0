"""The JSON Schema of Python type annotations, as far as it can be read without running them.

The law: what Python would accept, the schema accepts.  An annotation that cannot be followed to its
end is ``{}``, which accepts anything.  The shapes are those of pydantic, so that the two compare.
"""

from __future__ import annotations

import ast
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from covalt_git.json_values import pointer
from covalt_git.python_reader.module_text import parse_expression
from covalt_git.python_reader.names import UnknownError, literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from covalt_git.json_values import JsonObject
    from covalt_git.python_reader.names import ModuleNames

BUDGET = 200_000
"""How far a schema may grow, in nodes and characters: an alias of aliases doubles at each step."""

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
_PASSED_OVER = frozenset(
    {
        *("title", "examples", "deprecated", "repr", "frozen", "serialization_alias", "strict"),
        *("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern"),
    }
)
"""Keywords of ``Field`` that only narrow what is accepted, or concern nobody who calls."""
_NULL: JsonObject = {"type": "null"}
_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


@dataclass(slots=True)
class SchemaReader:
    """Reads the annotations of one module; ``definitions`` fills with the classes they name.

    ``class_schema`` returns the schema of a class of the module.
    """

    names: ModuleNames
    class_schema: Callable[[ast.ClassDef, SchemaReader], JsonObject]
    definitions: dict[str, JsonObject] = field(default_factory=dict)
    _spent: int = 0
    _depth: int = 0

    def read(self, annotation: ast.expr | None) -> JsonObject:
        """Return the schema of an annotation: ``{}`` for none, and for what cannot be known."""
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
        """Return the schema that accepts null too."""
        return _either([schema, _NULL])

    def choice(self, values: Iterable[Any]) -> JsonObject:
        """Return the schema of one of some constants.

        Raises:
            UnknownError: for constants that are no text, number, truth value or null.
        """
        chosen: list[Any] = []
        seen: set[tuple[type, Any]] = set()
        for value in values:
            if type(value) not in _JSON_TYPES:
                raise UnknownError
            self.spend(len(value) + 1 if isinstance(value, str) else 1)
            if (type(value), value) not in seen:
                seen.add((type(value), value))
                chosen.append(value)
        types = {_JSON_TYPES[type(value)] for value in chosen}
        return {"enum": chosen} | ({"type": types.pop()} if len(types) == 1 else {})

    def text(self, expression: ast.expr | None) -> str:
        """Return a text that stands in the source as it is, or nothing."""
        if not isinstance(expression, ast.Constant) or not isinstance(expression.value, str):
            return ""
        try:
            expression.value.encode("utf-8")
            self.spend(len(expression.value))
        except (UnicodeEncodeError, UnknownError):
            return ""
        return expression.value

    def unwrapped(self, annotation: ast.expr | None) -> ast.expr | None:
        """Return what an annotation says behind its quotes and its aliases.

        Raises:
            UnknownError: for quotes that hold no Python, and for aliases without an end.
        """
        for _ in range(MAX_DEPTH):
            if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
                annotation = _parsed(annotation.value)
            elif isinstance(annotation, ast.Name) and isinstance(
                alias := self.names.definition(annotation.id), ast.expr
            ):
                annotation = alias
            else:
                return annotation
        raise UnknownError

    def spend(self, amount: int) -> None:
        """Count what the schema grows by.

        Raises:
            UnknownError: where it has grown enough.
        """
        self._spent += amount
        if self._spent > BUDGET or self._depth > MAX_DEPTH:
            raise UnknownError

    def arguments(self, annotation: ast.Subscript) -> list[ast.expr]:
        """Return what stands between the brackets.

        Raises:
            UnknownError: for nothing, and for ``*more``.
        """
        inner = annotation.slice
        parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        if not parts or any(isinstance(part, ast.Starred) for part in parts):
            raise UnknownError
        return parts

    def origin(self, annotation: ast.expr) -> str:
        """Return the dotted name that an annotation stands for, in its usual spelling."""
        origin = self.names.origin(annotation) or ""
        return _SPELLINGS.get(origin, origin)

    def referenced(self, schema: JsonObject) -> dict[str, JsonObject]:
        """Return the definitions that a schema leads to, by name."""
        found: dict[str, JsonObject] = {}
        waiting: list[Any] = [schema] if self.definitions else []
        while waiting:
            part = waiting.pop()
            if isinstance(part, list):
                waiting.extend(part)
            if not isinstance(part, dict):
                continue
            waiting.extend(part.values())
            name = pointer.name_of(part)
            if name in self.definitions and name not in found:
                found[name] = self.definitions[name]
                waiting.append(found[name])
        return dict(sorted(found.items()))

    def _read(self, annotation: ast.expr) -> JsonObject:
        if isinstance(annotation, ast.Constant) and annotation.value is None:
            return dict(_NULL)
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            return self.read(_parsed(annotation.value))
        if isinstance(annotation, ast.BinOp):
            return _either([self.read(part) for part in _union_parts(annotation)])
        if isinstance(annotation, ast.Subscript):
            return self._generic(annotation)
        origin = self.origin(annotation)
        if origin in _SIMPLE:
            return dict(_SIMPLE[origin])
        if isinstance(annotation, ast.Name):
            return self._own(annotation.id)
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
        if not all(_only_narrows(self, said) for said in metadata):
            raise UnknownError
        return self.read(inner)

    def _own(self, name: str) -> JsonObject:
        """Return the schema of a class or of an alias of this module."""
        node = self.names.definition(name)
        if isinstance(node, ast.expr):
            return self.read(node)
        if not isinstance(node, ast.ClassDef):
            raise UnknownError
        if name not in self.definitions:
            self.definitions[name] = {}  # the class may hold itself
            self.definitions[name] = self.class_schema(node, self)
        return pointer.reference_to("$defs", name)


class ResultReader(SchemaReader):
    """Reads what a function returns, as JSON: a class of the author's may write itself as anything."""

    def _own(self, name: str) -> JsonObject:
        node = self.names.definition(name)
        if isinstance(node, ast.ClassDef) and not any(
            self.origin(base) in _TYPED_DICTS for base in node.bases
        ):
            raise UnknownError
        return super()._own(name)


def is_known_field(keywords: Mapping[str, ast.expr]) -> bool:
    """Tell whether all keywords of a ``Field`` are read, or leave the schema of its type true."""
    return keywords.keys() <= _READ | _PASSED_OVER


def is_field(reader: SchemaReader, expression: ast.expr) -> bool:
    """Tell whether an expression is a call of pydantic's ``Field``."""
    return isinstance(expression, ast.Call) and reader.origin(expression.func) == "pydantic.Field"


def field_keywords(call: ast.expr) -> dict[str, ast.expr]:
    """Return what a call of ``Field`` says, its first argument as ``default``.

    Raises:
        UnknownError: when it has unpacked or further arguments.
    """
    if not isinstance(call, ast.Call):
        return {}
    keywords = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    unpacked = len(keywords) < len(call.keywords) or len(call.args) > 1
    if unpacked or any(isinstance(argument, ast.Starred) for argument in call.args):
        raise UnknownError
    return keywords | ({"default": call.args[0]} if call.args else {})


def _only_narrows(reader: SchemaReader, metadata: ast.expr) -> bool:
    """Tell whether metadata within ``Annotated`` leaves the schema of its type true."""
    if isinstance(metadata, ast.Constant):
        return True  # a note, which pydantic passes over
    return is_field(reader, metadata) and is_known_field(field_keywords(metadata))


def _either(schemas: Iterable[JsonObject]) -> JsonObject:
    """Return the schema that accepts what any of the schemas accepts."""
    choices: dict[str, JsonObject] = {}
    for schema in schemas:
        for choice in schema["anyOf"] if schema.keys() == {"anyOf"} else [schema]:
            choices[json.dumps(choice, sort_keys=True)] = choice
    found = list(choices.values())
    if {} in found:
        return {}
    return found[0] if len(found) == 1 else {"anyOf": found}


def _parsed(text: str) -> ast.expr:
    """Return what an annotation in quotes says."""
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
