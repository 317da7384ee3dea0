"""Documents of an enemy: nothing is fetched, no request leaves the prefix, and each limit is a clear error."""

import json
import posixpath
import re
import socket
import time
import unicodedata
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.compilers.openapi import BadDocumentError, compile_openapi
from covalt_git.http_tools.request import BadRequestError, RequestBuilder
from covalt_git.models.tool_properties import HttpRequest
from covalt_git.templating.references import references


def document(**parts: Any) -> dict[str, Any]:
    return {
        "openapi": "3.1.0",
        "info": {"title": "Hostile", "version": "1"},
        "servers": [{"url": "https://a.example/v1"}],
        "paths": {"/x": {"get": {"responses": {"200": {"description": "ok"}}}}},
    } | parts


def compiled(value: Any, **options: Any) -> Any:
    text = value if isinstance(value, str | bytes) else json.dumps(value)
    return compile_openapi(text, namespace="hostile", path="specs/a.json", **options)


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("https://evil.example/x.json", "URL"),
        ("//evil.example/x.json", "URL"),
        ("file:///etc/passwd", "URL"),
        ("/etc/passwd", "outside"),
        ("../../etc/passwd", "outside"),
        ("..%2F..%2Fetc/passwd", "outside"),
        ("..\\..\\x", "outside"),
        ("b\u0000.json", "outside"),
        ("missing.json#/x", "does not exist"),
        ("#/components/schemas/Missing", "leads nowhere"),
        ("#missing", "anchor"),
        ("#/%FF", "UTF-8"),
    ],
)
def test_a_reference_out_of_the_folder_is_never_read(
    reference: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a socket or a file")

    asked: list[str] = []
    parameter = {"name": "q", "in": "query", "schema": {"$ref": reference}}
    operation = {"parameters": [parameter], "responses": {}}
    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr("builtins.open", refuse)

    compilation = compiled(document(paths={"/x": {"get": operation}}), read_file=asked.append)

    assert [path for path in asked if path != "specs/missing.json"] == []
    [problem] = compilation.problems
    assert reason in problem.message
    assert (problem.path, problem.severity) == ("specs/a.json", "warning")
    assert problem.col > 1
    assert compilation.tools["x.list"].input_schema["properties"] == {"q": {}}


def test_references_in_extensions_and_examples_are_not_read() -> None:
    data = {"$ref": "https://evil.example"}
    schema = {"type": "object", "x-note": data, "example": data, "default": data, "enum": [data]}
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}}
    paths = {"/x": {"x-more": data, "post": {"x-y": data, "requestBody": body, "responses": {}}}}

    compilation = compiled(document(paths=paths, components={"schemas": {"A": schema}}))

    assert compilation.problems == ()
    assert list(compilation.tools) == ["x.create"]


def test_an_extension_is_no_component_but_a_name_can_begin_like_it() -> None:
    schemas = {"x-ray": {"type": "object", "properties": {"x-bone": {"type": "string"}}}}
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/x-ray"}}}}
    paths = {"/x": {"post": {"requestBody": body, "responses": {}}}}

    tool = compiled(document(paths=paths, components={"schemas": schemas})).tools["x.create"]

    assert list(tool.input_schema["properties"]) == ["x-bone"]


BOMB = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{after}: &{after} [{','.join(['*' + name] * 10)}]\n"
    for name, after in zip("abcdefghi", "bcdefghij", strict=True)
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" * 100_000, "nested"),
        ('{"a":' * 100_000, "nested"),
        (
            json.dumps(document())[:-1] + ',"x":' + '{"allOf":[' * 100_000 + "]}" * 100_000 + "}",
            "nested",
        ),
        ("{" * 100_000 + "a: 1", ""),
        (BOMB, "values"),
        ("[" + "0," * 2_000_001 + "0]", "values"),
        (" " * 20_000_001, "bytes"),
        pytest.param("- a\n" * 2_100_000, "values", marks=pytest.mark.rest),
        ('{"openapi": "3.1.0", "openapi": "3.1.0"}', "twice"),
        ('{"openapi": 1' + "0" * 100_000 + "}", "digits"),
        ('{"openapi": 1e999}', "too large"),
        ('{"openapi": NaN}', "NaN"),
        (b"\xff\xfe{", "UTF-8"),
        ("", "not an OpenAPI document"),
        ("[]", "not an OpenAPI document"),
        ('{"openapi": "4.0.0"}', "not an OpenAPI document"),
        ('{"swagger": 2}', "not an OpenAPI document"),
    ],
    ids=lambda value: None if isinstance(value, str) and len(value) < 40 else "text",
)
def test_a_document_above_a_limit_is_a_clear_error(text: str | bytes, words: str) -> None:
    begin = time.process_time()

    with pytest.raises(BadDocumentError) as caught:
        compiled(text)

    assert words in str(caught.value)
    assert time.process_time() - begin < 10


@pytest.mark.parametrize(
    "path",
    [
        "/a/../b",
        "/{x}/..",
        "/%2e%2e/b",
        "/%252E%252e",
        "/a/.",
        "relative",
        "/..;x/b",
        "/a\\..\\b",
        "/a/\u2025/b",
    ],
)
def test_a_path_that_leads_up_is_no_tool(path: str) -> None:
    compilation = compiled(document(paths={path: {"get": {"responses": {}}}}))

    assert compilation.tools == {}
    assert len(compilation.left_out) == 1


@pytest.mark.parametrize(
    "url",
    [
        "https://user@b.example",
        "https://b.example?x=1",
        "https://{x}",
        "ftp://b.example",
        "https://a b.example",
        "https://b.example\\@c.example",
        "https://${SECRET}.example",
        "https://127.1/",
    ],
)
def test_a_server_with_an_ambiguous_host_gives_no_tool(url: str) -> None:
    compilation = compiled(document(servers=[{"url": url}]))

    assert compilation.tools == {}
    assert "server" in compilation.left_out[0].reason


def test_no_text_of_a_document_becomes_a_reference_to_a_secret_or_an_expression() -> None:
    evil = "${SECRET}$args.a${env:HOME}"
    paths = {
        "/$args.a$$/{a}": {
            "post": {
                "parameters": [
                    {"name": "a", "in": "path", "required": True},
                    {"name": evil, "in": "query", "schema": {}},
                    {"name": evil, "in": "header", "schema": {}},
                ],
                "requestBody": {"content": {f"text/{evil}": {"schema": {"type": "string"}}}},
                "responses": {},
            }
        }
    }
    [tool] = compiled(document(paths=paths)).tools.values()

    request = HttpRequest.model_validate(tool.request)
    assert [
        *references(request.url),
        *references(request.headers),
        *references(request.query),
    ] == []
    args = {"a": "1", evil: "2", "body": "3"}
    built = RequestBuilder(
        request, args, lambda _: "s3cret", lambda _: "s3cret", lambda _: b""
    ).build()
    assert "s3cret" not in built.url
    assert built.url.startswith("https://a.example/v1/$args.a$$/1?")


@pytest.mark.parametrize("value", ["..", "%2e%2e", ".", "a/../../b", "\r\n", "\0", ""])
def test_a_value_that_leads_out_of_the_prefix_is_refused(value: str) -> None:
    paths = {
        "/x/{a}/y": {
            "get": {
                "parameters": [
                    {"name": "a", "in": "path", "required": True, "schema": {"type": "string"}}
                ],
                "responses": {},
            }
        }
    }
    [tool] = compiled(document(paths=paths)).tools.values()
    request = HttpRequest.model_validate(tool.request)

    with pytest.raises(BadRequestError):
        RequestBuilder(request, {"a": value}, lambda _: None, lambda _: None, lambda _: b"").build()


@pytest.mark.parametrize(
    "schema",
    [
        *(
            {"type": "anything"},
            {"type": 1},
            {"type": []},
            {"enum": {}},
            {"minimum": "1"},
            {"maxLength": -1},
        ),
        *(
            {"pattern": "(?=a)"},
            {"pattern": "("},
            {"pattern": 1},
            {"allOf": {}},
            {"properties": []},
        ),
        *(
            {"required": True},
            {"required": [1, "a", "a"]},
            {"items": 1},
            {"anyOf": []},
            1,
            "x",
            [],
            True,
            False,
        ),
        *({"multipleOf": 0}, {"patternProperties": {"(": {}}}, {"enum": [2**70]}, {"const": 2**70}),
        *({"default": 2**70, "maximum": 2**70, "minimum": -(2**70)}, {"exclusiveMinimum": True}),
        *(
            {"$ref": 1},
            {"discriminator": 1, "oneOf": [{}]},
            {"uniqueItems": 1},
            {"format": 1},
            {"not": 1},
        ),
    ],
    ids=str,
)
def test_a_wrong_keyword_leaves_the_tool_usable(schema: Any) -> None:
    from covalt_git.json_values import canonical_json, json_schema  # noqa: PLC0415

    parameter = {
        "name": "q",
        "in": "query",
        "schema": {"type": "object", "properties": {"a": schema}},
    }
    paths = {"/x": {"get": {"parameters": [parameter], "responses": {}}}}
    [tool] = compiled(document(paths=paths)).tools.values()

    assert json_schema.schema_problems(tool.input_schema) == []
    assert canonical_json.dumps(tool.input_schema)


def test_an_integer_beyond_2_53_is_within_the_limits_that_allow_it() -> None:
    from covalt_git.json_values import json_schema  # noqa: PLC0415

    parameter = {
        "name": "q",
        "in": "query",
        "schema": {"type": "integer", "format": "int64", "maximum": 2**63 - 1, "minimum": -(2**63)},
    }
    paths = {"/x": {"get": {"parameters": [parameter], "responses": {}}}}
    [tool] = compiled(document(paths=paths)).tools.values()

    args = json_schema.with_integers(tool.input_schema, {"q": str(2**63 - 1)})
    assert json_schema.value_problems(tool.input_schema, args) == []
    request = HttpRequest.model_validate(tool.request)
    built = RequestBuilder(request, args, lambda _: None, lambda _: None, lambda _: b"").build()
    assert built.url.endswith(f"?q={2**63 - 1}")


@pytest.mark.rest
def test_time_is_linear_in_the_operations() -> None:
    def seconds(operations: int) -> float:
        ref = {"$ref": "#/components/schemas/S0"}
        paths = {
            f"/things{number}/{{id}}": {
                "get": {
                    "operationId": f"get{number}",
                    "parameters": [
                        {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
                    ],
                    "responses": {
                        "200": {
                            "description": "ok",
                            "content": {"application/json": {"schema": ref}},
                        }
                    },
                }
            }
            for number in range(operations)
        }
        schemas = {
            f"S{number}": {
                "properties": {
                    "next": {"$ref": f"#/components/schemas/S{(number + 1) % operations}"}
                }
            }
            for number in range(operations)
        }
        text = json.dumps(document(paths=paths, components={"schemas": schemas}))
        begin = time.process_time()
        assert len(compiled(text).tools) == operations
        return time.process_time() - begin

    seconds(100)
    assert min(seconds(1600) for _ in range(2)) < 3.5 * min(seconds(800) for _ in range(2))


def test_circular_references_of_all_kinds_end() -> None:
    schemas = {
        "A": {"$ref": "#/components/schemas/B"},
        "B": {"$ref": "#/components/schemas/A"},
        "C": {"allOf": [{"$ref": "#/components/schemas/C"}], "required": ["a"]},
        "D": {"properties": {"d": {"$ref": "#/components/schemas/D"}}},
    }
    parameters = {"P": {"$ref": "#/components/parameters/P"}}
    operation = {
        "parameters": [{"$ref": "#/components/parameters/P"}],
        "requestBody": {
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/C"}}}
        },
        "responses": {
            "200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/A"}}}}
        },
    }
    paths = {"/x": {"post": operation}, "/y": {"$ref": "#/paths/~1y"}}

    compilation = compiled(
        document(paths=paths, components={"schemas": schemas, "parameters": parameters})
    )

    assert list(compilation.tools) == ["x.create"]
    assert {problem.message for problem in compilation.problems} == {
        "this $ref leads back to itself"
    }


_PIECES = [
    *("..", ".", "/", "\\", "%2e", "%2E%2e", "%252e", "%2f", "%5c", "%00", ";", "?", "#", "@", ":"),
    *(
        "\0",
        "\r\n",
        "\t",
        "\x7f",
        "\x85",
        "\u2028",
        "\u2024\u2024",
        "\uff0e\uff0e",
        "\uff0f",
        "\u2215",
    ),
    *("//evil.example", "http://evil.example", "..;", "=", ",", "&", "|", "%", "a", " ", "é"),
]
_TEXTS = st.one_of(st.lists(st.sampled_from(_PIECES), max_size=4).map("".join), st.text(max_size=4))
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": _TEXTS,
    "array": st.lists(_TEXTS, max_size=2),
    "object": st.dictionaries(_TEXTS, _TEXTS, max_size=2),
}


def _in_path(kind: str, style: str, *, explode: bool) -> dict[str, Any]:
    parameter = {"name": "value", "in": "path", "required": True, "schema": {"type": kind}}
    return {
        "parameters": [parameter | {"style": style, "explode": explode}],
        "responses": {},
    }


_PREFIX_PATHS = {
    f"/{kind}/{style}{explode:d}/x/{{value}}/y": {"get": _in_path(kind, style, explode=explode)}
    for kind in _VALUES
    for style in ("simple", "label", "matrix")
    for explode in (False, True)
}


def _targets(url: str) -> Iterator[str]:
    """Yield the path of a URL as servers and proxies can understand it, decoded and without dots."""
    path = urlsplit(url).path
    for _ in range(3):
        for separated in (path, path.replace("\\", "/")):
            # Some servers cut the parameters of a segment before they look for dots.
            yield posixpath.normpath(separated)
            yield posixpath.normpath(re.sub(r";[^/]*", "", separated))
        path = unicodedata.normalize("NFKC", unquote(path))


@pytest.mark.parametrize("count", [500, pytest.param(100_000, marks=pytest.mark.rest)])
def test_no_value_of_a_path_leaves_the_prefix_of_the_server(count: int) -> None:
    compilation = compiled(document(paths=_PREFIX_PATHS))
    requests: dict[str, list[HttpRequest]] = {kind: [] for kind in _VALUES}
    for tool in compilation.tools.values():
        requests[tool.upstream.split("/")[1]].append(HttpRequest.model_validate(tool.request))
    pairs = st.sampled_from(list(_VALUES)).flatmap(
        lambda kind: st.tuples(st.sampled_from(requests[kind]), _VALUES[kind])
    )
    sent = 0

    @settings(max_examples=count, deadline=None, database=None, derandomize=True)
    @given(pairs)
    def build(pair: tuple[HttpRequest, Any]) -> None:
        nonlocal sent
        request, value = pair
        try:
            built = RequestBuilder(
                request, {"value": value}, lambda _: None, lambda _: None, lambda _: b""
            ).build()
        except BadRequestError:
            return
        sent += 1
        assert re.fullmatch(r"https://a\.example/v1/[!-~]*", built.url), built.url
        assert urlsplit(built.url)[3:] == ("", "")
        for target in _targets(built.url):
            assert target.startswith("/v1/"), built.url

    build()
    assert sent > count / 10
