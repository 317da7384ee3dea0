"""What a function returns, read from its annotation: what comes back always fits it."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import pytest

import covalt_toolset
from covalt_git.json_values import json_schema
from covalt_git.python_reader.source import read_tool

HEAD = """
from __future__ import annotations
import typing
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, TypedDict
from pydantic import BaseModel, Field, field_serializer
from covalt_toolset import File

class Row(TypedDict):
    name: str
    size: int

class Model(BaseModel):
    number: int
    @field_serializer("number")
    def written(self, value: int) -> str:
        return str(value)

class Color(Enum):
    RED = "red"

@dataclass
class Point:
    x: int
"""


def read(annotation: str) -> Any:
    source = dedent(HEAD) + f"\ndef it() -> {annotation}: ...\n"
    return read_tool(source.encode(), "it").output_schema


@pytest.mark.parametrize(
    ("annotation", "value", "schema"),
    [
        pytest.param("str", "'a'", {"type": "string"}),
        pytest.param("int", "1", {"type": "integer"}),
        pytest.param("float", "1", {"type": "number"}),
        pytest.param("list[int]", "(1, 2)", {"type": "array", "items": {"type": "integer"}}),
        pytest.param(
            "dict[str, int]",
            "{'a': 1}",
            {"type": "object", "additionalProperties": {"type": "integer"}},
        ),
        pytest.param("str | None", "None", {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        pytest.param("Optional[date]", "date(2026, 1, 1)", None, id="date-or-none"),
        pytest.param("Path", "Path('a')", {"type": "string", "format": "path"}),
        pytest.param("set[str]", "{'b', 'a'}", None, id="set"),
        pytest.param("Literal['a', 'b']", "'a'", {"enum": ["a", "b"], "type": "string"}),
        pytest.param("Row", "{'name': 'a', 'size': 1}", None, id="typed-dict"),
        pytest.param("list[Row]", "[{'name': 'a', 'size': 1}]", None, id="list-of-typed-dicts"),
        pytest.param("'dict[str, list[Row]]'", "{'a': []}", None, id="in-quotes"),
    ],
)
def test_a_schema_is_read_and_results_fit_it(
    annotation: str, value: str, schema: dict[str, Any] | None
) -> None:
    found = read(annotation)
    names: dict[str, Any] = {}
    exec(compile(dedent(HEAD), "head", "exec"), names)

    assert found is not None
    assert schema is None or found == schema
    assert json_schema.value_problems(found, covalt_toolset.to_json(eval(value, names))) == []


@pytest.mark.parametrize(
    "annotation",
    ["None", "Any", "object", "Model", "Color", "Point", "Decimal", "bytes", "File", "Unknown"],
)
def test_what_may_be_written_as_anything_has_no_schema(annotation: str) -> None:
    assert read(annotation) is None


def test_the_rest_of_a_result_is_known_where_a_part_is_not() -> None:
    assert read("dict[str, Model]") == {"type": "object", "additionalProperties": True}
    assert read("list[Model]") == {"type": "array", "items": {}}
    assert read("int | Model") is None


def test_a_decorator_that_may_change_the_result_leaves_nothing_known() -> None:
    source = "from somewhere import change\n@change\ndef it() -> int: ...\n"

    assert read_tool(source.encode(), "it").output_schema is None
