"""The real schemas of `/work/shared/data/graphql`: every field is a tool, and graphql-core accepts what it sends."""

import json
from pathlib import Path
from typing import Any

import graphql
import pytest

from covalt_git.compilers.compilation import Compilation
from covalt_git.compilers.graphql import compile_graphql
from covalt_git.http_tools.selections import checked_selection
from covalt_git.json_values import json_schema
from tests.compilers.test_graphql_goldens import query_of, with_definitions
from tests.examples import named

FOLDER = Path("/work/shared/data/graphql")
STATISTICS = FOLDER / "stats.json"
NAMES = sorted(json.loads(STATISTICS.read_text(encoding="utf-8"))) if STATISTICS.exists() else []

pytestmark = pytest.mark.skipif(not NAMES, reason="the shared documents are not here")


def compiled(name: str) -> Compilation:
    content = (FOLDER / name).read_bytes()
    return compile_graphql(content, namespace="n", endpoint="https://a.example/graphql", path=name)


def schema_of(name: str) -> graphql.GraphQLSchema:
    text = (FOLDER / name).read_text(encoding="utf-8")
    if not name.endswith(".json"):
        return graphql.build_schema(text)
    answer = json.loads(text)
    return graphql.build_client_schema(answer.get("data", answer))


@pytest.mark.parametrize("name", NAMES)
def test_every_field_is_a_tool(name: str) -> None:
    counts = json.loads(STATISTICS.read_text(encoding="utf-8"))[name]
    compilation = compiled(name)

    reading = [tool.upstream for tool in compilation.tools.values() if tool.read_only]
    assert len(reading) == counts["query_fields"]
    assert len(compilation.tools) - len(reading) == counts["mutation_fields"]
    assert all(upstream.startswith(f"{counts['query_type']}.") for upstream in reading)
    assert len(compilation.left_out) == counts["subscription_fields"]
    assert compilation.problems == ()


@pytest.mark.parametrize(
    "name", named(NAMES, *(name for name in NAMES if not name.startswith("artsy")))
)
def test_what_each_tool_sends_is_valid_and_its_answer_fits(name: str) -> None:
    compilation, schema = compiled(name), schema_of(name)
    assert not name.startswith(("swapi.", "artsy", "countries")) or not graphql.validate_schema(
        schema
    )

    for tool in compilation.tools.values():
        document = graphql.parse(query_of(tool.request))
        assert graphql.validate(schema, document) == []
        for described in (tool.input_schema, tool.output_schema or {}):
            assert json_schema.schema_problems(with_definitions(described, compilation)) == []
        data = graphql.execute_sync(
            schema, document, Answer(), variable_values=arguments(schema, document)
        )
        assert data.errors is None
        whole = with_definitions(tool.output_schema or {}, compilation)
        assert json_schema.value_problems(whole, data.formatted) == []


@pytest.mark.parametrize("name", NAMES)
def test_the_default_fields_can_be_selected_unless_they_have_fragments(name: str) -> None:
    compilation = compiled(name)

    for tool in compilation.tools.values():
        select = tool.request["body"]["graphql"].get("select")
        if select is not None and "..." not in select["default"]:
            sent = checked_selection(select["default"], select["type"], compilation.types)
            assert sent == select["default"]


class Answer(dict[str, Any]):
    """A value of any type: each of its fields has one."""

    def __init__(self, type_name: str = "") -> None:
        super().__init__()
        self._type_name = type_name

    def get(self, key: str, default: Any = None) -> Any:  # noqa: ARG002
        return self._type_name if key == "__typename" else self.value

    @staticmethod
    def value(info: graphql.GraphQLResolveInfo[Any], **_: Any) -> Any:
        """Return a value of the type of the field that is resolved."""
        return _of_type(info.return_type, info.schema)


def _of_type(wanted: Any, schema: graphql.GraphQLSchema) -> Any:
    if graphql.is_non_null_type(wanted):
        return _of_type(wanted.of_type, schema)
    if graphql.is_list_type(wanted):
        return [_of_type(wanted.of_type, schema)]
    if graphql.is_abstract_type(wanted):
        return Answer(schema.get_possible_types(wanted)[0].name)
    if graphql.is_object_type(wanted):
        return Answer(wanted.name)
    if graphql.is_enum_type(wanted):
        return next(iter(wanted.values.values())).value
    return {"Int": 1, "Float": 1.5, "Boolean": True}.get(wanted.name, "text")


def arguments(schema: graphql.GraphQLSchema, document: graphql.DocumentNode) -> dict[str, Any]:
    """Return values of the required variables of an operation."""
    [operation] = document.definitions
    assert isinstance(operation, graphql.OperationDefinitionNode)
    values = {}
    for variable in operation.variable_definitions or ():
        wanted = graphql.type_from_ast(schema, variable.type)
        if graphql.is_non_null_type(wanted):
            values[variable.variable.name.value] = _input(wanted)
    return values


def _input(wanted: Any) -> Any:
    if graphql.is_non_null_type(wanted):
        return _input(wanted.of_type)
    if graphql.is_list_type(wanted):
        return [_input(wanted.of_type)]
    if graphql.is_input_object_type(wanted):
        required = {
            key: field
            for key, field in wanted.fields.items()
            if graphql.is_required_input_field(field)
        }
        return {key: _input(field.type) for key, field in required.items()}
    if graphql.is_enum_type(wanted):
        return next(iter(wanted.values))
    return {"Int": 1, "Float": 1.5, "Boolean": True}.get(wanted.name, "text")
