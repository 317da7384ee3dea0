"""What the schemas of `fixtures/graphql` give: names, requests and digests; `--update-golden` writes them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import graphql
import pytest

from covalt_git.compilers.compilation import Compilation
from covalt_git.compilers.graphql import compile_graphql
from covalt_git.json_values import canonical_json, json_schema
from covalt_git.models.tool_properties import HttpRequest

FOLDER = Path(__file__).parents[2] / "fixtures" / "graphql"
LIBRARY = (FOLDER / "library" / "schema.graphql").read_text(encoding="utf-8")


def compiled(text: str = LIBRARY, **options: Any) -> Compilation:
    url = "https://library.example/graphql"
    return compile_graphql(text, **{"namespace": "library", "endpoint": url} | options)


def introspected(sdl: str = LIBRARY) -> str:
    """Return the JSON of a schema, as an API answers it."""
    schema = graphql.build_schema(sdl)
    answer = graphql.introspection_from_schema(schema, input_value_deprecation=True, one_of=True)
    return json.dumps({"data": answer}, indent=1)


def query_of(request: dict[str, Any]) -> str:
    """Return the query of a request with its default fields."""
    body = request["body"]["graphql"]
    select = body.get("select", {"argument": "-", "default": ""})
    return str(body["query"]).replace(f"${select['argument']} }}", f"{select['default']} }}")


def with_definitions(schema: dict[str, Any], compilation: Compilation) -> dict[str, Any]:
    return schema | {"$defs": dict(compilation.definitions)}


def summary(compilation: Compilation) -> dict[str, Any]:
    return {
        "tools": {
            name: {
                "upstream": tool.upstream,
                "place": list(tool.place),
                "request": tool.request,
                "input_schema": tool.input_schema,
                "digest": canonical_json.digest({**tool._asdict()}),
            }
            for name, tool in compilation.tools.items()
        },
        "definitions": dict(compilation.definitions),
        "types": dict(compilation.types),
        "left_out": [
            f"{part.place[0]}:{part.place[1]}: {part.upstream}: {part.reason}"
            for part in compilation.left_out
        ],
        "problems": [
            f"{problem.line}:{problem.col}: {problem.code}" for problem in compilation.problems
        ],
    }


def test_names_requests_and_digests_are_those_of_the_golden(pytestconfig: pytest.Config) -> None:
    text = json.dumps(summary(compiled()), indent=1) + "\n"
    golden = FOLDER / "library" / "expected.json"
    if pytestconfig.getoption("update_golden"):
        golden.write_text(text, encoding="utf-8")

    assert golden.read_text(encoding="utf-8") == text


def test_introspection_gives_the_tools_of_the_sdl() -> None:
    of_sdl, of_json = compiled(), compiled(introspected(), path="schema.json")

    for name, tool in of_sdl.tools.items():
        other = of_json.tools[name]
        assert other._replace(place=tool.place, output_schema=tool.output_schema) == tool
    assert of_json.tools.keys() == of_sdl.tools.keys()
    assert of_json.types == of_sdl.types
    lines = introspected().splitlines()
    line, _ = of_json.tools["all_books"].place
    assert lines[line].strip() == '"name": "allBooks",'


@pytest.mark.parametrize("text", [LIBRARY, introspected()])
def test_each_tool_is_valid(text: str) -> None:
    compilation = compiled(text)
    schema = graphql.build_schema(LIBRARY)

    for tool in compilation.tools.values():
        HttpRequest.model_validate(tool.request)
        assert graphql.validate(schema, graphql.parse(query_of(tool.request))) == []
        for described in (tool.input_schema, tool.output_schema or {}):
            assert json_schema.schema_problems(with_definitions(described, compilation)) == []


@pytest.mark.rest
def test_results_do_not_depend_on_the_hash_seed() -> None:
    code = (
        "import json; from tests.compilers.test_graphql_goldens import *;"
        "print(json.dumps([summary(compiled()), compiled()],"
        " default=lambda value: value() if callable(value) else str(value)))"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=FOLDER.parents[1],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert len(outputs) == 1
