"""Names and constants in the annotations of one module, and the schema that all parts of a signature share."""

from __future__ import annotations

import ast
import contextlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from covalt_git.json_values import pointer
from covalt_git.python_reader.known_types import SPELLINGS
from covalt_git.python_reader.module_text import parse_expression
from covalt_git.python_reader.modules import ModuleMember
from covalt_git.python_reader.names import UnknownError
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Self

    from covalt_git.json_values import JsonObject
    from covalt_git.python_reader.modules import Module, Modules, Target

DEFINITION = "#/$defs/"
"""Beginning of a reference to a definition; until a schema is complete, the key of the definition follows as it is."""

BUDGET = 200_000
"""Maximum size of a schema in nodes and characters; nested aliases can grow exponentially."""

MAX_DEPTH = 40

_MOST_NOTES = 20
_SHOWN = 60
_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


@dataclass(slots=True)
class TypeNotes:
    """What a schema does not say about a parameter, or about a definition without those that it refers to.

    Attributes:
        texts: the types that were not read, or accept less than their schema, in their order.
        may_change: whether the function may get another value than the schema says.
        is_explained: whether a text says why the definition cannot be read.
        uses: the keys of the definitions that it refers to.
        renamed: those of them to which it refers from a model that gives fields other names.
        no_json: the types of which pydantic makes no value from JSON.
        has_own_schema: whether metadata may give such a type a schema.
    """

    texts: dict[str, None] = field(default_factory=dict)
    may_change: bool = False
    is_explained: bool = False
    uses: set[str] = field(default_factory=set)
    renamed: set[str] = field(default_factory=set)
    no_json: dict[str, None] = field(default_factory=dict)
    has_own_schema: bool = False


class ClassReading(NamedTuple):
    """What was read of a class.

    Attributes:
        schema: its schema.
        same_names: for each field that callers can fill under several names, these names; the listed one first.
        takes_settings: whether the settings of a model around apply to it, as to a TypedDict.
    """

    schema: JsonObject
    same_names: tuple[tuple[str, ...], ...] = ()
    takes_settings: bool = False


@dataclass(slots=True)
class SchemaDocument:
    """What all parts of one schema share.

    Attributes:
        definitions: the schemas of classes by ``module:Class``; None of a class that cannot be read.
        same_names: the names of the same field, for each definition with such fields.
        taking_settings: the keys of the definitions to which the settings of a model around apply.
        notes: those of the parameter or the definition that is read now.
        unread: the notes of each parameter, by its name.
        unread_digests: the digest of the source that decides about each of these.
        changed: the names of the parameters that may change.
        packages: the types that need a package, by the name under which it is imported.
        refused: the types of parameters that no call can pass, by the names of the parameters.
        nodes: the class or the call that makes it, for each definition.
        size: of the schema, in nodes and characters.
        depth: of the annotation that is read now.
    """

    definitions: dict[str, JsonObject | None] = field(default_factory=dict)
    same_names: dict[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    taking_settings: set[str] = field(default_factory=set)
    notes: TypeNotes = field(default_factory=TypeNotes)
    unread: dict[str, str] = field(default_factory=dict)
    unread_digests: dict[str, str] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    packages: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, ast.AST] = field(default_factory=dict)
    size: int = 0
    depth: int = 0
    _noted: dict[str, TypeNotes] = field(default_factory=dict)

    def is_only(self, key: str, node: ast.AST) -> bool:
        """Return whether a definition has been read of no other class or call than this one."""
        return self.nodes.setdefault(key, node) is node

    @contextlib.contextmanager
    def notes_of(self, key: str) -> Iterator[None]:
        """Note what the block notes at a definition, and that the one that is read now refers to it."""
        self.notes.uses.add(key)
        outer, self.notes = self.notes, self._noted.setdefault(key, TypeNotes())
        try:
            yield
        finally:
            self.notes = outer

    def end_parameter(self, name: str) -> None:
        """Keep the notes of a parameter under its public name, with those of all definitions that it reaches.

        Only now are these complete: a class in a circle is referred to before it is read.
        """
        texts, may_change = dict(self.notes.texts), self.notes.may_change
        renamed = set(self.notes.renamed)
        no_json, has_own_schema = dict(self.notes.no_json), self.notes.has_own_schema
        reached = dict.fromkeys(sorted(self.notes.uses))
        waiting = list(reached)
        while waiting:
            key = waiting.pop()
            noted = self._noted[key]
            texts |= noted.texts
            is_unreadable = self.definitions.get(key) is None
            if is_unreadable and not texts:
                texts[key.rpartition(":")[2]] = None
            may_change = may_change or noted.may_change or is_unreadable
            has_own_schema = has_own_schema or noted.has_own_schema
            no_json |= {} if is_unreadable else noted.no_json  # what is not read may have a schema
            renamed |= noted.renamed
            new = sorted(noted.uses - reached.keys())
            reached |= dict.fromkeys(new)
            waiting += new
        for key in sorted(renamed & self.taking_settings):  # such as of a TypedDict in a circle
            texts[key.rpartition(":")[2]] = None
            may_change = True
        if texts:
            self.unread[name] = ", ".join(texts)
        if may_change:
            self.changed.add(name)
        if no_json and not has_own_schema:
            self.refused[name] = next(iter(no_json))
        self.notes = TypeNotes()


@dataclass(frozen=True, slots=True)
class TypeArgument:
    """The type in place of a type variable, in the module that names it."""

    annotation: ast.expr
    reader: TypeReader


@dataclass(frozen=True, slots=True)
class TypeReader(ABC):
    """What an expression of one module names, and what is noted about the types of a signature.

    Attributes:
        serializes: whether it reads the types of results, as which pydantic writes some types differently.
        arguments: the types for the type variables of the class or alias that is read.
        closes: whether TypedDicts and dataclasses take no further keys: as arguments, but not in a model.
        renames: whether the settings of a model around give the fields of TypedDicts and dataclasses other names or limits.
    """

    modules: Modules
    module: Module
    document: SchemaDocument = field(default_factory=SchemaDocument)
    serializes: bool = False
    arguments: Mapping[str, TypeArgument] = field(default_factory=dict)
    closes: bool = True
    renames: bool = False

    @abstractmethod
    def read(self, annotation: ast.expr | None) -> JsonObject:
        """Return the schema of an annotation."""

    def within(self, module: Module, arguments: Mapping[str, TypeArgument] | None = None) -> Self:
        """Return the reader of another module for the same schema."""
        return replace(self, module=module, arguments=arguments or {})

    def note(self, text: str, *, refuses_only: bool = False) -> None:
        """Note a type or a constraint that the schema does not say.

        ``refuses_only``: it refuses more values, but the function gets those that the schema says, by their formats.
        """
        notes = self.document.notes
        notes.may_change = notes.may_change or not refuses_only
        if len(notes.texts) < _MOST_NOTES:
            notes.texts[shorten(text, _SHOWN)] = None

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
            # A few names can repeat thousands of values (test_schema_of_a_growing_annotation_is_bounded).
            self.spend(len(value) + 1 if isinstance(value, str) else 1)
            # In Python 1 == True, but they are different values in JSON.
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
            # Python allows lone surrogates, which no JSON text can have.
            expression.value.encode("utf-8")
            self.spend(len(expression.value))
        except (UnicodeEncodeError, UnknownError):
            return ""
        return expression.value

    def assigned(self, expression: ast.expr) -> tuple[ast.expr, Self]:
        """Return the expression that is assigned to a name, through other names, and the reader of its module."""
        reader = self
        for _ in range(MAX_DEPTH):
            target = reader.resolve(expression)
            if not isinstance(target, ModuleMember) or not isinstance(target.node, ast.expr):
                break
            expression, reader = target.node, reader.within(target.module)
        return expression, reader

    def unwrap(self, annotation: ast.expr | None) -> tuple[ast.expr | None, Self]:
        """Return an annotation without quotes and with aliases resolved, and the reader of its module.

        Raises:
            UnknownError: if quotes do not contain an expression, or aliases are circular.
        """
        reader = self
        for _ in range(MAX_DEPTH):
            if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
                annotation = parse_quoted(annotation.value)
                continue
            target = reader.resolve(annotation)
            if not isinstance(target, ModuleMember) or not isinstance(target.node, ast.expr):
                return annotation, reader
            annotation, reader = target.node, reader.within(target.module)
        raise UnknownError

    def spend(self, amount: int) -> None:
        """Add to the size of the schema.

        Raises:
            UnknownError: if the schema is now too large or too deep.
        """
        self.document.size += amount
        if self.document.size > BUDGET or self.document.depth > MAX_DEPTH:
            raise UnknownError

    def parts(self, annotation: ast.Subscript) -> list[ast.expr]:
        """Return the type arguments of ``Name[...]``.

        Raises:
            UnknownError: if an argument is unpacked.
        """
        inner = annotation.slice
        parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        if any(isinstance(part, ast.Starred) for part in parts):
            raise UnknownError
        return parts

    def resolve(self, expression: ast.AST | None) -> Target:
        """Return what an expression names; see :meth:`.Modules.resolve`."""
        return self.modules.resolve(expression, self.module)

    def origin(self, annotation: ast.AST | None) -> str:
        """Return the dotted name that an annotation refers to, with ``typing.List`` as ``builtins.list``."""
        target = self.resolve(annotation)
        return SPELLINGS.get(target, target) if isinstance(target, str) else ""

    def definition_of(self, schema: JsonObject) -> JsonObject:
        """Return the definition that a schema refers to; ``{}`` if it is no reference, or not read."""
        name = str(schema.get(pointer.REF, "")).removeprefix(DEFINITION)
        return self.document.definitions.get(name) or {}


def parse_quoted(text: str) -> ast.expr:
    """Parse an annotation in quotes."""
    try:
        return parse_expression(text.strip())
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise UnknownError from None
