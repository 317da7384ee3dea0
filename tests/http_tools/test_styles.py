"""The styles of OpenAPI: the bytes of each style, with and without explode, for each kind of value and place."""

from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covalt_git.http_client import ClientRequest
from covalt_git.http_tools.request import BadRequestError, RequestBuilder
from covalt_git.models.tool_properties import HttpRequest
from covalt_git.templating.url_templates import is_within_folder
from tests.examples import examples
from tests.tables import tables

TABLES = tables(__file__)
FILES: dict[str, bytes] = {}
VALUES: list[Any] = ["", "blue", ["blue", "black", "brown"], {"R": 100, "G": 200, "B": 150}]
CASES = [
    (place, style, explode, value, expected)
    for place, style, explode, *row in TABLES["table"]
    for value, expected in zip(VALUES, row, strict=True)
]


def built(place: str, parameter: dict[str, Any], value: Any) -> ClientRequest:
    path = "/v1/{color}" if place == "path" else "/v1/x"
    http = {
        "method": "POST",
        "url": f"https://a.example{path}",
        "parameters": {"color": {"in": place, **parameter}},
        "body": "form",
    }
    model = HttpRequest.model_validate(http)
    return RequestBuilder(
        model, {"color": value}, lambda _: None, lambda _: None, FILES.__getitem__
    ).build()


def encoded(place: str, request: ClientRequest) -> str:
    """Return the part of a request that has the parameter."""
    headers = dict(request.headers)
    match place:
        case "path":
            return urlsplit(request.url).path.removeprefix("/v1/")
        case "query":
            return urlsplit(request.url).query
        case "body":
            return request.content.decode()
        case _:
            return headers["Cookie" if place == "cookie" else "color"]


@pytest.mark.parametrize(("place", "style", "explode", "value", "expected"), CASES)
def test_a_value_has_the_bytes_of_the_table(
    place: str, style: str, explode: Any, value: Any, expected: str | None
) -> None:
    parameter = {"style": style, "explode": explode}
    if expected is None:
        with pytest.raises(BadRequestError):
            built(place, parameter, value)
        return

    assert encoded(place, built(place, parameter, value)) == expected


@pytest.mark.parametrize(("place", "style", "explode", "value"), TABLES["ambiguous"])
def test_a_value_that_the_host_would_divide_elsewhere_is_refused(
    place: str, style: str, explode: Any, value: Any
) -> None:
    with pytest.raises(BadRequestError) as caught:
        built(place, {"style": style, "explode": explode}, value)

    assert caught.value.place == "$.color"


@pytest.mark.parametrize(("value", "expected"), TABLES["reserved"])
def test_reserved_characters_that_do_not_end_a_value_can_stay(value: str, expected: str) -> None:
    assert encoded("query", built("query", {"allow_reserved": True}, value)) == expected


@pytest.mark.parametrize("place", ["query", "cookie", "body"])
def test_a_key_of_an_exploded_object_cannot_be_another_argument(place: str) -> None:
    http = {
        "method": "POST",
        "url": "https://a.example/x",
        "parameters": {
            "color": {"in": place, "style": "comma", "explode": True},
            "environment": {"in": place, "name": "env"},
        },
        "body": "form",
    }
    args = {"color": {"ENV": "prod"}, "environment": "dev"}
    model = HttpRequest.model_validate(http)

    with pytest.raises(BadRequestError) as caught:
        RequestBuilder(model, args, lambda _: None, lambda _: None, FILES.__getitem__).build()

    assert caught.value.place == "$.color"


TEXTS = st.text() | st.sampled_from(
    [
        "..",
        "%2e%2e",
        "%252e%252e",
        ".",
        "../..",
        "..\\x",
        "a/../../..",
        "..;a",
        "\0",
        "\r\n",
        "//b.example",
    ]
)
SCALARS = TEXTS | st.integers() | st.booleans()


@settings(max_examples=examples(2500), deadline=None)
@given(
    st.sampled_from(
        ["/v1/{color}", "/v1/x{color}", "/v1/{color}/y", "/v1/{+color}", "/v1/{color}{color}"]
    ),
    st.sampled_from([None, "comma", "label", "matrix", "json"]),
    st.booleans(),
    SCALARS | st.lists(SCALARS) | st.dictionaries(TEXTS, SCALARS),
)
def test_no_value_of_a_path_leads_out_of_the_prefix(
    path: str, style: str | None, explode: Any, value: Any
) -> None:
    parameter = {"in": "path", "style": style, "explode": explode}
    http = {"url": f"https://a.example{path}", "parameters": {"color": parameter}}
    model = HttpRequest.model_validate(http)
    try:
        request = RequestBuilder(
            model, {"color": value}, lambda _: None, lambda _: None, FILES.__getitem__
        ).build()
    except BadRequestError:
        return

    assert is_within_folder(request.url, "https://a.example/v1/")
    assert request.url.isascii()
    assert not set(request.url) & set("\r\n\0 #?")


@pytest.mark.parametrize(("body", "content"), [("json", b"{}"), ("form", b"")])
def test_a_required_body_is_sent_without_arguments(body: str, content: bytes) -> None:
    http = {"method": "POST", "url": "https://a.example/x", "body": body, "body_required": True}
    model = HttpRequest.model_validate(http)
    request = RequestBuilder(model, {}, lambda _: None, lambda _: None, FILES.__getitem__).build()

    assert request.content == content
    assert "Content-Type" in dict(request.headers)
