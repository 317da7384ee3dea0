"""Schemas of GraphQL: names, arguments, default fields, faults and limits."""

import json
import sys
import time
from typing import Any

import graphql
import pytest

from covalt_git.compilers.graphql import compile_graphql
from covalt_git.compilers.graphql.compiler import NoEndpointError
from covalt_git.compilers.graphql.library import NotInstalledError
from covalt_git.compilers.openapi.documents import BadDocumentError
from covalt_git.errors import CovaltError
from covalt_git.json_values import json_schema
from tests.compilers.test_graphql_goldens import (
    compiled,
    introspected,
    query_of,
    with_definitions,
)


def default_fields(sdl: str, name: str) -> str:
    """Return the query of a tool with its default fields, after graphql-core has accepted it."""
    query = query_of(compiled(sdl).tools[name].request)
    assert graphql.validate(graphql.build_schema(sdl), graphql.parse(query)) == []
    return query


def accepts(sdl: str, args: dict[str, Any], name: str = "f") -> bool:
    compilation = compiled(sdl)
    schema = with_definitions(compilation.tools[name].input_schema, compilation)
    return not json_schema.value_problems(schema, args)


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("film", "film"),
        ("allFilms", "all_films"),
        ("HTTPLog", "http_log"),
        ("getURL2", "get_url2"),
        ("film_count", "film_count"),
        ("_service", "_service"),
        ("f" * 80, "f" * 56 + "_6e0e5e"),
    ],
)
def test_a_field_is_named_in_snake_case(field: str, name: str) -> None:
    [made] = compiled(f"type Query {{ {field}: Int }}").tools
    assert made[:56] == name[:56]
    assert len(made) <= 63


BOTH = "type Query { film: Int  film_mutation: Int } type Mutation { film: Int }"


def test_names_that_the_lock_has_stay_and_newcomers_give_way() -> None:
    fresh = {name: tool.upstream for name, tool in compiled(BOTH).tools.items()}
    assert fresh["film"] == "Query.film"
    assert fresh["film_mutation"] == "Query.film_mutation"
    assert [name for name in fresh if name.startswith("film_") and name != "film_mutation"]

    held = {"Mutation.film": "film", "Query.gone": "film_mutation"}
    names = {tool.upstream: name for name, tool in compiled(BOTH, held_names=held).tools.items()}
    assert names == {
        "Mutation.film": "film",
        "Query.film": "film_query",
        "Query.film_mutation": "film_mutation",
    }


def test_include_and_exclude_select_by_name_or_field() -> None:
    sdl = "type Query { film: Int allFilms: Int } type Mutation { clear: Int }"
    for include, exclude, names in (
        (["all_*"], [], ["all_films"]),
        (["library.film"], [], ["film"]),
        (["Mutation.*"], [], ["clear"]),
        ([], ["*film*"], ["clear"]),
    ):
        compilation = compiled(sdl, include=include, exclude=exclude)
        assert list(compilation.tools) == names
        assert len(compilation.left_out) == 3 - len(names)

    [problem] = compiled(sdl, include=["nothing", "film"]).problems
    assert (problem.code, problem.severity) == ("CG222", "warning")


# --- the document ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sdl", "upstreams"),
    [
        ("extend type Query { a: Int } extend type Query { b: Int }", {"Query.a", "Query.b"}),
        ("extend type Query { a: Int } type Query { b: Int }", {"Query.a", "Query.b"}),
        ("schema { query: Q } type Q { a: Int } type Query { b: Int }", {"Q.a"}),
        (
            "type Query { a: Int } extend schema { mutation: M } type M { c: Int }",
            {"Query.a", "M.c"},
        ),
        ("schema { query: No } type Query { a: Int }", set()),
        ('type Query @key(fields: "id") { a: Int @auth }', {"Query.a"}),
        ("query { a } type Query { a: Int }", {"Query.a"}),
    ],
)
def test_roots_and_extensions_are_read(sdl: str, upstreams: set[str]) -> None:
    assert {tool.upstream for tool in compiled(sdl).tools.values()} == upstreams


@pytest.mark.parametrize(
    ("sdl", "place", "names"),
    [
        ("type Query {\n a: No\n b: Int }", (2, 2), ["a", "b"]),
        ("type Query {\n a(x: No): Int }", (2, 4), ["a"]),
        ("type Query { a: Int }\ntype Query { b: Int }", (2, 6), ["a", "b"]),
        ("type Query { a: Int\n a: Float }", (2, 2), ["a"]),
        ("type Query { a: Int }\nscalar Query", (2, 8), ["a"]),
        ("type Query { b: Int\n a: In } input In { x: Int }", (2, 2), ["b"]),
        ("type Query { b: Int\n a(x: Query): Int }", (2, 4), ["b"]),
        ("type Query { a(x: In): Int } input In {\n y: Query z: Int }", (2, 2), ["a"]),
        ("type Query {\n a(x: Float = 1e999): Int }", (2, 4), ["a"]),
        ("type Query {\n a(x: Any = 9007199254740993): Int } scalar Any", (2, 4), ["a"]),
    ],
)
def test_a_fault_costs_only_its_part(sdl: str, place: tuple[int, int], names: list[str]) -> None:
    compilation = compiled(sdl, path="a.graphql")
    [problem] = compilation.problems

    assert (problem.path, (problem.line, problem.col), problem.severity) == (
        "a.graphql",
        place,
        "warning",
    )
    assert list(compilation.tools) == names
    for tool in compilation.tools.values():
        assert json_schema.schema_problems(with_definitions(tool.input_schema, compilation)) == []


def test_only_queries_are_read_only_and_repeatable() -> None:
    tools = compiled().tools.values()

    assert {tool.upstream[:5] for tool in tools if tool.read_only} == {"Shelf"}
    assert {tool.upstream[:5] for tool in tools if not tool.read_only} == {"Desk."}
    assert all(tool.idempotent == tool.read_only for tool in tools)


def test_deprecated_parts_say_so_first() -> None:
    sdl = 'type Query { "Old." a("Why." x: Int @deprecated): Int @deprecated(reason: "use b") b: Int }'
    for text in (sdl, introspected(sdl)):
        tool = compiled(text).tools["a"]
        assert tool.description == "Deprecated: use b Old."
        described = tool.input_schema["properties"]["x"]
        assert described["description"] == "Deprecated: No longer supported Why."
        assert described["deprecated"] is True


@pytest.mark.parametrize("type_text", ["Upload", "[Upload!]", "In", "[Deep]"])
def test_an_upload_is_left_out_wherever_it_is(type_text: str) -> None:
    sdl = (
        f"type Query {{ b: Int a(x: {type_text}): Int }} scalar Upload"
        " input In { of: Deep } input Deep { of: In file: Upload }"
    )
    compilation = compiled(sdl)

    assert list(compilation.tools) == ["b"]
    assert [part.upstream for part in compilation.left_out] == ["Query.a"]


# --- arguments ------------------------------------------------------------------------------------

ARGUMENTS = (
    "type Query { f(a: Int!, b: [Float!], c: E = X, d: In, e: ID, g: Boolean! = true, k: One, s: Any): Int }"
    " enum E { X Y } input In { of: [In!] n: Int! m: Int! = 2 } input One @oneOf { x: Int y: String }"
    " scalar Any"
)


@pytest.mark.parametrize(
    ("args", "is_accepted"),
    [
        ({"a": 1}, True),
        ({}, False),
        ({"a": None}, False),
        ({"a": "1"}, False),
        ({"a": 1, "z": 1}, False),
        ({"a": 1, "b": [1, 1.5]}, True),
        ({"a": 1, "b": None}, True),
        ({"a": 1, "b": [None]}, False),
        ({"a": 1, "c": "Y"}, True),
        ({"a": 1, "c": "Z"}, False),
        ({"a": 1, "c": None}, True),
        ({"a": 1, "d": {"n": 1, "of": [{"n": 2, "of": []}]}}, True),
        ({"a": 1, "d": {"n": 1, "of": [{"m": 2}]}}, False),
        ({"a": 1, "d": {"of": []}}, False),
        ({"a": 1, "e": 7}, True),
        ({"a": 1, "e": "7"}, True),
        ({"a": 1, "g": None}, False),
        ({"a": 1, "g": False}, True),
        ({"a": 1, "k": {"x": 1}}, True),
        ({"a": 1, "k": {}}, False),
        ({"a": 1, "k": {"x": 1, "y": "a"}}, False),
        ({"a": 1, "k": {"x": None}}, False),
        ({"a": 1, "s": {"any": [1]}}, True),
    ],
)
def test_arguments_are_accepted_as_the_server_does(args: dict[str, Any], is_accepted: bool) -> None:  # noqa: FBT001
    for text in (ARGUMENTS, introspected(ARGUMENTS)):
        assert accepts(text, args) == is_accepted
    if "z" in args:  # variables that a query does not declare are ignored
        return
    schema = graphql.build_schema(ARGUMENTS)
    query = compiled(ARGUMENTS).tools["f"].request["body"]["graphql"]["query"]
    result = graphql.graphql_sync(schema, query, None, variable_values=args)
    assert (result.errors is None) == is_accepted


def test_a_default_is_a_value_of_its_schema() -> None:
    sdl = "type Query { f(a: [[E]] = X, b: In = {c: Y}): Int } enum E { X Y } input In { c: [E] }"

    properties = compiled(sdl).tools["f"].input_schema["properties"]

    assert properties["a"]["default"] == [["X"]]
    assert properties["b"]["default"] == {"c": ["Y"]}
    assert accepts(sdl, {"a": properties["a"]["default"], "b": properties["b"]["default"]})


# --- the default fields ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("types", "selection"),
    [
        (
            "type A { a: Int b: B } type B { c: C } type C { d: D e: Int } type D { f: Int }",
            "a b { c { e } }",
        ),
        ("type A { a: Int b: B } type B { a: A c: Int }", "a b { c }"),
        ("type A { a(x: Int!): Int b(x: Int! = 1): Int c(x: Int): Int }", "b c"),
        ("type A { a: A }", "__typename"),
        ("type A { b: B c: Int } type B { a: A }", "c"),
        ("interface A { a: Int } type B implements A { a: Int b: Int }", "__typename a"),
        (
            "type A { i: [I!] } interface I { a: Int } type B implements I { a: Int }",
            "i { __typename a }",
        ),
        (
            "union A = B | C type B { x: Int y: Int z: C } type C { x: Int! y: Int z: B }",
            "__typename ... on B { x y z { x y } } ... on C { x_C: x y z_C: z { x y } }",
        ),
        (
            "type A { x: U y: [V!] } union U = B | C union V = B | C type B { n: Int } type C { n: [Int] }",
            "x { __typename ... on B { n } ... on C { n_C: n } } y { __typename ... on B { n } ... on C { n_C: n } }",
        ),
    ],
)
def test_scalars_to_three_levels_are_selected(types: str, selection: str) -> None:
    assert (
        default_fields(f"type Query {{ f: A }} {types}", "f")
        == f"query f {{ f {{ {selection} }} }}"
    )


def test_at_most_200_fields_are_selected_and_the_nearer_ones_first() -> None:
    wide = " ".join(f"s{at}: Int" for at in range(90))
    sdl = f"type Query {{ f: A }} type A {{ b: B c: C }} type B {{ d: D {wide} }} type C {{ {wide} }} type D {{ {wide} }}"

    query = default_fields(sdl, "f")
    fields = query.replace("{", " ").replace("}", " ").split()[3:]

    assert len(fields) == 200
    # 90 of B and of C, b and c, and what is left of D, which is a level deeper.
    assert fields.count("s0") == 3
    assert fields.count("s89") == 2


def test_the_answer_of_the_default_fields_and_of_others_fits_its_schema() -> None:
    sdl = "type Query { f: [A!] } type A { a: Int! b: B } type B { c: [String] }"
    compilation = compiled(sdl)
    schema = with_definitions(compilation.tools["f"].output_schema or {}, compilation)

    for value, fits in (
        ([{"a": 1, "b": {"c": ["x", None]}}], True),
        (None, True),
        ([{"b": None, "other": 1}], True),
        ([None], False),
        ([{"a": "1"}], False),
    ):
        assert (json_schema.value_problems(schema, {"data": {"f": value}}) == []) == fits


def test_a_scalar_has_no_selected_fields() -> None:
    tool = compiled("type Query { f: [Int!]! }").tools["f"]

    assert "select" not in tool.input_schema["properties"]
    assert "select" not in tool.request["body"]["graphql"]


# --- hostile documents ----------------------------------------------------------------------------

DEEP = 100_000


@pytest.mark.parametrize(
    "text",
    [
        "type Query { a: " + "[" * DEEP + "Int" + "]" * DEEP + " }",
        "type Query { a(b: Int = " + "[" * DEEP + "]" * DEEP + "): Int }",
        "type Query { a(b: Int = " + "{c: " * DEEP + "1" + "}" * DEEP + "): Int }",
        "{" * DEEP,
        "query { " + "a { " * DEEP,
        '{"__schema": ' + "[" * DEEP + "]" * DEEP + "}",
        '{"__schema": {"types": [{"name": "Query", "kind": "OBJECT", "fields": [{"name": "a", "type": '
        + '{"kind": "LIST", "ofType": ' * DEEP
        + "null"
        + "}" * DEEP
        + "}]}]}}",
        "",
        "type",
        "type Query { a: Int",
        'type Query { "',
        'type Query { """',
        '"""' + '\\"""' * DEEP,
        "query { a }",
        "{ a }",
        '{"data": null, "errors": [{"message": "no"}]}',
        '{"__schema": {"types": 1}}',
        b"\xff",
        "type Query { a: Int \u0000 }",
        "x " * 2_000_001,
        "#" * 20_000_001,
    ],
)
def test_a_document_that_cannot_be_read_is_an_error_within_seconds(text: str | bytes) -> None:
    started = time.monotonic()
    with pytest.raises(BadDocumentError) as caught:
        compile_graphql(text, namespace="n", endpoint="https://a.example/", path="a.json")

    assert time.monotonic() - started < 10
    assert len(caught.value.message) < 500


def test_types_that_refer_to_each_other_without_end_are_read() -> None:
    many = " ".join(f"type T{at} {{ t: T{at + 1} i(x: I{at}): Int }}" for at in range(3000))
    inputs = " ".join(f"input I{at} {{ i: I{at + 1} }}" for at in range(3000))
    sdl = f"type Query {{ f(x: I0): T0 }} {many} {inputs} type T3000 {{ t: T0 }} input I3000 {{ i: I0 }}"

    compilation = compiled(sdl)

    assert len(compilation.definitions) == 3001
    assert len(compilation.types) == 6002


@pytest.mark.parametrize(
    "name", ["a { b } } mutation { clear", "a\n", "", "ü", "$a", "a-b", 'a"', "a" * 5 + "#"]
)
def test_a_name_of_introspection_cannot_leave_its_place(name: str) -> None:
    integer = {"kind": "SCALAR", "name": "Int"}
    for field, argument, type_name, value in (
        (name, "x", "In", "V"),
        ("g", name, "In", "V"),
        ("g", "x", name, "V"),
        ("g", "x", "In", name),
    ):
        types = [
            {"kind": "OBJECT", "name": "Query", "fields": [
                {"name": "f", "args": [], "type": integer},
                {"name": field, "args": [
                    {"name": argument, "type": {"kind": "INPUT_OBJECT", "name": type_name}},
                    {"name": "e", "type": {"kind": "ENUM", "name": "E"}},
                ], "type": integer},
            ]},
            {"kind": "INPUT_OBJECT", "name": type_name, "inputFields": [{"name": "a", "type": integer}]},
            {"kind": "ENUM", "name": "E", "enumValues": [{"name": value}]},
        ]  # fmt: skip
        text = json.dumps({"__schema": {"queryType": {"name": "Query"}, "types": types}})
        compilation = compiled(text)

        assert "f" in compilation.tools
        for tool in compilation.tools.values():
            query = tool.request["body"]["graphql"]["query"]
            assert not name or name not in query
            [definition] = graphql.parse(query).definitions
            assert isinstance(definition, graphql.OperationDefinitionNode)
            assert definition.operation.value == "query"


def test_texts_of_a_document_are_no_expressions_of_the_request() -> None:
    sdl = 'type Query { f(args: Int, a: String = "${TOKEN} $args.x"): Int }'
    url = "https://a.example/{x}/$args?y=${TOKEN}"

    tool = compiled(sdl, endpoint=url).tools["f"]

    assert tool.request["url"] == "https://a.example/%7Bx%7D/$$args?y=$$%7BTOKEN%7D"


@pytest.mark.parametrize("endpoint", [None, "", "a.example", "file:///etc/passwd", "https://"])
def test_the_endpoint_is_a_url(endpoint: str | None) -> None:
    with pytest.raises(CovaltError) as caught:
        compiled(endpoint=endpoint)

    assert isinstance(caught.value, NoEndpointError)


def test_without_graphql_core_the_error_has_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "graphql", None)

    with pytest.raises(NotInstalledError) as caught:
        compiled()

    assert caught.value.hint == "pip install 'covalt-git[graphql]'"
