"""The JSON Schema of Python type annotations, as far as it can be read without running them.

The law: what Python would accept, the schema accepts.  An annotation that cannot be followed to its
end is ``{}``, which accepts anything.  The shapes are those of pydantic, so that the two compare.
"""

from __future__ import annotations

import ast
import json
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from covalt_git import canonical_json
from covalt_git.files.python_classes import class_schema
from covalt_git.files.python_names import UnknownError, literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from covalt_git.files.python_names import ModuleNames
    from covalt_git.models.base import JsonObject

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
_ONE_PART = frozenset({"builtins.list", "builtins.set", "builtins.frozenset"})
_NULL: JsonObject = {"type": "null"}
_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}

_FIELD = "pydantic.Field"
_FIELD_READ = frozenset({"description", "alias", "validation_alias", "default", "default_factory"})
_FIELD_PASSED_OVER = frozenset(
    {
        "title",
        "examples",
        "deprecated",
        "repr",
        "frozen",
        "serialization_alias",
        "gt",
        "ge",
        "lt",
        "le",
        "multiple_of",
        "min_length",
        "max_length",
        "pattern",
        "strict",
    }
)
"""What only narrows the values that are accepted, or concerns nobody who calls."""

_PLAIN_METADATA = ("annotated_types.", "pydantic.")
"""Where metadata comes from that may change what is accepted, but never a parameter's name."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function or a field of a class, by the name that a caller gives it."""

    name: str
    schema: JsonObject
    required: bool


@dataclass(slots=True)
class SchemaReader:
    """Reads the annotations of one module; ``definitions`` fills with the classes they name."""

    names: ModuleNames
    definitions: dict[str, JsonObject] = field(default_factory=dict)
    _spent: int = 0
    _depth: int = 0

    def read(self, annotation: ast.expr | None) -> JsonObject:
        """Return the schema of an annotation: ``{}`` for none, and for what cannot be known."""
        if annotation is None:
            return {}
        self._depth += 1
        try:
            self._spend(1)
            return self._read(annotation)
        except UnknownError:
            return {}
        finally:
            self._depth -= 1

    def parameter(
        self, name: str, annotation: ast.expr | None, default: ast.expr | None, *, text: str = ""
    ) -> Parameter:
        """Return a parameter or field with all that its annotation and its default say.

        Args:
            name: its name in Python
            annotation: its type
            default: what stands behind its ``=``
            text: its description, where no ``Field`` says a better one

        Raises:
            UnknownError: where not even the public name is known, as with a computed alias.
        """
        schema = self.read(annotation)
        fields = list(self._fields(annotation))
        if default is not None and self.is_field(default):
            fields.append(default)
            default = None
        required, shown = default is None, default
        if default is not None and self._may_be_none(default):
            schema = either([schema, _NULL])
        for keywords in map(_keywords, fields):
            if not keywords.keys() <= _FIELD_READ | _FIELD_PASSED_OVER:
                schema = {}
            name = _alias(keywords) or name
            text = self.text(keywords.get("description")) or text
            inner = keywords.get("default")
            if "default_factory" in keywords or (inner is not None and not _is_ellipsis(inner)):
                required, shown = False, shown or inner
        schema = schema | ({"description": text} if text else {}) | self._shown_default(shown)
        return Parameter(name, schema, required)

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
            self._spend(len(value) + 1 if isinstance(value, str) else 1)
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
            self._spend(len(expression.value))
        except (UnicodeEncodeError, UnknownError):
            return ""
        return expression.value

    def is_field(self, expression: ast.expr) -> bool:
        """Tell whether the expression is a call of pydantic's ``Field``."""
        return isinstance(expression, ast.Call) and self.names.origin(expression.func) == _FIELD

    def unwrapped(self, annotation: ast.expr | None) -> ast.expr | None:
        """Return what an annotation says behind its quotes and its aliases."""
        for _ in range(MAX_DEPTH):
            if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
                annotation = _parsed(annotation.value)
            elif isinstance(annotation, ast.Name) and isinstance(
                alias := self.names.definition(annotation.id), ast.expr
            ):
                annotation = alias
            else:
                return annotation
        return None

    def referenced(self, schema: JsonObject) -> dict[str, JsonObject]:
        """Return the definitions that a schema leads to, by name."""
        found: dict[str, JsonObject] = {}
        waiting: list[Any] = [schema]
        while waiting:
            part = waiting.pop()
            if isinstance(part, list):
                waiting.extend(part)
            if not isinstance(part, dict):
                continue
            waiting.extend(part.values())
            name = str(part.get("$ref", "")).removeprefix("#/$defs/")
            if name in self.definitions and name not in found:
                found[name] = self.definitions[name]
                waiting.append(found[name])
        return dict(sorted(found.items()))

    def _spend(self, amount: int) -> None:
        self._spent += amount
        if self._spent > BUDGET or self._depth > MAX_DEPTH:
            raise UnknownError

    def _read(self, annotation: ast.expr) -> JsonObject:
        if isinstance(annotation, ast.Constant) and annotation.value is None:
            return dict(_NULL)
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            return self.read(_parsed(annotation.value))
        if isinstance(annotation, ast.BinOp):
            return either([self.read(part) for part in _union_parts(annotation)])
        if isinstance(annotation, ast.Subscript):
            return self._generic(annotation)
        origin = self._origin(annotation)
        if origin in _SIMPLE:
            return dict(_SIMPLE[origin])
        if isinstance(annotation, ast.Name):
            return self._own(annotation.id)
        raise UnknownError

    def _origin(self, annotation: ast.expr) -> str:
        origin = self.names.origin(annotation) or ""
        return _SPELLINGS.get(origin, origin)

    def _generic(self, annotation: ast.Subscript) -> JsonObject:
        parts = _parts(annotation)
        match self._origin(annotation.value), parts:
            case "typing.Literal", _:
                return self.choice(literal(part) for part in parts)
            case "typing.Annotated", [inner, *metadata]:
                return self._annotated(inner, metadata)
            case "typing.Optional", [inner]:
                return either([self.read(inner), _NULL])
            case "typing.Union", _:
                return either([self.read(part) for part in parts])
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
        for said in metadata:
            if not self.is_field(said) and not isinstance(said, ast.Constant):
                raise UnknownError  # it may change what is accepted
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
            self.definitions[name] = class_schema(node, self)
        return {"$ref": f"#/$defs/{name}"}

    def _fields(self, annotation: ast.expr | None) -> Iterator[ast.expr]:
        """Yield the ``Field`` calls within the outermost ``Annotated``."""
        annotation = self.unwrapped(annotation)
        if not isinstance(annotation, ast.Subscript):
            return
        if self._origin(annotation.value) != "typing.Annotated":
            return
        inner, *metadata = _parts(annotation)
        yield from self._fields(inner)  # Annotated within Annotated is one
        for said in metadata:
            if self.is_field(said):
                yield said
            elif not isinstance(said, ast.Constant) and not self._is_plain(said):
                raise UnknownError  # it could be a Field, with an alias

    def _is_plain(self, metadata: ast.expr) -> bool:
        called = metadata.func if isinstance(metadata, ast.Call) else metadata
        return (self.names.origin(called) or "").startswith(_PLAIN_METADATA)

    def _may_be_none(self, default: ast.expr) -> bool:
        """Tell whether a default is None, which Python then lets the caller give too."""
        named = self.unwrapped(default) if isinstance(default, ast.Name) else default
        try:
            return named is None or literal(named) is None
        except UnknownError:
            return not self._is_made_by_own_class(default)

    def _is_made_by_own_class(self, default: ast.expr) -> bool:
        """Recognise ``Color.RED`` and ``Options()``."""
        maker = default.func if isinstance(default, ast.Call) else default
        maker = maker.value if isinstance(maker, ast.Attribute) else maker
        return isinstance(maker, ast.Name) and isinstance(
            self.names.definition(maker.id), ast.ClassDef
        )

    def _shown_default(self, default: ast.expr | None) -> JsonObject:
        named = self.unwrapped(default) if isinstance(default, ast.Name) else default
        if named is None:
            return {}
        try:
            value = literal(named)
            self._spend(len(canonical_json.dumps(value)))
        except UnknownError:
            return {}
        return {"default": value}


def either(schemas: Iterable[JsonObject]) -> JsonObject:
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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise UnknownError from None


def _parts(annotation: ast.Subscript) -> list[ast.expr]:
    inner = annotation.slice
    parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    if not parts or any(isinstance(part, ast.Starred) for part in parts):
        raise UnknownError
    return parts


def _union_parts(annotation: ast.expr) -> list[ast.expr]:
    parts: list[ast.expr] = []
    while isinstance(annotation, ast.BinOp):
        if not isinstance(annotation.op, ast.BitOr):
            raise UnknownError
        parts.append(annotation.right)
        annotation = annotation.left
    return [annotation, *reversed(parts)]


def _keywords(call: ast.expr) -> dict[str, ast.expr]:
    """Return what a call of ``Field`` says, its first argument as ``default``."""
    if not isinstance(call, ast.Call):
        return {}
    keywords = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    if len(keywords) < len(call.keywords) or len(call.args) > 1:
        raise UnknownError
    if call.args:
        keywords["default"] = call.args[0]
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        raise UnknownError
    return keywords


def _alias(keywords: dict[str, ast.expr]) -> str:
    """Return the name that callers use, where the field says one."""
    said = keywords.get("validation_alias") or keywords.get("alias")
    if said is None or (isinstance(said, ast.Constant) and said.value is None):
        return ""
    name = literal(said)
    if not isinstance(name, str):
        raise UnknownError
    return name


def _is_ellipsis(expression: ast.expr) -> bool:
    return isinstance(expression, ast.Constant) and expression.value is ...
