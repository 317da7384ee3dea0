"""Large results over MCP: the part that a client gets at once, and the pages of the complete result."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import Client
from mcp_types import TextContent

from covalt_git.gateway import large_results
from covalt_git.gateway.large_results import Delivery, output_schema, page_of, shape, truncate
from tests.mcp_client import (
    CONFIG,
    add_toolset,
    call,
    error_of,
    one_version,
    read,
    recorded,
    talk,
)

MANIFEST = """\
id: big
name: Big
version: "1"
tools:
  - id: rows
    entrypoint: "tools.big:rows"
    output_schema: {type: object, properties: {rows: {$ref: "#/$defs/rows"}}, $defs: {rows: {type: array}}}
  - {id: words, entrypoint: "tools.big:words"}
  - {id: page, entrypoint: "tools.big:rows"}
tool_overrides:
  - {tool_id: page, renderer: html, renderer_config: {content: <p>it</p>, data: $return.rows}}
"""
CODE = """\
def rows(number: int) -> dict:
    return {"rows": [{"name": f"row ä {one}", "number": one} for one in range(number)]}


def words(number: int) -> str:
    return "wörd " * number
"""


@pytest.fixture
def big(root: Path) -> Path:
    (root / "covalt.yaml").write_text(f"{CONFIG}limits: {{result_kb: 40}}\n", encoding="utf-8")
    add_toolset(root, "big", MANIFEST, CODE)
    return root


@one_version
def test_the_text_of_a_large_result_is_its_beginning(big: Path, version: str) -> None:
    small = call(big, "big.rows", {"number": 10}, version=version)
    result = call(big, "big.rows", {"number": 700}, version=version)

    assert json.loads(small.content[0].text) == small.structured_content
    whole = json.dumps(result.structured_content, ensure_ascii=False)
    assert len(result.structured_content["rows"]) == 700
    assert large_results.TEXT_BYTES < len(whole) < 40 << 10
    assert whole.startswith(result.content[0].text)
    assert len(result.content[0].text.encode()) <= large_results.TEXT_BYTES
    assert "{rows: [700 x {name: string, number: number}]}" in result.content[1].text
    assert result.content[2].uri.endswith("/result")


def test_a_result_over_the_limit_is_read_in_pages(big: Path) -> None:
    async def say(client: Client) -> tuple[Any, list[str], list[str]]:
        result = await client.call_tool("big.rows", {"number": 5000})
        uri: Any = result.content[2].uri  # type: ignore[union-attr]
        first = await read(client, uri)
        by_resource, following = [first.text], first.meta.get("covalt-git/next")
        while following:
            one = await read(client, following)
            by_resource.append(one.text)
            following = one.meta.get("covalt-git/next")
        by_tool = []
        for page in range(1, first.meta["covalt-git/pages"] + 1):
            got = await client.call_tool("read_result", {"resource": uri, "page": page})
            by_tool.append(got.content[0].text)  # type: ignore[union-attr]
        return result, by_resource, by_tool

    result, by_resource, by_tool = talk(big, say)

    whole = "".join(by_resource)
    assert result.structured_content == {
        "truncated": True,
        "resource": result.content[2].uri,
        "shape": "{rows: [5000 x {name: string, number: number}]}",
    }
    assert len(json.loads(whole)["rows"]) == 5000
    assert json.loads(whole) == recorded(big, result).result
    assert by_tool == by_resource
    assert all(len(one.encode()) <= (40 << 10) + 4 for one in by_resource)
    assert len(result.model_dump_json().encode()) < 20 << 10


@one_version
def test_a_text_is_complete_up_to_the_size_of_a_page(big: Path, version: str) -> None:
    small = call(big, "big.words", {"number": 5000}, version=version)
    large = call(big, "big.words", {"number": 50_000}, version=version)

    assert small.content[0].text == "wörd " * 5000
    assert small.structured_content == {"result": "wörd " * 5000}
    assert large.structured_content["truncated"] is True
    assert len(large.content[0].text.encode()) <= 40 << 10
    assert large.content[2].type == "resource_link"


def test_a_host_of_apps_gets_the_complete_data_of_a_page(big: Path) -> None:
    shown = call(big, "big.page", {"number": 5000}, apps=True)
    other = call(big, "big.page", {"number": 5000})

    assert len(shown.meta["covalt-git/render_plan"]["config"]["data"]) == 5000
    assert len(shown.structured_content["rows"]) == 5000
    assert other.meta["covalt-git/render_plan"] == {"renderer": "html", "truncated": True}
    assert other.structured_content["truncated"] is True


def test_a_large_file_is_read_in_pages_of_the_file(big: Path) -> None:
    content = "line ä\n" * 20_000

    async def say(client: Client) -> tuple[Any, str]:
        await client.call_tool("workspace.write_file", {"path": "a b.txt", "content": content})
        result = await client.call_tool("workspace.read_file", {"path": "a b.txt"})
        uri = result.structured_content["resource"]
        texts = []
        for page in range(1, 5):
            got = await client.call_tool("read_result", {"resource": uri, "page": page})
            texts.append(got.content[0].text)  # type: ignore[union-attr]
        return result, "".join(texts)

    result, pages = talk(big, say)

    assert content.startswith(result.content[0].text)
    assert pages == content


def test_a_page_after_the_last_and_a_call_of_a_hidden_tool_do_not_exist(big: Path) -> None:
    result = call(big, "big.rows", {"number": 5000})
    uri, chat_id = result.structured_content["resource"], result.meta["covalt-git/chat"]
    elsewhere = uri.replace(chat_id, "c9")

    for role, resource, page, code in (
        (None, uri, 99, "unknown_page"),
        (None, uri, 0, "invalid_arguments"),
        (None, elsewhere, 1, "unknown_resource"),
        ("reader", uri, 1, "unknown_resource"),
    ):
        args = {"resource": resource, "page": page}
        refused = call(big, "read_result", args, chat=chat_id, role=role)
        assert error_of(refused)["error"] == code


@one_version
def test_the_listed_output_schema_allows_both_forms(big: Path, version: str) -> None:
    async def say(client: Client) -> Any:
        return {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}

    schema = talk(big, say, version=version)["big.rows"]

    assert schema["type"] == "object"
    valid = jsonschema_rs.validator_for(schema).is_valid
    assert valid({"rows": [1]})
    assert valid({"truncated": True, "resource": "r", "shape": "s"})
    assert not valid({"rows": 1})
    assert not valid([])


def test_references_in_an_output_schema_still_refer_to_the_same_place() -> None:
    tree = {
        "type": "object",
        "properties": {
            "children": {"type": "array", "items": {"$ref": "#"}},
            "$ref": {"type": "null"},
        },
        "required": ["children"],
    }

    valid = jsonschema_rs.validator_for(output_schema(tree)).is_valid
    assert valid({"children": [{"children": [], "$ref": None}]})
    assert not valid({"children": [{"truncated": True}]})
    assert not valid({"children": [], "$ref": 1})


@pytest.mark.parametrize("structured", [True, False])
def test_without_a_resource_nothing_is_left_out(*, structured: bool) -> None:
    value = {"rows": [*range(50_000)]}

    content, sent = truncate(value, json.dumps(value), None, Delivery(structured, modern=True))

    assert sent == value
    assert structured or content == [TextContent(text=json.dumps(value))]


@given(st.text("aä€𝄞\n", max_size=60), st.integers(4, 9))
def test_the_pages_of_a_text_join_to_the_text(whole: str, size: int) -> None:
    _, pages = page_of(whole, 1, size)

    found = [page_of(whole, number, size)[0] for number in range(1, pages + 1)]

    assert "".join(found) == whole
    assert all(len(one.encode()) <= size + 3 for one in found)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (1, "number"),
        (True, "boolean"),
        ([], "[0]"),
        ([[1.5]], "[1 x [1 x number]]"),
        ({"a": None, "b": "x"}, "{a: null, b: string}"),
        ({"a": {"b": {"c": {"d": 1}}}}, "{a: {b: {c: {1 keys}}}}"),
        (dict.fromkeys(map(str, range(22)), 1), None),
    ],
)
def test_a_shape_is_short(value: Any, wanted: str | None) -> None:
    found = shape(value)

    assert found == wanted or (wanted is None and found.endswith("19: number, 2 more}"))
