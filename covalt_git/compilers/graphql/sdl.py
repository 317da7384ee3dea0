"""Reading of schemas in GraphQL's schema definition language."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from covalt_git.compilers.graphql.library import graphql_core, json_of
from covalt_git.compilers.graphql.schema import (
    DEPRECATED,
    NO_DEFAULT,
    GraphQLSchema,
    InputValue,
    NamedType,
    OutputField,
    described,
)
from covalt_git.compilers.openapi.documents import MAX_DEPTH, BadDocumentError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covalt_git.compilers.graphql.schema import Kind, Place

MAX_TOKENS: Final = 600_000
"""Most names and marks of a document; the compiler needs up to 1.5 KiB for each."""

_INTERESTING = re.compile(r'"""|"|#|[{}\[\]()]')
_LINE_END = re.compile(r"[\n\r]")
_STRING_END = re.compile(r'(?:[^"\\\n\r]|\\.)*+"')
_WORD = re.compile(r"[^\s,\w]|\w+")

_KINDS: Final[dict[str, Kind]] = {
    "scalar_type": "scalar",
    "object_type": "object",
    "interface_type": "interface",
    "union_type": "union",
    "enum_type": "enum",
    "input_object_type": "input",
}


def read_sdl(text: str, path: str) -> GraphQLSchema:
    """Return the schema of a text.

    Raises:
        BadDocumentError: if the text is not SDL, or exceeds a limit.
        NotInstalledError: if graphql-core is not installed.
    """
    check_size(text, path)
    graphql = graphql_core()
    try:
        document = graphql.parse(text)
    except graphql.GraphQLError as error:
        line, column = error.locations[0] if error.locations else (1, 1)
        reason = error.message.removeprefix("Syntax Error: ").rstrip(".")
        raise BadDocumentError(f"{path}:{line}:{column}: {reason}") from None
    except RecursionError:
        raise too_deep(path) from None
    return _Reader(path).read(document.definitions)


def check_size(text: str, path: str) -> None:
    """Check the number and the nesting of the tokens in linear time, before a parser recurses.

    Raises:
        BadDocumentError: if a limit is exceeded.
    """
    tokens, depth, at, length = 0, 0, 0, len(text)
    while at < length:
        match = _INTERESTING.search(text, at)
        end = match.start() if match else length
        tokens += sum(1 for _ in _WORD.finditer(text, at, end))
        if match is None:
            break
        mark, at = match[0], match.end()
        tokens += mark != "#"
        if mark == "#":
            line_end = _LINE_END.search(text, at)
            at = line_end.end() if line_end else length
        elif mark == '"""':
            at = text.find('"""', at)
            while at > 0 and text[at - 1] == "\\":
                at = text.find('"""', at + 3)
            at = length if at < 0 else at + 3
        elif mark == '"':
            string_end = _STRING_END.match(text, at)
            at = string_end.end() if string_end else at
        else:
            depth += 1 if mark in "{[(" else -1
        if depth > MAX_DEPTH:
            raise too_deep(path)
        if tokens > MAX_TOKENS:
            raise BadDocumentError(f"{path!r} has more than {MAX_TOKENS:,} names and marks")


def too_deep(path: str) -> BadDocumentError:
    """Return the error of a document that is nested too deeply."""
    return BadDocumentError(f"{path!r} has more than {MAX_DEPTH} nested lists and blocks")


class _Reader:
    def __init__(self, path: str) -> None:
        self._schema = GraphQLSchema(path)
        self._defined: set[str] = set()

    def read(self, definitions: Iterable[Any]) -> GraphQLSchema:
        names_roots = False
        for node in definitions:
            kind, _, how = node.kind.rpartition("_")
            if kind == "schema":
                names_roots |= how == "definition"
                for operation in node.operation_types:
                    self._schema.roots[operation.operation.value] = operation.type.name.value
            elif kind in _KINDS:
                self._add(node, _KINDS[kind], is_extension=how == "extension")
        if not self._defined:
            raise BadDocumentError(f"{self._schema.path!r} defines no types of GraphQL")
        self._schema.complete(names_roots=names_roots)
        return self._schema

    def _add(self, node: Any, kind: Kind, *, is_extension: bool) -> None:
        """Add a definition; an extension can precede what it extends, or be of a type in another document."""
        name, place = node.name.value, _place(node.name)
        if name.startswith("__"):
            return
        named = self._schema.types.setdefault(name, NamedType(kind))
        if named.kind != kind:
            self._schema.add_fault(place, f"the type {name!r} is defined as {named.kind} too")
            return
        if name in self._defined and not is_extension:
            self._schema.add_fault(place, f"the type {name!r} is defined twice")
        if not is_extension:
            self._defined.add(name)
            named.description = _text(node.description)
        self._defined.add(name)
        if kind in {"object", "interface"}:
            for field in node.fields or ():
                self._add_field(name, named, field)
        elif kind == "input":
            named.inputs |= self._arguments(node.fields or ())
        elif kind == "union":
            named.members += [member.name.value for member in node.types or ()]
        elif kind == "enum":
            named.values |= {
                value.name.value: described(_text(value.description), _deprecation(value))
                for value in node.values or ()
            }
        for directive in node.directives or ():
            if directive.name.value == "oneOf":
                named.is_one_of = True
            elif directive.name.value == "specifiedBy":
                named.specified_by = _directive_text(directive, "url")

    def _add_field(self, type_name: str, named: NamedType, node: Any) -> None:
        name, place = node.name.value, _place(node.name)
        if name.startswith("__"):
            return
        if name in named.fields:
            self._schema.add_fault(place, f"the field {type_name}.{name} is defined twice")
            return
        named.fields[name] = OutputField(
            type=_type(node.type),
            description=_text(node.description),
            deprecated=_deprecation(node),
            args=self._arguments(node.arguments or ()),
            place=place,
        )

    def _arguments(self, nodes: Iterable[Any]) -> dict[str, InputValue]:
        return {
            node.name.value: InputValue(
                type=_type(node.type),
                description=_text(node.description),
                deprecated=_deprecation(node),
                default=self._default(node),
                place=_place(node.name),
            )
            for node in nodes
        }

    def _default(self, node: Any) -> Any:
        if node.default_value is None:
            return NO_DEFAULT
        try:
            return json_of(node.default_value)
        except (ValueError, OverflowError):
            # The server has the default; only its value cannot be listed.
            message = f"the default of {node.name.value} has no value in JSON, and is not listed"
            self._schema.add_fault(_place(node.name), message)
            return None


def _place(node: Any) -> Place:
    token = node.loc.start_token
    return lambda: (token.line, token.column)


def _text(node: Any) -> str:
    return node.value if node is not None else ""


def _type(node: Any) -> str:
    """Return the text of a type, without the recursion of a printer."""
    begin, end = "", ""
    while node.kind != "named_type":
        if node.kind == "list_type":
            begin, end = begin + "[", "]" + end
        else:
            end = "!" + end
        node = node.type
    return f"{begin}{node.name.value}{end}"


def _deprecation(node: Any) -> str | None:
    for directive in node.directives or ():
        if directive.name.value == "deprecated":
            return _directive_text(directive, "reason") or DEPRECATED
    return None


def _directive_text(directive: Any, name: str) -> str:
    for argument in directive.arguments or ():
        if argument.name.value == name and argument.value.kind == "string_value":
            return str(argument.value.value)
    return ""
