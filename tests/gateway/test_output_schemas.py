"""Errors and results of tools with an output schema, for clients that check structured content against it."""

import shutil
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from mcp import Client

from covalt_git.gateway.large_results import Delivery, output_schema
from tests.mcp_client import add_toolset, by_turns, error_of, make_project, talk, text, versions

ORDERS = """\
id: orders
name: Orders
version: "1"
tools:
  - {id: order, entrypoint: "tools.orders:order"}
  - {id: pend, entrypoint: "tools.orders:order", requires_confirmation: true}
  - {id: count, entrypoint: "tools.orders:count"}
  - {id: name, entrypoint: "tools.orders:name"}
  - {id: items, entrypoint: "tools.orders:items"}
  - {id: first, entrypoint: "tools.orders:first"}
  - {id: many, entrypoint: "tools.orders:many"}
"""
CODE = """\
from typing import TypedDict


def order(item: str) -> dict[str, int]:
    if item == "none":
        raise ValueError("there is no such item")
    print("printed")
    return {"number": 1}


def count() -> int:
    return 3


def name() -> str:
    return "pen"


def items() -> list:
    return ["pen", 2, None]


class Item(TypedDict):
    name: str
    parts: list["Item"]


def first(found: bool) -> Item | None:
    return {"name": "pen", "parts": [{"name": "cap", "parts": []}]} if found else None


def many() -> list[str]:
    return ["x" * 1000] * 1000
"""


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = make_project(tmp_path_factory.mktemp("orders") / "project")
    shutil.rmtree(root / "toolsets" / "demo")
    add_toolset(root, "orders", ORDERS, CODE)
    return root


@by_turns(
    ("name", "args", "code"),
    [
        ("orders.order", {"item": "none"}, "tool_raised"),
        ("orders.order", {}, "invalid_arguments"),
        ("orders.pend", {"item": "pen"}, "approval_needed"),
        ("orders.order", {"item": "pen"}, None),
    ],
)
def test_structured_content_always_matches_the_listed_output_schema(
    orders: Path, version: str, name: str, args: dict[str, Any], code: str | None
) -> None:
    async def say(client: Client) -> tuple[Any, Any]:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        return listed[name].output_schema, await client.call_tool(name, args)

    schema, result = talk(orders, say, version=version)

    # As the TypeScript SDK 1.x: it checks structured content also if isError is set.
    assert schema is not None
    if result.structured_content is not None:
        assert jsonschema_rs.is_valid(schema, result.structured_content)
    assert bool(result.is_error) is (code is not None)
    if code is None:
        assert result.structured_content == {"number": 1}
        return
    assert code in text(result) or "needs approval" in text(result)
    assert error_of(result)["error"] == code
    if code == "approval_needed":
        assert error_of(result)["execution_id"] in text(result)


PEN = {"name": "pen", "parts": [{"name": "cap", "parts": []}]}


@by_turns(
    ("name", "args", "value"),
    [
        ("count", {}, 3),
        ("name", {}, "pen"),
        ("items", {}, ["pen", 2, None]),
        ("first", {"found": True}, PEN),
        ("first", {"found": False}, None),
        ("many", {}, ...),
    ],
)
def test_a_result_that_is_no_object_is_wrapped_in_the_listed_schema(
    orders: Path, version: str, name: str, args: dict[str, Any], value: Any
) -> None:
    async def say(client: Client) -> tuple[Any, Any]:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        return listed[f"orders.{name}"].output_schema, await client.call_tool(
            f"orders.{name}", args
        )

    schema, result = talk(orders, say, version=version)

    assert schema["type"] == "object"
    assert "result" in schema["properties"]  # FastMCP's client reads it there
    assert schema["x-fastmcp-wrap-result"] is True
    assert jsonschema_rs.is_valid(schema, result.structured_content)
    assert not jsonschema_rs.is_valid(schema, {"result": {"name": 1}} if args else {"result": {}})
    if value is ...:
        assert result.structured_content["truncated"] is True
    else:
        assert result.structured_content == {"result": value}


@by_turns(
    ("name", "args", "lines"),
    [
        ("order", {"item": "none"}, ["tool_raised: ValueError: there is no such item", "raise "]),
        ("order", {}, ["invalid_arguments: ", "$: 'item' is missing"]),
        ("order", {"item": 1}, ["invalid_arguments: ", "$.item: must be a text"]),
        ("pend", {"item": "pen"}, ["orders:pend needs approval", "created the chat"]),
    ],
)
def test_an_error_is_one_text_with_its_code_argument_reason_and_hint(
    orders: Path, version: str, name: str, args: dict[str, Any], lines: list[str]
) -> None:
    async def say(client: Client) -> Any:
        return await client.call_tool(f"orders.{name}", args)

    result = talk(orders, say, version=version)

    (block,) = result.content
    assert all(line in block.text for line in lines), block.text


@versions
def test_errors_of_a_tool_without_a_listed_output_schema_are_structured_content(
    orders: Path, version: str
) -> None:
    async def say(client: Client) -> Any:
        args = {"name": "orders.order", "arguments": {"item": "none"}}
        return await client.call_tool("call_tool", args)

    result = talk(orders, say, version=version, mode="search")

    assert result.structured_content == error_of(result)
    assert error_of(result)["error"] == "tool_raised"


@pytest.mark.parametrize(
    ("value", "sent"),
    [
        ({"id": 7}, {"id": 7}),
        (
            {"id": 7, "note": None},
            {
                "mismatch": "$.note: must be a text, not null",
                "value": {"id": 7, "note": None},
            },
        ),
        ({"structured_content": {"id": 7}, "content": [{"file": "a.png"}]}, {"id": 7}),
        (None, {"mismatch": "$: must be an object, not null", "value": None}),
    ],
)
def test_a_result_that_does_not_match_is_sent_in_a_form_that_the_listed_schema_allows(
    value: Any, sent: Any
) -> None:
    schema = {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "note": {"type": "string"}},
        "required": ["id"],
    }

    found = Delivery(structured=True, modern=False, schema=schema).matching(value)

    assert found == sent
    assert jsonschema_rs.is_valid(output_schema(schema), found)
