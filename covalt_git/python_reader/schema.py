"""JSON Schema of Python type annotations, read without running them.

The schemas have the form of pydantic's, and accept what a call accepts.  A type that is not understood becomes ``{}``,
which accepts any value, and is noted as not read; so is a type that accepts less than its schema.
"""

from __future__ import annotations

import ast
import json
import re
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from covalt_git.json_values import pointer
from covalt_git.models.tool_properties import SHELL_SCHEMA
from covalt_git.python_reader.constraints import (
    NULL,
    gives_no_schema,
    with_keywords,
    with_metadata,
)
from covalt_git.python_reader.enums import constant, is_plain_member
from covalt_git.python_reader.known_types import (
    ANY,
    CLASS_MAKERS,
    CONSTRAINED_BY_CALL,
    INTEGER_TEXT,
    NARROWER,
    NEEDED_PACKAGES,
    NOT_WRITTEN,
    SIMPLE,
    SPELLINGS,
    WRITTEN,
)
from covalt_git.python_reader.modules import ModuleMember
from covalt_git.python_reader.names import TYPE_ALIAS, NotedError, UnknownError, literal
from covalt_git.python_reader.no_json import NO_JSON, is_plain_class
from covalt_git.python_reader.reader import (
    DEFINITION,
    ClassReading,
    TypeArgument,
    TypeReader,
    parse_quoted,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from covalt_git.json_values import JsonObject

_ONE_PART = frozenset({"builtins.list", "builtins.set", "builtins.frozenset"})
_PLAIN_KEYS = frozenset({"builtins.str", *ANY})
_MOST_ARGUMENTS = 4000
"""Maximum length of the type arguments of a class; a class with itself of ``tuple[T, T]`` doubles them."""

_LIMITS = frozenset({"minLength", "maxLength", "pattern"})
_READ_FROM_TEXTS = frozenset({"integer", "number", "boolean"})
"""Types that pydantic also reads from texts, where a union has a text too."""

_NUMBER_LIMITS = frozenset(
    {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf"}
)
_READ_FROM_NUMBERS = frozenset({"date", "date-time", "time", "duration"})
"""Formats of the texts that pydantic also reads from numbers, as it does true and false."""

_TYPE_VARIABLES = frozenset({"typing.TypeVar"})


@dataclass(frozen=True, slots=True)
class SchemaReader(TypeReader):
    """Reader of the annotations of one module.

    ``class_schema`` reads a class.
    """

    class_schema: Callable[[ModuleMember, SchemaReader], ClassReading] = field(kw_only=True)

    def read(self, annotation: ast.expr | None) -> JsonObject:
        """Return the schema of an annotation; ``{}`` if it is missing or unknown."""
        if annotation is None:
            return {}
        self.document.depth += 1
        try:
            self.spend(1)
            return self._read(annotation)
        except NotedError:
            return {}
        except UnknownError:
            self.note(self._unknown_star(annotation) or _written(annotation))
            return {}
        finally:
            self.document.depth -= 1

    def _unknown_star(self, annotation: ast.expr) -> str:
        """Return the import of all names of a module that is not read, if a name of an annotation may be one of its."""
        for part in ast.walk(annotation):
            if isinstance(part, ast.Name) and self.resolve(part) is None:
                stars = self.modules.unread_stars(self.module, part.id)
                if stars:
                    return f"{part.id}, which from {stars[0]} import * may define"
        return ""

    def or_null(self, schema: JsonObject) -> JsonObject:
        """Return a schema that also accepts null."""
        return either([schema, NULL])

    def with_definitions(self, schema: JsonObject) -> JsonObject:
        """Return a schema with the definitions that it refers to, under the names that pydantic gives them."""
        definitions = self.document.definitions
        if not definitions:
            return schema
        names = _short_names(definitions)
        reached: dict[str, None] = {}
        root: JsonObject = _renamed(schema, names, reached)
        defined: dict[str, JsonObject] = {}
        while len(defined) < len(reached):
            for key in list(reached)[len(defined) :]:
                defined[names[key]] = _renamed(definitions[key] or {}, names, reached)
        return root | {"$defs": dict(sorted(defined.items()))} if defined else root

    def same_names(self) -> dict[str, tuple[tuple[str, ...], ...]]:
        """Return the names of the same field, for each definition by its final name."""
        names = _short_names(self.document.definitions)
        return {names[key]: same for key, same in self.document.same_names.items()}

    def _read(self, annotation: ast.expr) -> JsonObject:
        if isinstance(annotation, ast.Constant) and annotation.value is None:
            return dict(NULL)
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            return self.read(parse_quoted(annotation.value))
        if isinstance(annotation, ast.BinOp):
            return self._union(_union_parts(annotation))
        if isinstance(annotation, ast.Subscript):
            return self._generic(annotation)
        if isinstance(annotation, ast.Call):
            return self._called(annotation)
        if isinstance(annotation, ast.Name) and annotation.id in self.arguments:
            argument = self.arguments[annotation.id]
            reader = replace(argument.reader, closes=self.closes, renames=self.renames)
            return reader.read(argument.annotation)
        target = self.resolve(annotation)
        if isinstance(target, str):
            return self._known(SPELLINGS.get(target, target))
        if isinstance(target, ModuleMember):
            return self._defined(target, None)
        raise UnknownError

    def _known(self, origin: str) -> JsonObject:
        if origin in ANY:
            if origin == "typing.Hashable" and not self.serializes:
                self.note(origin, refuses_only=True)  # it refuses lists and objects
            return {}
        if self.serializes:
            if origin in NOT_WRITTEN:
                raise UnknownError
            if origin in WRITTEN:
                return dict(WRITTEN[origin])
        if origin not in SIMPLE:
            self._note_no_json(origin)
            if origin in NEEDED_PACKAGES:
                self.document.packages[NEEDED_PACKAGES[origin]] = origin
            raise UnknownError
        self._checked_set(SIMPLE[origin])
        if origin in NARROWER:
            self.note(origin.removeprefix("builtins."), refuses_only=True)
        return dict(SIMPLE[origin])

    def _generic(self, annotation: ast.Subscript) -> JsonObject:
        parts = self.parts(annotation)
        target = self.resolve(annotation.value)
        if isinstance(target, ModuleMember):
            return self._defined(target, parts)
        match self.origin(annotation.value), parts:
            case "typing.Literal", [_, *_]:
                return self.choice(self.literals(parts))
            case "typing.Annotated", [inner, *metadata]:
                return self._annotated(inner, metadata)
            case "typing.Optional", [inner]:
                return either([self.read(inner), NULL])
            case "typing.Union", [_, *_]:
                return self._union(parts)
            case (("typing.Final" | "typing.ReadOnly"), [inner]):
                return self.read(inner)
            case "builtins.tuple", [inner, ast.Constant(value=value)] if value is ...:
                return {"type": "array", "items": self.read(inner)}
            case "builtins.tuple", _:
                items = [self.read(part) for part in parts]
                size = {"minItems": len(items), "maxItems": len(items)}
                return {"type": "array"} | ({"prefixItems": items} if items else {}) | size
            case "builtins.dict", [key, inner]:
                return self._mapping(key, inner)
            case "collections.Counter", [key]:
                return self._mapping(key, ast.Name("int")) | SIMPLE["collections.Counter"]
            case str(origin), [inner] if origin in _ONE_PART:
                return self._checked_set(SIMPLE[origin] | {"items": self.read(inner)})
            case str(origin), _ if origin != "builtins.type":
                self._note_no_json(origin)
        raise UnknownError

    def _note_no_json(self, origin: str) -> None:
        if origin in NO_JSON:
            self.document.notes.no_json[origin.removeprefix("builtins.")] = None

    def _union(self, parts: list[ast.expr]) -> JsonObject:
        schema = either([self.read(part) for part in parts])
        self.note_limited(schema.get("anyOf", []))
        return schema

    def note_limited(self, choices: list[JsonObject]) -> None:
        """Note that pydantic reads a value that the limits of one alternative of a union refuse as another alternative.

        It reads the text "5" as a number, and the number 0 as false or as a date.
        """
        choices = [self.definition_of(choice) or choice for choice in choices]
        limited = [
            choice
            for choice in choices
            if choice.get("type") == "string" and choice.keys() & _LIMITS
        ]
        if limited and any(choice.get("type") in _READ_FROM_TEXTS for choice in choices):
            self.note("a text with limits or a number")
        numbers = [choice for choice in choices if choice.get("type") in {"integer", "number"}]
        takes_all = any(choice.get("type") == "number" and len(choice) == 1 for choice in numbers)
        if not takes_all and any(choice.keys() & _NUMBER_LIMITS for choice in numbers):
            for choice in choices:
                if choice.get("type") == "boolean" or choice.get("format") in _READ_FROM_NUMBERS:
                    self.note(f"a number with limits or a {choice.get('format', 'boolean')}")

    def literals(self, parts: list[ast.expr]) -> Iterator[Any]:
        """Yield the values of ``Literal[...]``, with those of a ``Literal`` in it."""
        for part in parts:
            inner, reader = self.unwrap(part) if isinstance(part, ast.Name) else (part, self)
            if isinstance(inner, ast.Subscript) and reader.origin(inner.value) == "typing.Literal":
                reader.document.depth += 1
                reader.spend(1)
                yield from reader.literals(reader.parts(inner))
                reader.document.depth -= 1
                continue
            if isinstance(part, ast.Attribute) and not is_plain_member(self, part):
                # Pydantic reads only members that are texts or numbers themselves from JSON.
                self.note(_written(part), refuses_only=True)
            yield constant(self, part)

    def _checked_set(self, schema: JsonObject) -> JsonObject:
        """Return the schema of a collection; of a set, note items that may be lists or objects, which it cannot hold."""
        items = schema.get("items", {})
        if "uniqueItems" in schema and items.get("type", "object") in {"object", "array"}:
            self.note("the items of a set", refuses_only=True)
        return schema

    def _mapping(self, key: ast.expr, inner: ast.expr) -> JsonObject:
        """Return the schema of a dict; JSON has only texts as keys, from which pydantic reads the type of the keys."""
        unwrapped, reader = self.unwrap(inner)
        says_any = reader.origin(unwrapped) in ANY
        values = self.read(inner)
        schema: JsonObject = {"type": "object", "additionalProperties": says_any or values}
        unwrapped, reader = self.unwrap(key)
        origin = reader.origin(unwrapped)
        if origin in _PLAIN_KEYS:
            return schema
        if origin == "builtins.int":
            return schema | {"propertyNames": {"pattern": INTEGER_TEXT}}
        names = self.read(key)
        texts = self.definition_of(names) or names
        if texts.get("type") == "string":
            is_class = pointer.REF in names
            rest = {name: value for name, value in names.items() if name != "type"}
            return schema | ({"propertyNames": names if is_class else rest} if rest else {})
        self.note(f"keys of dict[{_written(key)}, ...]")
        # An empty schema, so that it is visible that the keys are not just texts.
        return schema | {"propertyNames": {}}

    def _annotated(self, inner: ast.expr, metadata: list[ast.expr]) -> JsonObject:
        schema = self.read(inner)
        try:
            for part in metadata:
                if not gives_no_schema(self, part):
                    self.document.notes.has_own_schema = True
                expression, reader = (
                    self.unwrap(part) if isinstance(part, ast.Name) else (None, self)
                )
                schema = with_metadata(reader, schema, expression or part)
        except UnknownError:
            # What cannot be read may say that a shell reads the argument, and a waiver must not depend on a guess.
            if not any("json_schema_extra" in _written(part) for part in metadata):
                raise
            self.note(_written(metadata[0]))
            return {SHELL_SCHEMA: True}
        return schema

    def _called(self, call: ast.Call) -> JsonObject:
        """Return the schema of ``conint(gt=0)``, and of what is assigned by ``NewType`` or ``Enum``."""
        origin = self.origin(call.func)
        if origin == "typing.NewType" and len(call.args) == 2:  # noqa: PLR2004 - its name and its type
            return self.read(call.args[1])
        if origin not in CONSTRAINED_BY_CALL:
            raise UnknownError
        keywords = {str(keyword.arg): keyword.value for keyword in call.keywords}
        item = call.args[0] if call.args else keywords.pop("item_type", None)
        type_name = CONSTRAINED_BY_CALL[origin]
        if item is None:
            schema = self._known(type_name)
        elif type_name in _ONE_PART:
            schema = self._checked_set(SIMPLE[type_name] | {"items": self.read(item)})
        else:
            raise UnknownError
        return with_keywords(self, schema, keywords)

    def _defined(self, definition: ModuleMember, parts: list[ast.expr] | None) -> JsonObject:
        """Return the schema of a class or an alias of the toolset, with type arguments if it has ``parts``."""
        node = definition.node
        reader = self.within(definition.module)
        if isinstance(node, ast.ClassDef):
            # A call such as namedtuple("X", ...) may have defined another class of this name.
            if not self.document.is_only(_key(definition, None, self), node):
                raise UnknownError
            return self._class(definition, parts)
        if TYPE_ALIAS and isinstance(node, TYPE_ALIAS):
            return self._type_alias(definition, parts)
        if not isinstance(node, ast.expr):
            raise UnknownError
        if isinstance(node, ast.Call):
            called = reader.origin(node.func)
            if called in _TYPE_VARIABLES:
                return reader.type_variable(node)
            if (called.startswith("enum.") or called in CLASS_MAKERS) and node.args:
                named = definition._replace(name=str(literal(node.args[0])))
                # Two classes may have one name; their variables differ.
                is_first = self.document.is_only(_key(named, None, self), node)
                return self._class(named if is_first else definition, parts)
        if parts is not None:
            names = reader.type_variables(node)
            if len(names) != len(parts):
                raise UnknownError
            arguments = {
                name: TypeArgument(part, self) for name, part in zip(names, parts, strict=True)
            }
            reader = reader.within(definition.module, arguments)
        return reader.read(node)

    def _type_alias(self, definition: ModuleMember, parts: list[ast.expr] | None) -> JsonObject:
        """Return a reference to ``type X = ...``, which pydantic defines as it defines classes."""
        node: Any = definition.node
        names = [parameter.name for parameter in node.type_params]
        arguments = self._type_arguments(names, parts)
        key = _key(definition, parts, self)
        with self.document.notes_of(key):
            if key not in self.document.definitions:
                self.document.definitions[key] = {}  # it may contain itself
                reader = self.within(definition.module, arguments)
                self.document.definitions[key] = reader.read(node.value)
        return {pointer.REF: f"{DEFINITION}{key}"}

    def _class(self, definition: ModuleMember, parts: list[ast.expr] | None) -> JsonObject:
        key = _key(definition, parts, self)
        try:
            with self.document.notes_of(key):
                self._define(key, definition, parts)
        except UnknownError:
            if is_plain_class(self, definition):
                self.document.notes.no_json[definition.name] = None
            raise
        if self.renames:
            if key in self.document.taking_settings:
                raise UnknownError  # its names here are others than elsewhere
            self.document.notes.renamed.add(key)
        return {pointer.REF: f"{DEFINITION}{key}"}

    def _define(self, key: str, definition: ModuleMember, parts: list[ast.expr] | None) -> None:
        """Read a class, unless that has been done.

        Raises:
            UnknownError: if it cannot be read.
        """
        if key not in self.document.definitions:
            # The class may contain itself.  An alias has no title.
            self.document.definitions[key] = {"title": definition.name}
            reader = self.within(definition.module)
            if parts is not None:
                names = reader.class_parameters(definition.node)
                arguments = self._type_arguments(names, parts)
                reader = reader.within(definition.module, arguments)
            try:
                reading = self.class_schema(definition, reader)
            except UnknownError as error:
                self.document.definitions[key] = None
                if not str(error):
                    raise
                self.note(f"{definition.name}: {error}")
                self.document.notes.is_explained = True
                raise NotedError from None
            schema = reading.schema
            if reading.same_names:
                self.document.same_names[key] = reading.same_names
            if reading.takes_settings:
                self.document.taking_settings.add(key)
            if parts is not None and "title" in schema:
                schema = schema | {"title": key.partition(":")[2]}
            self.document.definitions[key] = schema
        elif self.document.definitions[key] is None:
            # The reason is noted at the class, so that its further uses need not repeat it.
            raise NotedError if self.document.notes.is_explained else UnknownError

    def _type_arguments(
        self, names: list[str], parts: list[ast.expr] | None
    ) -> dict[str, TypeArgument]:
        if parts is None:
            return {}
        if len(parts) != len(names):
            raise UnknownError
        return {name: TypeArgument(part, self) for name, part in zip(names, parts, strict=True)}

    def class_parameters(self, node: ast.AST) -> list[str]:
        """Return the names of the type variables of a class: ``class Box[T]``, or those of ``Generic[T]``.

        Raises:
            UnknownError: if the class has none.
        """
        assert isinstance(node, ast.ClassDef)
        names = [parameter.name for parameter in getattr(node, "type_params", [])]
        for base in node.bases:
            if isinstance(base, ast.Subscript):
                is_generic = self.origin(base.value) in {"typing.Generic", "typing.Protocol"}
                own = self.type_variables(base)
                names = (
                    own if is_generic else [*names, *(name for name in own if name not in names)]
                )
                if is_generic:
                    break
        if not names:
            raise UnknownError
        return names

    def type_variables(self, node: ast.AST) -> list[str]:
        """Return the names of the type variables in an expression, in the order of the text."""
        named = [part for part in ast.walk(node) if isinstance(part, ast.Name)]
        named.sort(key=lambda part: (part.lineno, part.col_offset))
        names = [part.id for part in named if self._is_type_variable(part)]
        return list(dict.fromkeys(names))

    def _is_type_variable(self, name: ast.Name) -> bool:
        target = self.resolve(name)
        return (
            isinstance(target, ModuleMember)
            and isinstance(target.node, ast.Call)
            and self.within(target.module).origin(target.node.func) in _TYPE_VARIABLES
        )

    def type_variable(self, call: ast.Call) -> JsonObject:
        """Return the schema of a type variable without a type: its default, its bound, or any of its constraints."""
        keywords = {keyword.arg: keyword.value for keyword in call.keywords}
        if inner := keywords.get("default") or keywords.get("bound"):
            return self.read(inner)
        return self._union(call.args[1:]) if call.args[1:] else {}


def either(schemas: Iterable[JsonObject]) -> JsonObject:
    """Return the union of schemas."""
    choices: dict[str, JsonObject] = {}
    for schema in schemas:
        for choice in schema["anyOf"] if schema.keys() == {"anyOf"} else [schema]:
            choices[json.dumps(choice, sort_keys=True)] = choice
    alternatives = list(choices.values())
    if {} in alternatives:
        # Any value is accepted, but an approval rule still has to know that a shell reads it.
        says_shell = any(choice.get(SHELL_SCHEMA) for choice in alternatives)
        return {SHELL_SCHEMA: True} if says_shell else {}
    return alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives}


def _key(definition: ModuleMember, parts: list[ast.expr] | None, reader: TypeReader) -> str:
    """Return the key of a class or alias with its type arguments; a type variable counts as the type for it.

    Raises:
        UnknownError: if the arguments are too long.
    """
    arguments = ""
    if parts is not None:
        # With the types themselves: a field Inner[T] is another class in Outer[int] than in Outer[str].
        arguments = (
            f"[{', '.join(ast.unparse(_Replaced(reader).visit(deepcopy(part))) for part in parts)}]"
        )
    if len(arguments) > _MOST_ARGUMENTS:
        raise UnknownError
    return f"{definition.module.name}:{definition.name}{arguments}"


class _Replaced(ast.NodeTransformer):
    """An annotation with the types in place of type variables."""

    def __init__(self, reader: TypeReader) -> None:
        self._reader = reader

    def visit_Name(self, node: ast.Name) -> ast.expr:
        argument = self._reader.arguments.get(node.id)
        if argument is None:
            return node
        replaced: ast.expr = _Replaced(argument.reader).visit(deepcopy(argument.annotation))
        return replaced


def _short_names(keys: Iterable[str]) -> dict[str, str]:
    """Return the names of definitions: that of the class alone, or with its module if two classes have it."""
    keys = list(keys)
    short = {key: _as_name(re.sub(r"[^.\[\], ]+\.", "", key.partition(":")[2])) for key in keys}
    names = list(short.values())
    return {
        key: name if names.count(name) == 1 else _as_name(key.replace(":", ".")).replace(".", "__")
        for key, name in short.items()
    }


def _as_name(text: str) -> str:
    return re.sub(r"[^a-zA-Z0-9.\-_]", "_", text)


def _renamed(part: Any, names: Mapping[str, str], reached: dict[str, None]) -> Any:
    """Return a part of a schema with the final names of definitions; add those that it refers to to ``reached``."""
    if isinstance(part, dict):
        return {key: _renamed(value, names, reached) for key, value in part.items()}
    if isinstance(part, list):
        return [_renamed(item, names, reached) for item in part]
    if isinstance(part, str) and part.startswith(DEFINITION):
        key = part.removeprefix(DEFINITION)
        if key in names:
            reached[key] = None
            return f"{DEFINITION}{names[key]}"
    return part


def _written(annotation: ast.expr) -> str:
    try:
        # The parser accepts deeper nesting than Python's stack allows here.
        return ast.unparse(annotation)
    except (RecursionError, ValueError):
        return "a type that is nested too deeply"


def _union_parts(annotation: ast.expr) -> list[ast.expr]:
    parts: list[ast.expr] = []
    # `a | b | c` is nested to the left, and 700 types are deeper than Python's stack
    # (test_schema_of_a_growing_annotation_is_bounded).
    while isinstance(annotation, ast.BinOp):
        if not isinstance(annotation.op, ast.BitOr):
            raise UnknownError
        parts.append(annotation.right)
        annotation = annotation.left
    return [annotation, *reversed(parts)]
