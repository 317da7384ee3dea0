"""A GraphQL API of this machine is asked for its schema, and its fields are called as tools."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.wsgi_server import listening

graphql = pytest.importorskip("graphql")

MANIFEST = 'id: shop\nname: Shop\nversion: "1"\n'
SCHEMA = """\
type Query { film(id: ID!): Film, films(first: Int = 2): [Film!]! }
type Mutation { addFilm(title: String!): Film }
type Film { id: ID! title: String director: Person }
type Person { name: String }
"""
ALIEN = {"id": "1", "title": "Alien", "director": {"name": "Ridley Scott"}}
Cli = Callable[..., tuple[int, str]]


class FilmApi:
    """A WSGI app whose queries graphql-core executes; ``schema`` can be replaced."""

    def __init__(self) -> None:
        self.schema = graphql.build_schema(SCHEMA)
        self.operations: list[str] = []

    def film(self, _: Any, *, id: str) -> Any:  # noqa: A002 - name of the schema
        """Return a film, or an error of the API."""
        if id != "1":
            raise LookupError("no such film")
        return ALIEN

    def films(self, _: Any, *, first: int) -> Any:
        """Return the first films."""
        return [ALIEN][:first]

    def __call__(self, environ: Any, start: Any) -> list[bytes]:
        size = int(environ.get("CONTENT_LENGTH") or 0)
        request = json.loads(environ["wsgi.input"].read(size))
        self.operations.append(request["operationName"])
        answer = graphql.graphql_sync(
            self.schema,
            request["query"],
            root_value=self,
            variable_values=request.get("variables"),
            operation_name=request["operationName"],
        )
        start("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(answer.formatted).encode()]


@pytest.fixture
def api() -> Iterator[tuple[FilmApi, str]]:
    with listening(app := FilmApi()) as port:
        yield app, f"http://127.0.0.1:{port}/graphql"


@pytest.fixture
def added(root: Path, cli: Cli, api: tuple[FilmApi, str]) -> FilmApi:
    """The API as the source ``shop/films``, with its host granted and a chat ``c1``."""
    app, url = api
    (root / "toolsets/shop").mkdir()
    (root / "toolsets/shop/toolset.yaml").write_text(MANIFEST, encoding="utf-8")
    options = ("--introspect", "--id", "films", "--no-terminal", "test")
    code, text = cli("source", "add", "shop", url, *options)
    assert code == 0, text
    assert "3 tools, 1 of them writing" in text
    assert cli("grant", "add", "shop", "--requested", "--no-terminal", "test")[0] == 0
    cli("chat", "new", "--id", "c1")
    return app


@pytest.mark.requirement("toolshed-sources.graphql")
def test_fields_of_an_introspected_api_are_called_with_select_and_errors(
    cli: Cli, added: FilmApi
) -> None:
    assert added.operations == ["IntrospectionQuery"]
    select = {"id": "1", "select": "title director { name }"}
    code, text = cli("call", "c1", "films:film", json.dumps(select), "--json")
    assert code == 0, text
    film = {"title": "Alien", "director": {"name": "Ridley Scott"}}
    assert json.loads(text)["result"] == {"data": {"film": film}}

    code, text = cli("call", "c1", "films:film", '{"id": "1"}', "--json")
    assert json.loads(text)["result"]["data"]["film"] == ALIEN

    code, text = cli("call", "c1", "films:film", '{"id": "2"}')
    assert code == 1
    assert "graphql_error" in text
    assert "no such film" in text

    calls = len(added.operations)
    code, text = cli("call", "c1", "films:film", '{"id": "1", "select": "titel"}')
    assert code != 0
    assert "did you mean 'title'" in text
    assert len(added.operations) == calls


def test_an_introspected_api_is_asked_again_by_refresh(
    cli: Cli, api: tuple[FilmApi, str], added: FilmApi
) -> None:
    added.schema = graphql.build_schema(SCHEMA.replace("title: String director", "director"))
    (listed,) = json.loads(cli("source", "list", "--json")[1])["sources"]
    assert listed["namespace"] == "films"
    before = len(added.operations)
    assert cli("source", "refresh", "shop/films")[0] == 0  # the stored schema, without a request
    assert len(added.operations) == before

    options = ("--from", api[1], "--introspect", "--no-terminal", "test")
    code, _ = cli("source", "refresh", "shop/films", *options)

    assert code == 1
    _, text = cli("source", "diff", "shop/films", "--json")
    (source,) = json.loads(text)["sources"]
    assert {tool["name"] for tool in source["to_accept"]} == {"film", "films", "add_film"}
    assert added.operations[before:] == ["IntrospectionQuery"]


@pytest.mark.rest
@pytest.mark.usefixtures("added")
def test_a_new_optional_argument_of_a_field_does_not_break_callers(root: Path, cli: Cli) -> None:
    file = root.parent / "films.graphql"

    def breaking(old: str, new: str) -> dict[str, bool]:
        file.write_text(SCHEMA.replace(old, new), encoding="utf-8")
        reason = ("--no-terminal", "test")
        cli("source", "refresh", "shop/films", "--from", str(file), *reason)
        (source,) = json.loads(cli("source", "diff", "shop/films", "--json")[1])["sources"]
        return {tool["name"]: bool(tool["breaking"]) for tool in source["to_accept"]}

    assert breaking("film(id: ID!)", "film(id: ID!, lang: String)") == {"film": False}
    assert breaking("film(id: ID!)", "film(id: ID!, lang: String!)") == {"film": True}
    assert breaking("director: Person", "author: Person")["film"]
