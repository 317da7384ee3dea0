"""Calls of GraphQL tools from a schema, and of a hand-written one, against a server of graphql-core."""

import json
from collections.abc import Iterator
from typing import Any

import graphql
import pytest
from flask import Flask, Response, request

from covalt_git.compilers.compilation import Compilation
from covalt_git.compilers.graphql import (
    compile_graphql,
    introspection_request,
    schema_from_introspection,
)
from covalt_git.compilers.graphql.introspection import RefusedIntrospectionError
from covalt_git.hosts import Reach
from covalt_git.http_client import Deadline, HttpClient
from covalt_git.json_values import json_schema
from covalt_git.models.outcomes import UNKNOWN_EFFECT, Outcome
from tests.compilers.test_graphql_goldens import LIBRARY
from tests.http_tools.test_exchange import Desk
from tests.http_tools.upstream import Upstream
from tests.wsgi_server import listening

BOOKS: dict[str, dict[str, Any]] = {
    "1": {"id": "1", "title": "Sand", "genre": "NOVEL", "pages": 200, "author": {"name": "Ina"}},
    "2": {"id": "2", "title": "Wind", "genre": "POEM", "pages": None, "author": {"name": "Ulf"}},
}


class Shelf:
    """The root of queries and mutations."""

    def allBooks(self, info: Any, **args: Any) -> Any:  # noqa: N802
        info.context["args"] = args
        return list(BOOKS.values())[: args.get("first")]

    def book(self, info: Any, by: dict[str, str]) -> Any:  # noqa: ARG002
        return BOOKS[by["id"]]

    def bookCount(self, info: Any, genre: str | None = None) -> int:  # noqa: N802
        info.context["args"] = {"genre": genre}
        return sum(genre in {None, book["genre"]} for book in BOOKS.values())

    def media(self, info: Any) -> Any:  # noqa: ARG002
        film = {"__typename": "Film", "id": "9", "title": "Rain", "minutes": 90, "price": 5}
        return [{"__typename": "Book", **BOOKS["1"], "price": 1.5}, film]

    def item(self, info: Any, id: str) -> Any:  # noqa: A002, ARG002
        raise ValueError(f"no item {id}")

    def statistics(self, info: Any) -> Any:  # noqa: ARG002
        raise ValueError("no statistics")

    def loan(self, info: Any, input: dict[str, Any] | None = None, id: str = "") -> Any:  # noqa: A002, ARG002
        if input is None:
            raise ValueError("no loan")
        if input["bookId"] not in BOOKS:
            return {"__typename": "Refusal", "reason": "no such book", "id": input["bookId"]}
        return {"__typename": "Loan", "id": "7", "book": BOOKS[input["bookId"]], "until": "x"}


def _app(seen: list[dict[str, Any]]) -> Flask:
    schema = graphql.build_schema(LIBRARY)
    app = Flask("library")

    @app.post("/graphql")
    def answer() -> Response:
        body = request.get_json()
        context: dict[str, Any] = {}
        result = graphql.graphql_sync(
            schema,
            body["query"],
            Shelf(),
            context,
            body.get("variables"),
            body.get("operationName"),
        )
        seen.append({"body": body, "headers": dict(request.headers)} | context)
        # A request that is not executed has no data (GraphQL over HTTP, section 6.4).
        formatted = {key: value for key, value in result.formatted.items() if value is not None}
        if result.data is None and result.errors and result.errors[0].path:
            formatted["data"] = None
        status = 400 if "data" not in formatted else 200
        media_type = "application/graphql-response+json"
        return Response(json.dumps(formatted), status, content_type=media_type)

    @app.post("/refuses")
    def refuses() -> Response:
        return Response('{"errors": [{"message": "introspection is off"}]}', 400)

    @app.post("/no-graphql")
    def no_graphql() -> Response:
        return Response('{"id": 1}', content_type="application/json")

    return app


class Library:
    """A server with its compiled tools."""

    def __init__(self, desk: Desk, compilation: Compilation, seen: list[dict[str, Any]]) -> None:
        self.desk = desk
        self.compilation = compilation
        self.seen = seen

    def call(self, name: str, **args: Any) -> Outcome:
        """Call a tool; its arguments are checked first, as the engine does."""
        tool = self.compilation.tools[name]
        definitions = {"$defs": dict(self.compilation.definitions)}
        assert json_schema.value_problems(tool.input_schema | definitions, args) == []
        return self.desk.call(
            tool.request["url"],
            hosts=tool.hosts,
            method=tool.request["method"],
            body=tool.request["body"],
            input_schema=tool.input_schema | definitions,
            output_schema=(tool.output_schema or {}) | definitions,
            annotations={"read_only": tool.read_only, "idempotent": tool.idempotent},
            args=args,
            types=self.compilation.types,
        )

    @property
    def last(self) -> dict[str, Any]:
        return self.seen[-1]


@pytest.fixture
def library(tmp_path: Any) -> Iterator[Library]:
    seen: list[dict[str, Any]] = []
    with listening(_app(seen)) as port:
        (tmp_path / "workspace").mkdir()
        desk = Desk(Upstream(port), tmp_path / "workspace")
        url = f"http://127.0.0.1:{port}/graphql"
        yield Library(desk, compile_graphql(LIBRARY, namespace="l", endpoint=url), seen)


def test_a_query_returns_the_default_fields(library: Library) -> None:
    outcome = library.call("all_books", first=1)

    assert outcome.status == "success"
    [book] = outcome.result["data"]["allBooks"]
    assert book["title"] == "Sand"
    assert book["author"] == {"name": "Ina", "city": None}
    assert "errors" not in outcome.result
    assert "graphql-response+json" in library.last["headers"]["Accept"]


def test_absent_arguments_stay_absent_and_null_is_sent(library: Library) -> None:
    library.call("book_count")
    assert "variables" not in library.last["body"]
    assert library.last["body"]["operationName"] == "bookCount"

    library.call("book_count", genre=None)
    assert library.last["body"]["variables"] == {"genre": None}

    assert library.call("book_count", genre="POEM").result == {"data": {"bookCount": 1}}


def test_defaults_of_the_schema_are_those_of_the_server(library: Library) -> None:
    library.call("all_books", filter={"title": "x", "and": [{"title": "y"}]})

    assert library.last["args"] == {
        "filter": {"title": "x", "genre": "NOVEL", "and": [{"title": "y", "genre": "NOVEL"}]},
        "first": 20,
        "tags": ["new"],
    }


def test_selected_fields_replace_the_default_ones(library: Library) -> None:
    outcome = library.call("book", by={"id": "2"}, select="t: title, author { name }")

    assert outcome.result == {"data": {"book": {"t": "Wind", "author": {"name": "Ulf"}}}}
    assert library.last["body"]["query"].endswith("{ t: title author { name } } }")
    assert "select" not in library.last["body"]["variables"]


@pytest.mark.parametrize("select", ["titel", "title } } mutation { clear", "... on Book { id }"])
def test_a_selection_that_does_not_fit_is_not_sent(library: Library, select: str) -> None:
    outcome = library.call("book", by={"id": "2"}, select=select)

    assert outcome.status == "invalid_arguments"
    assert [place for place, _ in outcome.problems] == ["$.select"]
    assert library.seen == []


def test_members_of_a_union_have_their_fields(library: Library) -> None:
    book, film = library.call("media").result["data"]["media"]

    assert (book["__typename"], book["price"]) == ("Book", 1.5)
    assert (film["__typename"], film["price_Film"]) == ("Film", 5)


def test_a_mutation_is_sent_with_its_input_object(library: Library) -> None:
    outcome = library.call("loan_mutation", input={"bookId": "1"})

    assert outcome.result["data"]["loan"]["book"]["title"] == "Sand"
    refusal = library.call("loan_mutation", input={"bookId": "5", "note": "now"}).result
    assert refusal["data"]["loan"] == {
        "__typename": "Refusal",
        "reason": "no such book",
        "id_Refusal": "5",
    }


def test_data_with_errors_is_a_result_with_errors(library: Library) -> None:
    outcome = library.call("book", by={"id": "1"}, select="title loan(id: 1) { id }")
    assert outcome.status == "success"

    outcome = library.desk.call(
        library.compilation.tools["book"].request["url"],
        hosts=library.compilation.tools["book"].hosts,
        method="POST",
        body={"graphql": {"query": '{ item(id: "x") { id } bookCount }'}},
    )
    assert outcome.status == "success"
    assert outcome.result["data"] == {"item": None, "bookCount": 2}
    assert outcome.result["errors"][0]["message"] == "no item x"


def test_errors_alone_are_an_error_of_the_call(library: Library) -> None:
    for name, args, message in (
        ("item", {"id": "x"}, "no item x"),  # the only field is null
        ("statistics", {}, "no statistics"),  # data is null
    ):
        outcome = library.call(name, **args)
        assert outcome.status == "error"
        assert outcome.error is not None
        assert (outcome.error.code, message in outcome.error.message) == ("graphql_error", True)
        assert outcome.result["errors"][0]["message"] == message


def test_only_an_executed_mutation_may_have_had_an_effect(library: Library) -> None:
    url, hosts = (
        library.compilation.tools["loan"].request["url"],
        library.compilation.tools["loan"].hosts,
    )
    messages = []
    for query in (
        "mutation { loan(input: null) { __typename } }",
        'mutation { returnLoan(id: "1") }',
    ):
        body = {"graphql": {"query": query}}
        outcome = library.desk.call(url, hosts=hosts, method="POST", body=body)
        assert outcome.error is not None
        messages.append(outcome.error.message)

    refused, executed = messages
    assert UNKNOWN_EFFECT not in refused
    assert executed.endswith(UNKNOWN_EFFECT)


def test_an_answer_that_is_not_of_graphql_is_a_bad_result(library: Library) -> None:
    tool = library.compilation.tools["today"]
    url = tool.request["url"].replace("/graphql", "/no-graphql")

    outcome = library.desk.call(url, hosts=tool.hosts, method="POST", body=tool.request["body"])

    assert outcome.error is not None
    assert (outcome.error.code, outcome.result) == ("bad_result", {"id": 1})


def test_a_hand_written_tool_has_variables_and_selected_fields(library: Library) -> None:
    url, hosts = (
        library.compilation.tools["book"].request["url"],
        library.compilation.tools["book"].hosts,
    )
    graphql_body = {
        "query": "query ($key: ID!) { book(by: {id: $key}) { $fields } }",
        "select": {"default": "title", "argument": "fields"},
    }
    how: dict[str, Any] = {
        "hosts": hosts,
        "method": "POST",
        "body": {"graphql": graphql_body},
        "parameters": {"id": {"in": "body", "name": "key"}},
    }

    assert library.desk.call(url, args={"id": "1"}, **how).result == {
        "data": {"book": {"title": "Sand"}}
    }
    selected = library.desk.call(url, args={"id": "1", "fields": "pages"}, **how)
    assert selected.result == {"data": {"book": {"pages": 200}}}


def test_the_schema_of_an_api_is_fetched_by_introspection(library: Library) -> None:
    url = library.compilation.tools["book"].request["url"]
    client = HttpClient(Reach.of(*library.compilation.tools["book"].hosts), most=10_000_000)

    for is_plain in (False, True):
        answer = client.send(introspection_request(url, is_plain=is_plain), Deadline(20))
        text = schema_from_introspection(answer.content)
        tools = compile_graphql(text, namespace="l", endpoint=url, path="schema.json").tools
        assert tools.keys() == library.compilation.tools.keys()

    refusal = client.send(introspection_request(url.replace("/graphql", "/refuses")), Deadline(20))
    with pytest.raises(RefusedIntrospectionError, match="introspection is off"):
        schema_from_introspection(refusal.content)
