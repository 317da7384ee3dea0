"""Real documents, where they are present: each operation is a tool or named with a reason, and styles have their bytes."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from covalt_git.compilers.openapi import compile_openapi
from covalt_git.hosts import HostRule, Reach
from covalt_git.http_client import Deadline, HttpClient
from covalt_git.http_client.client import ClientRequest
from covalt_git.http_tools.request import RequestBuilder
from covalt_git.json_values import canonical_json, json_schema
from covalt_git.models.tool_properties import HttpRequest
from covalt_git.names import is_tool_name
from tests.tables import tables
from tests.wsgi_server import listening

FOLDER = Path(__file__).parents[3] / "shared" / "data" / "openapi"
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the real documents are not here")
STYLES, FORMS = tables(__file__)["styles"], tables(__file__)["forms"]
WHOLE: dict[str, Any] = {
    "primitive": "a b",
    "array": ["x", "y/z"],
    "object": {"name": "n", "description": "d"},
}


@pytest.mark.rest
def test_each_operation_of_the_real_documents_is_a_tool_or_has_a_reason() -> None:
    stats = json.loads((FOLDER / "stats.json").read_text(encoding="utf-8"))
    tools, reasons = 0, list[str]()
    for name, counts in stats.items():
        compilation = compile_openapi((FOLDER / name).read_bytes(), namespace="real", path=name)
        operations = [part for part in compilation.left_out if ":" not in part.upstream]
        operations = [part for part in operations if not part.upstream.startswith("webhook ")]
        assert len(compilation.tools) + len(operations) == counts["operations"], name
        tools += len(compilation.tools)
        reasons += [part.reason for part in operations]
        definitions = {"$defs": dict(compilation.definitions)}
        assert json_schema.schema_problems(definitions) == []
        for tool_name, tool in compilation.tools.items():
            assert is_tool_name(tool_name)
            HttpRequest.model_validate(tool.request)
            assert json_schema.schema_problems(tool.input_schema | definitions) == []
            assert canonical_json.digest(tool.input_schema)

    assert tools + len(reasons) == 641
    assert len(reasons) <= 10
    assert set(reasons) == {"it is internal (x-internal); include can name it"}


def styled(operation: str, base_url: str | None = None) -> ClientRequest:
    """Return the request of an operation of the document of styles."""
    file = FOLDER / "parameters-style-3.0.yaml"
    compilation = compile_openapi(
        file.read_bytes(), namespace="styles", path=file.name, base_url=base_url
    )
    [tool] = [tool for tool in compilation.tools.values() if tool.upstream == operation]
    args = {name: WHOLE[name] for name in tool.input_schema["properties"]}
    http = HttpRequest.model_validate(tool.request)
    return RequestBuilder(http, args, lambda _: None, lambda _: None, lambda _: b"").build()


@pytest.mark.parametrize(("operation", "expected"), FORMS)
def test_a_multipart_form_has_the_bytes_of_the_specification(operation: str, expected: str) -> None:
    bodies = []

    def receive(environ: Any, start: Any) -> list[bytes]:
        boundary = environ["CONTENT_TYPE"].partition("boundary=")[2].encode()
        content = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        bodies.append(content.replace(boundary, b"B"))
        start("204 No Content", [])
        return []

    with listening(receive) as port:
        request = styled(operation, f"http://127.0.0.1:{port}")
        HttpClient(Reach((HostRule.parse(f"127.0.0.1:{port}"),))).send(request, Deadline(20))

    assert bodies == [expected.replace("\n", "\r\n").encode()]


def test_each_operation_of_the_document_of_styles_has_its_bytes() -> None:
    file = FOLDER / "parameters-style-3.0.yaml"
    compilation = compile_openapi(file.read_bytes(), namespace="styles", path=file.name)

    assert {tool.upstream for tool in compilation.tools.values()} == {
        row[0] for row in (*STYLES, *FORMS)
    }


@pytest.mark.parametrize(("operation", "part", "expected"), STYLES)
def test_a_style_has_the_bytes_of_the_specification(
    operation: str, part: str, expected: str
) -> None:
    request = styled(operation)

    headers = {name.lower(): value for name, value in request.headers}
    url = urlsplit(request.url)
    sent = {
        "path": url.path.removeprefix("/anything/path/"),
        "query": url.query,
        "cookie": headers.get("cookie", ""),
        "header": " ".join(headers.get(name, "") for name in WHOLE),
    }
    assert sent[part] == expected
