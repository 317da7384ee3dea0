"""Introspection of a GraphQL API: the request, its answer as a file, and the schema in such a file."""

from __future__ import annotations

import json
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
from covalt_git.compilers.openapi.documents import BadDocumentError, DocumentPart, load
from covalt_git.errors import CovaltError
from covalt_git.hosts import origin_of
from covalt_git.http_client import ClientRequest
from covalt_git.templating.graphql_text import NAME
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from collections.abc import Iterator

    from covalt_git.compilers.graphql.schema import Kind, Place, RootKind

_KINDS: Final[dict[str, Kind]] = {
    "SCALAR": "scalar",
    "OBJECT": "object",
    "INTERFACE": "interface",
    "UNION": "union",
    "ENUM": "enum",
    "INPUT_OBJECT": "input",
}
_ROOTS: Final[dict[str, RootKind]] = {
    "queryType": "query",
    "mutationType": "mutation",
    "subscriptionType": "subscription",
}
_TYPE_TEXT = re.compile(r"\[*[_A-Za-z][_0-9A-Za-z]*[!\]]*")
_SPACES = re.compile(r"\s+")


class RefusedIntrospectionError(CovaltError):
    """An API does not answer the introspection query."""

    code = "no_introspection"
    http_status = 502


def introspection_request(
    url: str, headers: tuple[tuple[str, str], ...] = (), *, is_plain: bool = False
) -> ClientRequest:
    """Return the request for the schema of an API.

    With ``is_plain``, it does not ask for what the specification of 2018 did not have: servers refuse a query with a
    field that they do not know.

    Raises:
        BadHostError: if the URL is not one of http or https.
        NotInstalledError: if graphql-core is not installed.
    """
    origin_of(url)
    more = not is_plain
    query = graphql_core().get_introspection_query(
        specified_by_url=more, schema_description=more, input_value_deprecation=more, one_of=False
    )
    body = {"query": _SPACES.sub(" ", query).strip(), "operationName": "IntrospectionQuery"}
    media_types = (
        ("Content-Type", "application/json"),
        ("Accept", "application/graphql-response+json, application/json;q=0.9"),
    )
    return ClientRequest("POST", url, (*media_types, *headers), json.dumps(body).encode())


def schema_from_introspection(content: bytes | str) -> str:
    """Return the JSON file of an answer to the introspection query, with its types by name.

    Raises:
        RefusedIntrospectionError: if the API refused the query; its message is in the error.
        BadDocumentError: if the answer is not JSON of GraphQL, or exceeds a limit.
    """
    document, _ = load(content, "introspection.json")
    data = document.data
    schema = _schema_node(DocumentPart(document, (), data))
    if schema is None:
        errors = data.get("errors") if isinstance(data, dict) else None
        first = errors[0] if isinstance(errors, list) and errors else None
        reason = first.get("message") if isinstance(first, dict) else None
        raise RefusedIntrospectionError(
            "the API does not answer the introspection query"
            + (f": {shorten(reason, 300)}" if isinstance(reason, str) else ""),
            hint="save its schema as a file: covalt-git source add TOOLSET schema.graphql",
        )
    types = schema.at("types").value
    value = dict(schema.value)
    if isinstance(types, list):
        value["types"] = sorted(types, key=_name)
    return json.dumps({"__schema": value}, ensure_ascii=False, indent=1) + "\n"


def read_introspection(text: str, path: str) -> GraphQLSchema:
    """Return the schema of a JSON text, the answer to an introspection query or the ``data`` of it.

    Raises:
        BadDocumentError: if it is not such an answer, or exceeds a limit.
        NotInstalledError: if graphql-core is not installed.
    """
    document, _ = load(text, path)
    node = _schema_node(DocumentPart(document, (), document.data))
    if node is None or not isinstance(node.at("types").value, list):
        hint = "it has the key __schema, with types"
        raise BadDocumentError(f"{path!r} is not the answer to an introspection query", hint=hint)
    return _Reader(path).read(node)


def _schema_node(root: DocumentPart) -> DocumentPart | None:
    for node in (root.at("data", "__schema"), root.at("__schema")):
        if isinstance(node.value, dict):
            return node
    return None


def _name(value: Any) -> str:
    name = value.get("name") if isinstance(value, dict) else None
    return name if isinstance(name, str) else ""


class _Reader:
    def __init__(self, path: str) -> None:
        self._schema = GraphQLSchema(path)

    def read(self, schema: DocumentPart) -> GraphQLSchema:
        for key, kind in _ROOTS.items():
            name = schema.at(key).text("name")
            if name:
                self._schema.roots[kind] = name
        for node in schema.at("types").elements():
            self._add_type(node)
        self._schema.complete(names_roots=True)
        return self._schema

    def _add_type(self, node: DocumentPart) -> None:
        name = self._checked_name(node)
        kind = _KINDS.get(node.text("kind"))
        if name is None or kind is None:
            if kind is None:
                self._schema.add_fault(_place(node), "this type has no kind")
            return
        named = NamedType(kind, node.text("description"))
        named.specified_by = node.text("specifiedByURL") or None
        named.is_one_of = node.flag("isOneOf")
        self._schema.types[name] = named
        for child in node.at("fields").elements() if kind in {"object", "interface"} else ():
            self._add_field(named, child)
        if kind == "input":
            named.inputs = dict(self._arguments(node.at("inputFields")))
        elif kind == "union":
            named.members = [child.text("name") for child in node.at("possibleTypes").elements()]
        elif kind == "enum":
            for child in node.at("enumValues").elements():
                if (value := self._checked_name(child)) is not None:
                    named.values[value] = described(child.text("description"), _deprecation(child))

    def _add_field(self, named: NamedType, node: DocumentPart) -> None:
        name, text = self._checked_name(node), self._type(node)
        if name is not None and text is not None:
            named.fields[name] = OutputField(
                type=text,
                description=node.text("description"),
                deprecated=_deprecation(node),
                args=dict(self._arguments(node.at("args"))),
                place=_place(node),
            )

    def _arguments(self, nodes: DocumentPart) -> Iterator[tuple[str, InputValue]]:
        for node in nodes.elements():
            name, text = self._checked_name(node), self._type(node)
            if name is not None and text is not None:
                yield (
                    name,
                    InputValue(
                        type=text,
                        description=node.text("description"),
                        deprecated=_deprecation(node),
                        default=self._default(node),
                        place=_place(node),
                    ),
                )

    def _checked_name(self, node: DocumentPart) -> str | None:
        """Return a name that can be in a query; JSON can have any text there."""
        name = node.text("name")
        if NAME.fullmatch(name) is None:
            self._schema.add_fault(_place(node), f"{shorten(name)!r} is not a name of GraphQL")
            return None
        return None if name.startswith("__") else name

    def _type(self, node: DocumentPart) -> str | None:
        begin, end = "", ""
        part = node.at("type")
        while part.text("kind") in {"LIST", "NON_NULL"}:
            is_list = part.text("kind") == "LIST"
            begin, end = (begin + "[", "]" + end) if is_list else (begin, "!" + end)
            part = part.at("ofType")
        text = f"{begin}{part.text('name')}{end}"
        if _TYPE_TEXT.fullmatch(text) is None:
            message = (
                f"{shorten(node.text('name'))!r} has no type, or one that is nested too deeply"
            )
            self._schema.add_fault(_place(node), message)
            return None
        return text

    def _default(self, node: DocumentPart) -> Any:
        text = node.text("defaultValue")
        if not text:
            return NO_DEFAULT
        graphql = graphql_core()
        try:
            return json_of(graphql.parse_const_value(text))
        except (graphql.GraphQLError, ValueError, OverflowError, RecursionError):
            message = f"the default {shorten(text)} has no value in JSON, and is not listed"
            self._schema.add_fault(_place(node), message)
            return None


def _place(node: DocumentPart) -> Place:
    return lambda: node.place


def _deprecation(node: DocumentPart) -> str | None:
    is_deprecated = node.flag("isDeprecated") or bool(node.text("deprecationReason"))
    return (node.text("deprecationReason") or DEPRECATED) if is_deprecated else None
