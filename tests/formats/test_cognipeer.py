import json
from typing import Any

import pytest

from covalt_git.formats import recognition
from covalt_git.formats.documents import FormatError
from covalt_git.formats.table import TOOLSET
from covalt_git.http_tools.request import RequestBuilder
from covalt_git.models.tool_properties import HttpRequest
from covalt_git.templating.references import Reference
from tests.formats import laws

COGNIPEER = recognition.find_format("cognipeer")
DEPTHS = (laws.FIXTURES / "cognipeer" / "depths.json").read_bytes()


def tools_of(content: bytes) -> list[Any]:
    (manifest,) = laws.reading(content, COGNIPEER).imported.toolsets
    tools: list[Any] = manifest["tools"]
    return tools


def secret(reference: Reference) -> str:
    return f"<{reference.name}>"


def without(content: Any, path: tuple[str | int, ...]) -> bytes:
    """Return the document without the value at a place."""
    found = content
    for key in path[:-1]:
        found = found[key]
    del found[path[-1]]
    return json.dumps(content).encode()


@pytest.mark.requirement(
    "cognipeer-name",
    "cognipeer-label",
    "cognipeer-actions",
    "cognipeer-actions.name",
    "cognipeer-actions.api",
    "cognipeer-api.url",
    "cognipeer-api.method",
)
@pytest.mark.parametrize(
    "path",
    [
        ("name",),
        ("label",),
        ("actions",),
        ("actions", 0, "name"),
        ("actions", 0, "api"),
        ("actions", 0, "api", "url"),
        ("actions", 0, "api", "method"),
    ],
)
def test_a_document_without_a_required_key_is_refused(path: tuple[str | int, ...]) -> None:
    with pytest.raises(FormatError) as caught:
        laws.reading(without(json.loads(DEPTHS), path), COGNIPEER)

    (problem,) = caught.value.problems
    assert repr(path[-1]) in problem.message


@pytest.mark.requirement(
    "cognipeer-parameter.required", "cognipeer-parameter.nested", "cognipeer-parameter.items"
)
def test_required_is_a_list_at_every_depth() -> None:
    schema = tools_of(DEPTHS)[0]["input_schema"]
    body = schema["properties"]["body"]

    assert schema["required"] == ["customer", "order", "body"]
    assert schema["properties"]["required"] == {
        "type": "string",
        "description": "A property with this name.",
    }
    assert "required" not in body
    assert body["properties"]["address"]["required"] == ["street"]
    assert body["properties"]["lines"]["items"]["required"] == ["sku"]


@pytest.mark.requirement(
    *("cognipeer-document", "cognipeer-api.url", "cognipeer-api.method", "cognipeer-api.headers")
)
def test_arguments_are_placed_as_the_note_describes() -> None:
    """Names of the path first, ``body`` as JSON, all others in the query."""
    http = HttpRequest.model_validate(tools_of(DEPTHS)[0]["http"])
    body = {"address": {"street": "Main"}}
    args = {"customer": "a/b", "order": "7", "notify": True, "required": "x", "body": body}
    request = RequestBuilder(http, args, secret, secret, str.encode).build()

    assert request.method == "PUT"
    assert request.url == (
        "https://orders.example.com/v2/a%2Fb/orders/7?dry=1&notify=true&required=x"
    )
    assert json.loads(request.content) == body
    assert dict(request.headers)["Authorization"] == "Bearer <ORDERS_TOKEN>"
    assert dict(request.headers)["X-Cost"] == "5$ and $args"


def test_arguments_of_a_json_body_are_written_as_one_argument() -> None:
    manifest = """
id: shop
name: Shop
version: "1"
tools:
  - id: add
    http: {method: POST, url: "https://a.example/{shop}/items", query: {v: "2"}, parameters: {page: {in: query}}}
    input_schema:
      type: object
      properties: {shop: {type: string}, page: {type: integer}, sku: {type: string}, size: {type: integer}}
      required: [shop, sku]
"""
    done = laws.converted(manifest.encode(), TOOLSET, COGNIPEER, "toolset.yaml")
    (text,) = done.files.values()
    action = json.loads(text)["actions"][0]

    assert action["api"] == {"url": "https://a.example/{shop}/items?v=2", "method": "POST"}
    assert action["parameters"] == {
        "type": "object",
        "properties": {
            "shop": {"type": "string", "required": True},
            "page": {"type": "integer"},
            "body": {
                "type": "object",
                "properties": {
                    "sku": {"type": "string", "required": True},
                    "size": {"type": "integer"},
                },
                "required": True,
            },
        },
    }
    (tool,) = tools_of(text)
    assert tool["input_schema"]["required"] == ["shop", "body"]
    assert tool["input_schema"]["properties"]["body"]["required"] == ["sku"]


@pytest.mark.requirement("cognipeer-parameter.enum", "cognipeer-parameter.format")
def test_limits_of_a_parameter_are_those_of_the_tool() -> None:
    limits = {"type": "string", "enum": ["a", "b"], "format": "date", "required": True}
    document = json.loads(DEPTHS)
    document["actions"][0]["parameters"]["properties"]["kind"] = limits
    schema = tools_of(json.dumps(document).encode())[0]["input_schema"]

    assert schema["properties"]["kind"] == {"type": "string", "enum": ["a", "b"], "format": "date"}
    assert "kind" in schema["required"]


def test_what_an_action_cannot_send_is_reported() -> None:
    manifest = """
id: shop
name: Shop
version: "1"
tools:
  - {id: a, http: {url: "https://a.example/", headers: {X-Id: $args.id}}, input_schema: {type: object, properties: {id: {type: string}}}}
  - {id: b, http: {method: POST, url: "https://a.example/", body: form}}
"""
    done = laws.converted(manifest.encode(), TOOLSET, COGNIPEER, "toolset.yaml")

    assert {one.pointer: one.reason for one in done.lost} == {
        "/tools/0/http/headers/X-Id": "Cognipeer cannot insert arguments here",
        "/tools/1/http/body": "Cognipeer sends a JSON body that is one argument",
        "/version": "Cognipeer has no field for it",
    }
