"""Compiler of a GraphQL schema: each field of Query and Mutation becomes an HTTP tool, or is left out with a reason."""

from __future__ import annotations

import copy
from functools import partial
from typing import TYPE_CHECKING, Final

from covalt_git.compilers.compilation import Compilation, CompiledTool, LeftOut, name_clashes
from covalt_git.compilers.graphql.arguments import definitions, input_schema
from covalt_git.compilers.graphql.introspection import read_introspection
from covalt_git.compilers.graphql.naming import RootField, first_name, names_of
from covalt_git.compilers.graphql.schema import ROOTS, UPLOAD, described, name_of, reached
from covalt_git.compilers.graphql.sdl import read_sdl
from covalt_git.compilers.graphql.selection import (
    default_selection,
    example_selection,
    leaf_schema,
    selectable_types,
)
from covalt_git.compilers.openapi.documents import MAX_BYTES, BadDocumentError
from covalt_git.errors import CovaltError
from covalt_git.hosts import BadHostError, origin_of
from covalt_git.names import matches
from covalt_git.templating.graphql_text import MAX_DEPTH as MAX_SELECT_DEPTH
from covalt_git.templating.url_templates import BadTemplateError, UrlTemplate
from covalt_git.text.display import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from covalt_git.compilers.graphql.schema import GraphQLSchema, OutputField, Place
    from covalt_git.json_values import JsonObject

SELECT: Final = "select"
"""The argument that replaces the default fields."""

_MOST_SHOWN: Final = 160


class NoEndpointError(CovaltError):
    """The URL of a GraphQL API is not known, or is not one of a single place."""

    code = "bad_endpoint"
    http_status = 422


def compile_graphql(
    text: bytes | str,
    *,
    namespace: str,
    endpoint: str | None,
    path: str = "schema.graphql",
    held_names: Mapping[str, str] | None = None,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> Compilation:
    """Return the tools of a schema in SDL, or as the JSON answer to an introspection query.

    ``endpoint`` is the URL of the API, and ``path`` the name of the document in its problems.  ``held_names`` are the
    names of tools in the lock, by their ``upstream``.  ``include`` and ``exclude`` are patterns of names.

    Raises:
        BadDocumentError: if the text is not a schema, or exceeds a limit.
        NoEndpointError: if the endpoint is not a URL.
        NotInstalledError: if graphql-core is not installed.
    """
    url, host = _checked_endpoint(endpoint)
    if len(text if isinstance(text, bytes) else text.encode("utf-8", "replace")) > MAX_BYTES:
        raise BadDocumentError(f"{path!r} is larger than {MAX_BYTES:,} bytes")
    try:
        content = text.decode() if isinstance(text, bytes) else text
    except UnicodeDecodeError as error:
        raise BadDocumentError(f"{path!r} is not UTF-8 at byte {error.start}") from None
    content = content.removeprefix("\ufeff")
    is_json = content[:1000].lstrip()[:1] == "{"
    schema = read_introspection(content, path) if is_json else read_sdl(content, path)
    return _Compiler(schema, namespace, url, host).compile(held_names or {}, include, exclude)


def _checked_endpoint(endpoint: str | None) -> tuple[str, str]:
    """Return the template of a URL, and its host."""
    if not endpoint:
        hint = "add --endpoint https://api.example.com/graphql, or endpoint: in toolset.yaml"
        raise NoEndpointError("a GraphQL schema does not say where its API is", hint=hint)
    escaped = endpoint.replace("$", "$$").replace("{", "%7B").replace("}", "%7D")
    try:
        origin, _ = origin_of(UrlTemplate.parse(escaped).begins)
    except (BadHostError, BadTemplateError) as error:
        raise NoEndpointError(f"endpoint: {error.message}", hint=error.hint) from None
    return escaped, origin.shown_host


class _Compiler:
    def __init__(self, schema: GraphQLSchema, namespace: str, url: str, host: str) -> None:
        self._schema = schema
        self._namespace = namespace
        self._url = url
        self._host = host
        self._left_out: list[LeftOut] = []
        self._selectable: set[str] = set()
        self._inputs: set[str] = set()
        self._answers: dict[str, JsonObject] = {}
        self._selections: dict[str, tuple[str, JsonObject]] = {}

    def compile(
        self, held_names: Mapping[str, str], include: Sequence[str], exclude: Sequence[str]
    ) -> Compilation:
        fields: list[RootField] = []
        outputs: list[OutputField] = []
        for kind in ROOTS:
            root = self._schema.roots.get(kind, "")
            for name, output in self._schema.types[root].fields.items() if root else ():
                fields.append(RootField(kind, name, f"{root}.{name}"))
                outputs.append(output)
        named = [field for field in fields if field.kind != "subscription"]
        listed = names_of(named, held_names)
        names = dict(zip(named, listed, strict=True))
        tools: dict[str, CompiledTool] = {}
        included: set[str] = set()
        for field, output in zip(fields, outputs, strict=True):
            name = names.get(field, "")
            patterns = [pattern for pattern in include if self._selects(pattern, field, name)]
            included.update(patterns)
            reason = self._why_left_out(field, output)
            if include and not patterns:
                reason = "include does not select it"
            elif any(self._selects(pattern, field, name) for pattern in exclude):
                reason = "exclude selects it"
            if reason:
                self._left_out.append(LeftOut(field.upstream, reason, output.place()))
            else:
                tools[name] = self._tool(field, output)
        for pattern in include:
            if pattern not in included:
                message = f"include: {pattern!r} matches no field of the schema"
                self._schema.add_fault(lambda: (1, 1), message)
        return Compilation(
            title=self._namespace,
            tools=dict(sorted(tools.items())),
            definitions=dict(
                sorted((definitions(self._schema, self._inputs) | self._answers).items())
            ),
            left_out=tuple(self._left_out),
            problems=self._schema.problems,
            secrets={},
            types=selectable_types(self._schema, self._selectable),
            clashes=name_clashes(
                [first_name(field) for field in named], listed, [field.upstream for field in named]
            ),
            argument_places={
                field.upstream: {
                    name: partial(self._place_of, arg.place) for name, arg in output.args.items()
                }
                for field, output in zip(fields, outputs, strict=True)
            },
        )

    def _place_of(self, place: Place) -> tuple[str, int, int]:
        return self._schema.path, *place()

    def _selects(self, pattern: str, field: RootField, name: str) -> bool:
        texts = (name, f"{self._namespace}.{name}", field.upstream, field.name)
        return any(matches(pattern, text) for text in texts)

    def _why_left_out(self, field: RootField, output: OutputField) -> str:
        if field.kind == "subscription":
            return "it is a subscription, which has no single answer"
        if reason := self._schema.broken.get((field.upstream.partition(".")[0], field.name)):
            return reason
        types = self._schema.types

        def following(name: str) -> list[str]:
            return [name_of(arg.type) for arg in types[name].inputs.values()]

        for name, arg in output.args.items():
            if UPLOAD in reached([name_of(arg.type)], following):
                return f"its argument {name!r} uploads a file ({UPLOAD}), which JSON cannot carry"
        return ""

    def _tool(self, field: RootField, output: OutputField) -> CompiledTool:
        arguments = input_schema(self._schema, output.args)
        self._inputs.update(name_of(arg.type) for arg in output.args.values())
        answer_type = name_of(output.type)
        selection = ""
        body: JsonObject = {}
        if not self._schema.types[answer_type].is_composite:
            answer = leaf_schema(self._schema, output.type)
        else:
            fields, answer = self._default_selection(output.type)
            selection = f" {{ {fields} }}"
            # Without fragments, __typename is all that can be selected of a union.
            if self._schema.types[answer_type].kind != "union":
                select = _free_name(output)
                selection = f" {{ ${select} }}"
                body["select"] = {"default": fields, "argument": select, "type": answer_type}
                arguments["properties"][select] = self._select_argument(answer_type)
                self._selectable.add(answer_type)
        body = {"query": _query(field, output, selection), "operation": field.name, **body}
        return CompiledTool(
            upstream=field.upstream,
            title=None,
            description=described(output.description, output.deprecated),
            input_schema=arguments,
            output_schema=_answer_schema(field.name, answer),
            read_only=field.kind == "query",
            idempotent=field.kind == "query",
            request={"method": "POST", "url": self._url, "body": {"graphql": body}},
            hosts=(self._host,),
            place=output.place(),
        )

    def _default_selection(self, type_text: str) -> tuple[str, JsonObject]:
        # Many fields have the same type.  The schemas are copies, as a writer of YAML writes one object twice as an alias.
        if type_text not in self._selections:
            selection = default_selection(self._schema, type_text, self._answers)
            self._selections[type_text] = selection
        return copy.deepcopy(self._selections[type_text])

    def _select_argument(self, answer_type: str) -> JsonObject:
        objects = [
            name
            for name, output in self._schema.types[answer_type].fields.items()
            if self._schema.types[name_of(output.type)].is_composite
        ]
        more = f" Its objects: {shorten(', '.join(objects), _MOST_SHOWN)}." if objects else ""
        example = shorten(example_selection(self._schema, answer_type), _MOST_SHOWN)
        description = (
            f"Fields of {answer_type} to return instead of the default ones, in GraphQL without fragments,"
            f" directives and variables, at most {MAX_SELECT_DEPTH} levels: {example}.{more}"
        )
        return {"type": "string", "description": description}


def _free_name(output: OutputField) -> str:
    """Return the name of the argument that selects fields, which no argument of the field has."""
    name = SELECT if SELECT not in output.args else f"{SELECT}_fields"
    while name in output.args:
        name += "_"
    return name


def _query(field: RootField, output: OutputField, selection: str) -> str:
    """Return the operation: each argument of the field is a variable with its name."""
    declared = ", ".join(
        # With a default, the argument can be absent, also if its type is non-null (section 5.8.5).
        f"${name}: {arg.type if arg.is_required else arg.type.removesuffix('!')}"
        for name, arg in output.args.items()
    )
    passed = ", ".join(f"{name}: ${name}" for name in output.args)
    head = f"{field.kind} {field.name}" + (f"({declared})" if declared else "")
    call = field.name + (f"({passed})" if passed else "")
    return f"{head} {{ {call}{selection} }}"


def _answer_schema(name: str, answer: JsonObject) -> JsonObject:
    """Return the schema of an answer with data; with errors, some of its values are null."""
    data = {"type": "object", "properties": {name: answer}, "required": [name]}
    errors = {"type": "array", "items": {"type": "object"}}
    properties = {"data": data, "errors": errors}
    return {"type": "object", "properties": properties, "required": ["data"]}
